"""Credits of the account: `GET /v1/{resource}/credits`."""

from typing import Annotated, Protocol, TypedDict, cast

from rest_framework.request import Request
from rest_framework.response import Response

from billing import ledger
from billing.ledger import Balances, OpenGrant
from billing.models import Account, GrantReason
from simservice.api.endpoint import Endpoint
from simservice.api.operations import Operation, ResponseSpec, documented
from simservice.api.times import iso_or_none
from simservice.shapes import Count, Id, Time


class GrantObject(TypedDict):
    """A grant that has credits left."""

    id: Id
    reason: GrantReason
    note: Annotated[str | None, "Text from the operator. Null for automatic grants"]
    remaining: Annotated[Count, "Credits that are left"]
    original: Annotated[Count, "Credits that were granted"]
    expiresAt: Annotated[Time | None, "Null if the grant does not expire"]


class Credits(TypedDict):
    """Credits of an account. The account can spend `purchased` and the remaining credits of all grants."""

    purchased: Annotated[Count, "Purchased credits that are left"]
    reserved: Annotated[Count, "Credits reserved for jobs that have not ended"]
    grants: Annotated[list[GrantObject], "In the order in which they are spent: the first to expire comes first"]


class Payer(Protocol):
    """A caller that has an account."""

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
    summary="Get credits",
    description="The account can spend `purchased` and the `remaining` credits of each grant. Neither includes "
    "`reserved`.",
    returns=ResponseSpec(description="Credits of the account.", shape=Credits, example=EXAMPLE),
)


class CreditsView(Endpoint):
    """`GET /v1/{resource}/credits`"""

    @documented(GET_CREDITS)
    def get(self, request: Request) -> Response:
        account = cast(Payer, request.user).account
        return Response(credits_object(ledger.balances(account)))


def credits_object(balances: Balances) -> Credits:
    """Return the body of `GET credits` (docs/reference/api.md#credits)."""
    return {
        "purchased": balances.purchased,
        "reserved": balances.reserved,
        "grants": [_grant_object(grant) for grant in balances.grants],
    }


def _grant_object(grant: OpenGrant) -> GrantObject:
    """Return the JSON of a grant."""
    return {
        "id": str(grant.id),
        "reason": GrantReason(grant.reason),
        "note": grant.note or None,
        "remaining": grant.remaining,
        "original": grant.original,
        "expiresAt": iso_or_none(grant.expires_at),
    }
