"""Labels of events and attempts for pages, and the styles of their badges."""

from webhooks.models import Delivery, Event

STATES = {
    Event.State.WAITING: "Waiting",
    Event.State.SENDING: "Sending",
    Event.State.DELIVERED: "Delivered",
    Event.State.FAILED: "Failed",
}
FAILURES = {
    Event.Failure.REJECTED: "The receiver rejected the event, so it will not be retried.",
    Event.Failure.EXHAUSTED: "All attempts failed.",
    Event.Failure.DISABLED: "The webhook was disabled before the event was delivered.",
}
OUTCOMES = {
    Delivery.Outcome.SENDING: "In progress",
    Delivery.Outcome.DELIVERED: "Delivered",
    Delivery.Outcome.FAILED: "Failed",
    Delivery.Outcome.REJECTED: "Rejected",
    Delivery.Outcome.LOST: "Interrupted, outcome unknown",
}
PROBLEMS = {
    Delivery.Problem.ADDRESS: "Address not allowed",
    Delivery.Problem.DNS: "Host name not found",
    Delivery.Problem.CONNECTION: "Connection failed",
    Delivery.Problem.TLS: "TLS error",
    Delivery.Problem.TIMEOUT: "Timed out",
    Delivery.Problem.PROTOCOL: "Invalid HTTP response",
    Delivery.Problem.INTERNAL: "Internal error",
}
# The badge classes of static/css.
OUTCOME_BADGES = {Delivery.Outcome.DELIVERED: "good", Delivery.Outcome.SENDING: "quiet"}
STATE_BADGES = {Event.State.DELIVERED: "good", Event.State.FAILED: "bad"}


def state(event: Event) -> str:
    """Return the state of an event."""
    return STATES[Event.State(event.state)]


def state_badge(event: Event) -> str:
    """Return the badge class for the state of an event; one that waits for a retry is a warning."""
    return STATE_BADGES.get(Event.State(event.state), "warn" if event.failures else "quiet")


def failure(event: Event) -> str:
    """Return why an event failed, or an empty string if it did not."""
    return FAILURES[Event.Failure(event.failure)] if event.failure else ""


def outcome(delivery: Delivery) -> str:
    """Return the outcome of an attempt."""
    return OUTCOMES[Delivery.Outcome(delivery.outcome)]


def outcome_badge(delivery: Delivery) -> str:
    """Return the badge class for the outcome of an attempt."""
    return OUTCOME_BADGES.get(Delivery.Outcome(delivery.outcome), "bad")


def problem(delivery: Delivery) -> str:
    """Return why an attempt has no response, or an empty string if it has one."""
    return PROBLEMS[Delivery.Problem(delivery.problem)] if delivery.problem else ""
