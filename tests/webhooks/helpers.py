"""Events and jobs for the tests of webhooks."""

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from billing.models import Account
from clients.models import Client
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job
from tests.factories import make_account, make_client, make_running_job
from webhooks import endpoints, events
from webhooks.claims import claim_deliveries
from webhooks.dispatcher import pools
from webhooks.http_client import Response
from webhooks.models import Endpoint, Event
from webhooks.retries import record_responses

STEADY, FAILING = pools()
COMPLETED = Outcome(status=Status.COMPLETED, sim_duration_ms=1, summary={"metric": "dps", "mainActor": None})


def end_job(client: Client, outcome: Outcome = COMPLETED, **fields: Any) -> Job:
    """Start and end a job that asked for a webhook."""
    job = make_running_job(**({"client": client, "wants_webhook": True} | fields))
    assert job_moves.finish(job, outcome)
    return job


def make_client_with_events(count: int, *, account: Account | None = None) -> Client:
    """Create a client with an enabled endpoint and due events."""
    account = account or make_account()
    client = make_client(account, name=f"bot-{account.clients.count()}")
    Endpoint.objects.create(client=client, url="https://example.com/", secret=endpoints.encrypt_secret("whsec_x"))
    write_events(client, count)
    return client


def write_events(client: Client, count: int) -> None:
    """Record events for a client that are due now."""
    for _ in range(count):
        with transaction.atomic():
            events.record(client.pk, job_id=None, payload={})


def make_event_in(state: str, *, days_ago: float) -> Event:
    """Create an event with one attempt, created the given number of days ago and in a state now."""
    client = make_client_with_events(1)
    (attempt,) = claim_deliveries(STEADY, room=1)
    if state != "sending":
        status = {"delivered": 200, "failed": 400, "waiting": 500}[state]
        record_responses([(attempt, Response(status=status))])
    Event.objects.filter(client=client).update(created_at=Now() - timedelta(days=days_ago))
    return Event.objects.get(client=client)
