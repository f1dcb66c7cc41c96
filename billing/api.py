"""`GET /v1/{resource}/credits`: the balances of an account (`docs/reference/contract.md#credits`)."""

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
    """A grant with credits left to spend."""

    id: Id
    reason: GrantReason
    note: Annotated[str | None, "The operator's note; null for automatic grants"]
    remaining: Count
    original: Count
    expiresAt: Annotated[Time | None, "Null if the grant never expires"]


class Credits(TypedDict):
    """Balances of an account. Available credits are the sum of `purchased` and `remaining` of each grant."""

    purchased: Count
    reserved: Annotated[Count, "Reserved for jobs that have not ended"]
    grants: Annotated[list[GrantObject], "In spending order: soonest expiry first"]


class Payer(Protocol):
    """The attributes of a caller that billing uses."""

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
    description="Available credits are the sum of `purchased` and each `remaining`. They exclude `reserved`.",
    answers={200: Answer(description="The credits", shape=Credits, example=EXAMPLE)},
)


class CreditsView(Endpoint):
    """`GET /v1/{resource}/credits`"""

    @documented(GET_CREDITS)
    def get(self, request: Request) -> Response:
        account = cast(Payer, request.user).account
        return Response(_credits_object(ledger.balances(account)))


def _credits_object(balances: Balances) -> Credits:
    """Return balances as the API object."""
    return {
        "purchased": balances.purchased,
        "reserved": balances.reserved,
        "grants": [_grant_object(grant) for grant in balances.grants],
    }


def _grant_object(grant: OpenGrant) -> GrantObject:
    """Return a grant as the API object."""
    return {
        "id": str(grant.id),
        "reason": GrantReason(grant.reason),
        "note": grant.note or None,
        "remaining": grant.remaining,
        "original": grant.original,
        "expiresAt": iso_or_none(grant.expires_at),
    }
