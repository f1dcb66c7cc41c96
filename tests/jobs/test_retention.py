"""What can be had for as long as a job is kept, and not afterwards (specification, Errors; contract, section 4)."""

import io
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client as HttpClient
from django.utils import timezone

from clients.models import ApiKey
from jobs import artifacts, lifecycle
from jobs.lifecycle import Outcome
from jobs.models import Artifact, Job, Status
from tests.conftest import Api
from tests.factories import make_running_job


@pytest.fixture
def artifact(key: tuple[ApiKey, str]) -> Artifact:
    """The only artifact of an ended job."""
    job = make_running_job(client=key[0].client)
    stored = artifacts.store(job, Artifact.Kind.INPUT, io.BytesIO(b"mage=x\n"))
    assert lifecycle.finish(job, Outcome(status=Status.COMPLETED, sim_duration_ms=1, summary={"mainActor": None}))
    stored.save(force_insert=True)
    return stored


def age(job: Job, *, days: float) -> None:
    Job.objects.filter(pk=job.pk).update(created_at=timezone.now() - timedelta(days=days))


def public(artifact: Artifact) -> list[str]:
    """Return the addresses that need no key."""
    token = artifact.job.share_token
    return [f"/artifacts/{artifact.token}", f"/manifests/{token}", f"/share/{token}"]


def statuses(artifact: Artifact) -> list[Any]:
    http = HttpClient()
    return [http.head(path).status_code for path in public(artifact)]


def test_links_work_to_the_last_day(artifact: Artifact) -> None:
    age(artifact.job, days=29.9)
    assert statuses(artifact) == [200, 200, 200]


def test_links_are_gone_after_retention(artifact: Artifact) -> None:
    age(artifact.job, days=30.1)
    assert statuses(artifact) == [404, 404, 404]


def test_an_owner_learns_that_an_artifact_has_expired(api: Api, artifact: Artifact) -> None:
    assert api.get(f"artifacts/{artifact.pk}/url").status_code == 200
    age(artifact.job, days=30.1)
    answer = api.get(f"artifacts/{artifact.pk}/url")
    assert (answer.status_code, answer.json()["code"]) == (410, "artifact_expired")


def test_the_facts_of_a_job_stay(api: Api, artifact: Artifact) -> None:
    age(artifact.job, days=30.1)
    assert api.get(f"jobs/{artifact.job_id}").json()["status"] == "completed"
    assert api.get(f"jobs/{artifact.job_id}/result").json()["result"]["artifacts"] == []
