"""`GET /v1/{resource}/credits`: what an account has (contract, section 4)."""

from typing import Protocol, TypedDict, cast

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing import ledger
from billing.ledger import Balances, OpenGrant
from billing.models import Account
from simservice.api.fields import iso_or_none


class GrantObject(TypedDict):
    """A grant of which something is left; `expiresAt` is null when it never expires."""

    id: str
    reason: str
    remaining: int
    original: int
    expiresAt: str | None


class Credits(TypedDict):
    """What can be spent is `purchased` and all that remains of the grants; `reserved` is in neither."""

    purchased: int
    reserved: int
    grants: list[GrantObject]


class Payer(Protocol):
    """The part of a caller that billing knows."""

    @property
    def account(self) -> Account: ...


class CreditsView(APIView):
    """`GET /v1/{resource}/credits`"""

    def get(self, request: Request) -> Response:
        account = cast(Payer, request.user).account
        return Response(credits_object(ledger.balances(account)))


def credits_object(balances: Balances) -> Credits:
    """Return balances in the contract's words."""
    return {
        "purchased": balances.purchased,
        "reserved": balances.reserved,
        "grants": [grant_object(grant) for grant in balances.grants],
    }


def grant_object(grant: OpenGrant) -> GrantObject:
    """Return one open grant in the contract's words."""
    return {
        "id": str(grant.id),
        "reason": grant.reason,
        "remaining": grant.remaining,
        "original": grant.original,
        "expiresAt": iso_or_none(grant.expires_at),
    }
