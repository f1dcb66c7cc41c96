"""Webhook events of jobs: `docs/reference/webhooks.md#the-request`."""

from typing import Any

from django.db import transaction

from clients.models import Client
from jobs import api_mode
from jobs.enums import Status
from jobs.models import Job
from webhooks import endpoints, events
from webhooks.models import Event

# No job has this id, because ids begin with a time in this century.
TEST_JOB_ID = "0" * 18
TEST_REASON = "This is a test event. The job does not exist."


def end_payload(job: Job, *, status: Status, reason: str | None, error_code: str | None) -> dict[str, Any] | None:
    """Return the payload of the event of a job's end, or None if the job did not request it."""
    if not job.wants_webhook:
        return None
    return _payload(str(job.pk), status=status, reason=reason, error_code=error_code)


def send_test_event(client: Client) -> Event:
    """Send a test event, which looks like that of a completed job, to the client's endpoint.

    Raises EndpointError unless the endpoint is enabled.
    """
    endpoints.require_enabled(client)
    payload = _payload(TEST_JOB_ID, status=Status.COMPLETED, reason=TEST_REASON, error_code=None)
    with transaction.atomic():
        return events.record(client.pk, job_id=None, payload=payload)


def _payload(job_id: str, *, status: Status, reason: str | None, error_code: str | None) -> dict[str, Any]:
    """Return the payload of a `job.terminal` event."""
    payload = {"id": job_id, "status": str(status), "statusReason": reason}
    return payload | ({"errorCode": error_code} if api_mode.current().webhook_has_error_code else {})
