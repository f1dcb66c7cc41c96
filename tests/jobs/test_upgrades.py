"""Processes of the previous version keep running after `migrate` until their restart."""

from typing import Any

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from jobs.models import Job
from simservice.ids import next_id
from tests.factories import make_job

pytestmark = pytest.mark.django_db
METADATA = {"zeta": "1", "b": "é"}


@pytest.fixture
def before() -> Any:
    """The models of the previous version."""
    return MigrationLoader(connection).project_state([("jobs", "0008_job_lists")]).apps


def test_the_previous_version_can_read_jobs(before: Any) -> None:
    job = make_job(metadata=METADATA)
    assert before.get_model("jobs", "Job").objects.get(pk=job.pk).metadata == METADATA


def test_the_previous_version_can_accept_jobs(before: Any) -> None:
    job = before.get_model("jobs", "Job").objects.get(pk=make_job(metadata=METADATA).pk)
    job.pk, job.share_token = next_id(), "another"
    job.save(force_insert=True)
    now = Job.objects.get(pk=job.pk)
    assert (now.metadata, now.character, now.other_characters) == (METADATA, "", 0)
    assert now.missing_artifacts == []
