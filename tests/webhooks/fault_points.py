"""Points in the delivery of an event at which a worker can be killed."""

from functools import partial

from tests.faults.points import Action, Arm, after, before
from webhooks import claims, dispatcher, retries
from webhooks.connection_pool import Connection, TLSSocket


def after_claim(action: Action) -> None:
    """Run a fault after a claim of at least one event was committed."""
    claim = claims.claim_deliveries

    def reached(pool: claims.SlotPool, *, room: int) -> list[claims.Attempt]:
        attempts = claim(pool, room=room)
        if attempts:
            action()
        return attempts

    claims.claim_deliveries = reached


# In the order in which a worker reaches them.
POINTS: dict[str, Arm] = {
    "claimed, not committed": partial(after, claims, "start_attempts"),
    "claimed": after_claim,
    "before the request": partial(before, dispatcher, "make_request"),
    "connected": partial(before, TLSSocket, "do_handshake"),
    "TLS started": partial(after, TLSSocket, "do_handshake"),
    "request sent": partial(before, Connection, "getresponse"),
    "response received": partial(after, dispatcher, "make_request"),
    "before the outcome is recorded": partial(before, retries, "record_responses"),
    "outcome logged, not committed": partial(after, retries, "end_attempts"),
    "health updated, not committed": partial(after, retries, "update_health"),
    "outcome recorded": partial(after, retries, "record_responses"),
}
