"""What became of events and of their attempts, in plain words for people."""

from webhooks.models import Delivery, Event

STATES = {
    Event.State.WAITING: "Waiting",
    Event.State.SENDING: "Being sent",
    Event.State.DELIVERED: "Delivered",
    Event.State.FAILED: "Given up",
}
FAILURES = {
    Event.Failure.REJECTED: "The receiver refused it, and would do so again.",
    Event.Failure.EXHAUSTED: "All attempts failed.",
    Event.Failure.DISABLED: "The webhook was disabled before it was delivered.",
}
OUTCOMES = {
    Delivery.Outcome.SENDING: "Under way",
    Delivery.Outcome.DELIVERED: "Delivered",
    Delivery.Outcome.FAILED: "Failed",
    Delivery.Outcome.REJECTED: "Refused",
    Delivery.Outcome.LOST: "Unknown: it was interrupted",
}
PROBLEMS = {
    Delivery.Problem.ADDRESS: "Address not allowed",
    Delivery.Problem.DNS: "Name not found",
    Delivery.Problem.CONNECTION: "No connection",
    Delivery.Problem.TLS: "TLS failed",
    Delivery.Problem.TIMEOUT: "Too slow",
    Delivery.Problem.PROTOCOL: "Not valid HTTP",
    Delivery.Problem.INTERNAL: "Our own fault",
}


def state(event: Event) -> str:
    """Return how an event stands."""
    return STATES[Event.State(event.state)]


def failure(event: Event) -> str:
    """Return why an event was given up, empty when it was not."""
    return FAILURES[Event.Failure(event.failure)] if event.failure else ""


def outcome(delivery: Delivery) -> str:
    """Return how an attempt ended."""
    return OUTCOMES[Delivery.Outcome(delivery.outcome)]


def problem(delivery: Delivery) -> str:
    """Return what kept an attempt from being answered, empty when it was answered."""
    return PROBLEMS[Delivery.Problem(delivery.problem)] if delivery.problem else ""
