"""The points between taking an event and writing down what came of it at which a delivery worker can die."""

from functools import partial

from tests.faults.points import Arm, Happening, after, before
from webhooks import delivery, dispatcher, http_client


def after_claim(happening: Happening) -> None:
    """Let something happen once events were taken and that is committed."""
    claim = delivery.claim

    def reached(lane: delivery.Lane, *, room: int) -> list[delivery.Attempt]:
        attempts = claim(lane, room=room)
        if attempts:
            happening()
        return attempts

    delivery.claim = reached


# In the order in which a worker passes them.
POINTS: dict[str, Arm] = {
    "taken, not committed": partial(after, delivery, "take"),
    "taken": after_claim,
    "before the request": partial(before, dispatcher, "deliver"),
    "connected": partial(after, http_client, "connect"),
    "TLS made": partial(after, http_client, "secure"),
    "request sent": partial(before, http_client, "read"),
    "answered": partial(after, dispatcher, "deliver"),
    "before it is written down": partial(before, delivery, "record"),
    "logged, not committed": partial(after, delivery, "end_delivery"),
    "health noted, not committed": partial(after, delivery, "note_health"),
    "written down": partial(after, delivery, "record"),
}
