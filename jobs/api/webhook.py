"""Documentation of the webhooks.

`jobs.lifecycle.webhook_events` builds the payload of `job.terminal`, `webhooks.low_credits` that of
`account.credits_low`.
"""

from typing import Annotated, Literal, NotRequired, TypedDict

from django.conf import settings

from jobs import api_mode
from jobs.api.base import EXAMPLE_COMPLETED, EXAMPLE_JOB_ID
from jobs.enums import ErrorCode
from simservice.api.operations import WEBHOOKS, Body, Parameter, Webhook
from simservice.shapes import Id, Rule, Time
from webhooks.models import LOW_CREDITS


class TerminalPayload(TypedDict):
    """A job that has ended."""

    id: Id
    status: Literal["completed", "failed", "cancelled", "timed_out"]
    statusReason: Annotated[str | None, "Why the job did not complete, as a sentence"]
    errorCode: NotRequired[
        Annotated[ErrorCode | None, "Why the job did not complete, as a code. Some deployments omit it"]
    ]


class TerminalEvent(TypedDict):
    """The event of a job that has ended."""

    kind: Literal["job.terminal"]
    version: Literal["v1"]
    timestamp: Annotated[Time, "When the event was created"]
    payload: TerminalPayload


class CreditsLowPayload(TypedDict):
    """The credits of an account that is low on credits."""

    available: Annotated[int, Rule(minimum=0), "Credits that the account can spend, except those reserved for jobs"]
    threshold: Annotated[int, Rule(minimum=1), "The threshold that an owner set"]


class CreditsLowEvent(TypedDict):
    """The event of credits that dropped below the account's threshold."""

    kind: Literal["account.credits_low"]
    version: Literal["v1"]
    timestamp: Annotated[Time, "When the event was created"]
    payload: CreditsLowPayload


EXAMPLE_CREDITS_LOW: CreditsLowEvent = {
    "kind": LOW_CREDITS,
    "version": "v1",
    "timestamp": EXAMPLE_COMPLETED,
    "payload": {"available": 48_211, "threshold": 50_000},
}
EXAMPLE_PAYLOAD: TerminalPayload = {"id": EXAMPLE_JOB_ID, "status": "completed", "statusReason": None}
if api_mode.current().webhook_has_error_code:
    EXAMPLE_PAYLOAD["errorCode"] = None
EXAMPLE_EVENT: TerminalEvent = {
    "kind": "job.terminal",
    "version": "v1",
    "timestamp": EXAMPLE_COMPLETED,
    "payload": EXAMPLE_PAYLOAD,
}


def _header(name: str, *, pattern: str, description: str, example: str) -> Parameter:
    """Return a header of webhook requests; its name starts with the brand of the service."""
    return Parameter(
        name=f"X-{settings.SERVICE_BRAND}-{name}",
        location="header",
        shape=Annotated[str, Rule(pattern=pattern)],
        description=description,
        example=example,
        required=True,
    )


HEADERS = [
    _header(
        "Signature",
        pattern="^t=[0-9]+(,v1=[0-9a-f]{64})+$",
        description="Time of the attempt in Unix seconds, and the HMAC-SHA256 of the time, a dot and the body, "
        "computed with the signing secret. During the overlap of a rotation, a second `v1` is computed with "
        "the new secret.",
        example=f"t=1795162214,v1={'6f1c' * 16}",
    ),
    _header(
        "Event-Id",
        pattern="^evt_[0-9a-f]{32}$",
        description="Identifies the event. The same in every attempt.",
        example="evt_5f0c8a1e9d3b47c2a6e4f1b09d8c7a63",
    ),
    _header(
        "Delivery-Id",
        pattern="^dlv_[0-9a-f]{32}$",
        description="Identifies the attempt.",
        example="dlv_0b6c4d2f8e1a4c3b9d7e5f6a1b2c3d4e",
    ),
]
RESPONSES = {
    "2XX": "Delivered.",
    "408": "Retried later.",
    "429": "Retried later. `Retry-After` can extend the wait.",
    "5XX": "Retried later, like a request without a complete response within ten seconds. `Retry-After` can "
    "extend the wait.",
    "default": "Not retried. Redirects are not followed.",
}
WEBHOOKS["job.terminal"] = Webhook(
    id="jobTerminal",
    summary="A job has ended",
    description="Sent to the webhook of the client whose API key submitted the job, if the submission requested "
    "it. The same event can arrive more than once; its event id does not change.",
    headers=HEADERS,
    body=Body(shape=TerminalEvent, examples={"completed": EXAMPLE_EVENT}),
    responses=RESPONSES,
)
WEBHOOKS[LOW_CREDITS] = Webhook(
    id="accountCreditsLow",
    summary="Credits are low",
    description="Sent to webhooks with low-credit events turned on when the account's available credits drop below "
    "the threshold. Sent again when they have risen and drop again, at most once an hour.",
    headers=HEADERS,
    body=Body(shape=CreditsLowEvent, examples={"low": EXAMPLE_CREDITS_LOW}),
    responses=RESPONSES,
)
