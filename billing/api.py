"""`GET /v1/{resource}/credits`: what an account has (contract, section 4)."""

from typing import Annotated, Protocol, TypedDict, cast

from rest_framework.request import Request
from rest_framework.response import Response

from billing import ledger
from billing.ledger import Balances, OpenGrant
from billing.models import Account, GrantReason
from simservice.api.endpoint import Endpoint
from simservice.api.fields import iso_or_none
from simservice.api.operations import Answer, Operation, documented
from simservice.api.shapes import Count, Id, Time


class GrantObject(TypedDict):
    """A grant of which something is left."""

    id: Id
    reason: GrantReason
    note: Annotated[str | None, "The operator's own text; null for automatic grants"]
    remaining: Count
    original: Count
    expiresAt: Annotated[Time | None, "Null when it never expires"]


class Credits(TypedDict):
    """What an account has. What can be spent is `purchased` and all that remains of the grants."""

    purchased: Count
    reserved: Annotated[Count, "Held for jobs that have not ended"]
    grants: Annotated[list[GrantObject], "In the order in which they are spent: soonest expiry first"]


class Payer(Protocol):
    """The part of a caller that billing knows."""

    @property
    def account(self) -> Account: ...


EXAMPLE: Credits = {
    "purchased": 100_000,
    "reserved": 3_200,
    "grants": [
        {
            "id": "176352841234500007",
            "reason": GrantReason.GRANT_ONBOARDING,
            "note": "Welcome",
            "remaining": 6_400,
            "original": 10_000,
            "expiresAt": "2026-12-31T00:00:00.000Z",
        }
    ],
}
GET_CREDITS = Operation(
    id="getCredits",
    tag="Account",
    summary="Read the account's credits",
    description="What can be spent is `purchased` and each `remaining`; `reserved` is in neither.",
    answers={200: Answer(description="The credits", shape=Credits, example=EXAMPLE)},
)


class CreditsView(Endpoint):
    """`GET /v1/{resource}/credits`"""

    @documented(GET_CREDITS)
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
        "reason": GrantReason(grant.reason),
        "note": grant.note or None,
        "remaining": grant.remaining,
        "original": grant.original,
        "expiresAt": iso_or_none(grant.expires_at),
    }
