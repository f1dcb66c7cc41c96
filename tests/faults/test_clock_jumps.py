"""Clocks that jump by an hour while an attempt runs: those of all processes, and PostgreSQL's own."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests

from billing.ledger import available
from clients.audit import SYSTEM
from clients.keys import create_key
from jobs.models import Artifact, Build, Job, JobProfile
from localstack.postgres import start_postgres
from localstack.redis_server import free_port
from localstack.supervisor import Program, Supervisor
from simservice.celery import app
from tests.factories import make_account, make_client
from tests.faults.clocks import COMPILER, HOUR, JumpingClock, build_library
from tests.faults.test_clocks_of_processes import DELETIONS, KINDS, POSTGRESQLS, is_ready, running
from tests.stack import Stack, running_stack
from tests.waiting import wait_until

pytestmark = [pytest.mark.skipif(not COMPILER, reason="needs a C compiler"), pytest.mark.timeout(300)]

# About ten seconds of work
TEXT = 'mage="Clock"\nlevel=80\niterations=5000\n' + "".join(
    f"profileset.{number}+=head=,id={number},ilevel=600\n" for number in range(20)
)
PASSWORD = "for-this-run-only"
SLOTS = 2
# Each state with the number of its jobs
STATES = "SELECT status, count(*)::integer FROM jobs_job GROUP BY status"
JOBS = """
    SELECT attempt, credits_consumed > 0, (
        SELECT count(*) FROM jobs_jobevent WHERE job_id = job.id AND to_status = 'completed'
    ) FROM jobs_job AS job
"""


@pytest.fixture
def clock() -> Iterator[JumpingClock]:
    """A clock in a folder that the user of PostgreSQL can read too."""
    folder = Path(tempfile.mkdtemp(prefix="clock-"))
    folder.chmod(0o755)
    yield JumpingClock(build_library(folder), folder / "shift")
    shutil.rmtree(folder)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("shift", [-HOUR, HOUR])
def test_the_clocks_of_all_processes_jump(clock: JumpingClock, shift: int, minisim: Build, tmp_path: Path) -> None:
    client = make_client(make_account(credits=100_000))
    _, secret = create_key(client, by=SYSTEM)
    port = free_port()
    with running(tmp_path, port, dict.fromkeys(KINDS, clock.variables)):
        wait_until(lambda: is_ready(port), seconds=60)
        body = {"build": {"channel": "latest"}, "profile": {"text": TEXT}}
        headers = {"Authorization": f"Bearer {secret}"}
        answer = requests.post(f"http://127.0.0.1:{port}/v1/sim/jobs", json=body, headers=headers, timeout=30)
        assert answer.status_code == 200, answer.text
        wait_until(lambda: Job.objects.filter(status="running").exists(), seconds=60)
        clock.jump(shift)
        assert not Job.objects.exclude(completed_at=None).exists()
        for task in DELETIONS:
            app.send_task(task)
        wait_until(lambda: POSTGRESQLS in (tmp_path / "control.log").read_text(), seconds=60)
        wait_until(lambda: Job.objects.filter(completed_at__isnull=False).exists(), seconds=120)
    job = Job.objects.get()
    assert (job.status, job.attempt) == ("completed", 1)
    assert 100_000 - available(job.account) == job.credits_consumed
    assert JobProfile.objects.filter(pk=job.pk).exists()
    assert Artifact.objects.filter(job=job).exists()


class ShiftedSupervisor(Supervisor):
    """Starts servers with more variables."""

    def __init__(self, variables: dict[str, str]) -> None:
        super().__init__()
        self.variables = variables

    def start_server(self, program: Program, ping: Callable[[], object], *, not_yet: type[Exception]) -> None:
        environment = {**program.environment, **self.variables}
        super().start_server(replace(program, environment=environment), ping, not_yet=not_yet)


@contextmanager
def stack_with(clock: JumpingClock, folder: Path) -> Iterator[tuple[Stack, str]]:
    """Run a stack on a PostgreSQL server with this clock. Yield it and the address of its database."""
    supervisor = ShiftedSupervisor(clock.variables)
    try:
        url = start_postgres(
            supervisor, folder / "postgres", log=folder / "postgres.log", password=PASSWORD, durable=False
        )
        with running_stack(folder / "stack", DATABASE_URL=url) as stack:
            stack.lift_limits()
            yield stack, url
    finally:
        supervisor.stop()


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as database:
        return database.execute(statement).fetchall()


@pytest.mark.parametrize("shift", [-HOUR, HOUR])
def test_the_clock_of_postgresql_jumps_and_returns(clock: JumpingClock, shift: int, tmp_path: Path) -> None:
    """Jobs that run may start again, and jobs that wait keep waiting; each ends once and is billed once."""
    tmp_path.chmod(0o711)
    with stack_with(clock, tmp_path) as (stack, url):
        count = 4 * SLOTS
        for _ in range(count):
            stack.submit(TEXT)
        wait_until(lambda: dict(rows(url, STATES)).get("running", 0) > 0, seconds=60)
        clock.jump(shift)
        ((ahead,),) = rows(url, "SELECT extract(epoch FROM clock_timestamp())::float8")
        assert abs(ahead - time.time() - shift) < HOUR / 2
        running_before = dict(rows(url, STATES))
        wait_until(lambda: dict(rows(url, STATES)).get("completed", 0) > 0, seconds=120)
        assert "failed" not in dict(rows(url, STATES)), running_before
        clock.jump(0)
        wait_until(lambda: dict(rows(url, STATES)) == {"completed": count}, seconds=200)
        stack.manage("verifyledger")
        ends = rows(url, JOBS)
    assert {completions for *_, completions in ends} == {1}
    assert max(attempt for attempt, *_ in ends) <= 3
    assert all(is_billed for _, is_billed, _ in ends)
