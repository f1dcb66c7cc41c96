"""The workers' doors: when they start, and when they stop claiming."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from jobs import tasks
from jobs.models import Job
from tests.factories import make_job


@pytest.fixture
def _stopping() -> Iterator[None]:
    tasks.stop_claiming()
    yield
    tasks.stopping.clear()


@pytest.mark.django_db
@pytest.mark.usefixtures("_stopping")
def test_a_worker_that_stops_claims_nothing() -> None:
    job = make_job()
    tasks.simulate()
    assert Job.objects.get(pk=job.pk).status == "pending"


@pytest.mark.django_db(transaction=True)
def test_a_worker_works_off_the_queue() -> None:
    jobs = [make_job() for _ in range(3)]
    tasks.simulate()
    ends = Job.objects.filter(pk__in=[job.pk for job in jobs]).values_list("error_code", flat=True)
    assert list(ends) == ["build_unavailable"] * 3


@pytest.mark.timeout(60)
def test_a_simulation_worker_does_not_start_without_the_sandbox_it_must_have(tmp_path: Path) -> None:
    environment = os.environ | {"SANDBOX": "required", "PATH": str(tmp_path)}
    command = [sys.executable, "-m", "celery", "--app", "simservice", "worker", "--hostname", "sim@test"]
    done = subprocess.run(
        [*command, "--pool", "threads", "--concurrency", "1"],
        cwd=settings.BASE_DIR,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode != 0
    assert "The sandbox is required" in done.stderr
