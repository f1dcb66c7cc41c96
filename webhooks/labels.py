"""Labels of events and attempts, and advice on the responses and certificates of receivers."""

import json
from urllib.parse import urljoin

from webhooks.models import LOW_CREDITS, Delivery, Event

REDIRECT = "Configure the final URL; redirects are not followed."
BY_STATUS = {
    304: "The receiver responded as if the request were for a cached page. It must respond with a 2xx status.",
    401: "The receiver requires a login. Accept requests without one, and verify their signature instead.",
    403: "A firewall or bot protection probably refused the request. Let it allow POST requests to this URL.",
    404: "The receiver has nothing at this URL. Check the path.",
    405: "The receiver does not accept POST requests at this URL. Check the path, and allow POST.",
    410: "The receiver says that this URL is gone for good. Configure the new URL, or disable the webhook.",
}
# By the verification codes of OpenSSL (`X509_V_ERR_…`)
INCOMPLETE_CHAIN = (
    "The receiver sends an incomplete certificate chain, or the certificate authority is not public. "
    "Install the intermediate certificate on the receiver."
)
BY_CERTIFICATE = {
    9: "The certificate is not valid yet. Check the clock of the machine that issued it.",
    10: "The certificate has expired. Renew it, and restart the receiver.",
    18: "The certificate is self-signed. Install one from a public authority.",
    19: "The certificate authority is not public. Install a certificate from a public one.",
    20: INCOMPLETE_CHAIN,
    21: INCOMPLETE_CHAIN,
    62: "Install a certificate that includes the host name of the webhook's URL.",
    64: "Install a certificate that includes the IP address, or use a host name in the webhook's URL.",
}
# Of these, OpenSSL's reason contains the name or address.
MISMATCHES = (62, 64)
REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_TARGET = 200


def status_advice(status: int | None) -> str:
    """Return what an unsuccessful status means and what to do, or an empty string if that is not known."""
    if status is None:
        return ""
    return BY_STATUS.get(status) or (REDIRECT if 300 <= status < 400 else "")


def tls_advice(code: int | None, reason: str) -> str:
    """Return what is wrong with TLS and what to do, by the verification code if a certificate is the problem.

    `reason` is OpenSSL's, without a full stop.
    """
    advice = BY_CERTIFICATE.get(code, "") if code is not None else ""
    if advice and code not in MISMATCHES:
        return advice
    return f"{reason[:1].upper()}{reason[1:]}. {advice}".strip()


def redirect_detail(status: int | None, url: str, location: str) -> str:
    """Return where a response redirects to, shortened and on one line, or an empty string."""
    if status not in REDIRECTS or not location:
        return ""
    try:
        target = urljoin(url, location)
    except ValueError:
        target = location
    shown = "".join(character for character in target if character.isprintable())
    return f"Redirects to {shown if len(shown) <= MAX_TARGET else shown[:MAX_TARGET] + '…'}" if shown else ""


def delivery_advice(delivery: Delivery) -> str:
    """Return the advice on an attempt's response; empty after a problem, whose detail contains it."""
    return "" if delivery.problem else status_advice(delivery.status)


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


def summary(event: Event) -> str:
    """Return what an event reports: the status of its job, low credits, or that it is a test."""
    if event.job_id is None:
        return "Low credits" if kind(event) == LOW_CREDITS else "Test event"
    status = json.loads(bytes(event.body)).get("payload", {}).get("status", "ended")
    return f"Job {str(status).replace('_', ' ')}"


def kind(event: Event) -> str:
    """Return the type of an event."""
    return str(json.loads(bytes(event.body)).get("kind", ""))


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
