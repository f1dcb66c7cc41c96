"""An account with data of every kind."""

import io
import json
import zipfile
from typing import Any

from clients import credit_notices
from clients.accounts import default_client
from clients.audit import SYSTEM
from clients.models import Membership
from jobs.artifacts import artifact_files
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Job
from simservice.api.scopes import Scope
from tests.factories import (
    actor_of,
    make_account,
    make_client,
    make_event,
    make_invitation,
    make_job,
    make_key,
    make_member,
    make_running_job,
)
from webhooks import endpoints
from webhooks.models import Delivery


def end_job(job: Job) -> Job:
    """End a job with a file."""
    stored = artifact_files.store(job, Artifact.Kind.INPUT, io.BytesIO(b"mage=x"))
    outcome = Outcome(status=Status.CANCELLED, error_code="user_cancelled")
    assert job_moves.finish(job, outcome, artifacts=[stored])
    return job


def make_full_account() -> Membership:
    """Make an owner whose account has data of every kind: jobs that wait, run and have ended, and a webhook."""
    owner = make_member(make_account())
    account, client = owner.account, make_client(owner.account)
    make_key(account, by=actor_of(owner), scope=Scope.READ, addresses=["192.0.2.7/32"])
    credit_notices.set_threshold(account, 7, by=SYSTEM)
    make_invitation(account, email="guest@example.org")
    endpoints.install(client, "https://example.com/hook", by=SYSTEM)
    event = make_event(client)
    Delivery.objects.create(event=event, started_at=event.created_at)
    end_job(make_running_job(client=client))
    make_running_job(client=client)
    make_job(default_client(account))
    return owner


def read_archive(content: bytes) -> dict[str, list[Any]]:
    """Return the rows of each file of an export."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        return {name: [json.loads(line) for line in archive.read(name).splitlines()] for name in names}
