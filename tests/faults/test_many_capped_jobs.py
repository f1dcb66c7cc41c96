"""Many capped jobs on an overloaded machine: no job costs more than its cap or its runtime."""

import math
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from billing import ledger
from billing.models import Hold
from clients.accounts import default_client
from jobs.enums import ACTIVE
from jobs.models import Job, Run
from jobs.operations import hold_audit
from jobs.queue import sweep
from tests.billing.ledger_state import LONG as THOROUGH
from tests.factories import make_account, make_job
from tests.faults.processes import start_worker
from tests.stack import LONG, QUICK

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

JOBS = 1_000 if THOROUGH else 6
SLOTS = 8
RATE, FEE = 32, 7
# One to two seconds, some with a fraction.
CAPS = [32, 40, 48, 63, 64]
# A simulator has two seconds after its cap to write its report; on a busy machine the kill may come later.
MAX_OVERRUN_SECONDS = 5.0


@pytest.fixture
def _busy_machine() -> Iterator[None]:
    """Programs that keep the processors busy: two per processor, or one in a short run."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(2 * (os.cpu_count() or 1) if THOROUGH else 1)]
    yield
    for process in processes:
        process.kill()
        process.wait()


def submit_many() -> None:
    """Accept jobs, every other of which would run for minutes but has a cap of one or two seconds."""
    client = default_client(make_account(credits=0))
    for number in range(JOBS):
        fee = FEE if number % 3 == 0 else 0
        if number % 2:
            make_job(client, text=QUICK, priority_fee_credits=fee)
        else:
            cap = CAPS[number // 2 % len(CAPS)]
            capped = {"ceiling_credits": cap, "ceiling_runtime_seconds": cap // RATE}
            make_job(client, text=LONG, priority_fee_credits=fee, **capped)


def run_all_jobs() -> None:
    """Run all jobs and sweep meanwhile."""
    worker = start_worker(slots=SLOTS)
    while worker.poll() is None:
        sweep.recover_expired_leases()
        try:
            worker.wait(1)
        except subprocess.TimeoutExpired:
            continue
    assert worker.returncode == 0


def assert_billed_correctly(job: Job) -> float:
    """Assert that a job was billed its runtime or its cap; return the seconds it ran over the cap."""
    counted = Run.objects.get(job=job, attempt=job.attempt)
    assert counted.wall_ms == job.sim_duration_ms
    assert counted.wall_ms is not None
    metered = math.ceil(counted.wall_ms / 1000) * RATE
    reached = job.error_code == "max_credits_reached"
    assert job.credits_consumed == (job.ceiling_credits if reached else metered) + job.priority_fee_credits
    assert metered >= job.ceiling_runtime_seconds * RATE if reached else metered <= job.ceiling_credits
    return counted.wall_ms / 1000 - job.ceiling_runtime_seconds


@pytest.mark.timeout(3600 if THOROUGH else 120)
@pytest.mark.usefixtures("_busy_machine", "minisim")
def test_no_job_is_billed_beyond_its_cap_or_for_more_than_it_ran() -> None:
    submit_many()
    run_all_jobs()
    jobs = list(Job.objects.all())
    over = [assert_billed_correctly(job) for job in jobs]
    stopped = [job for job in jobs if job.error_code == "max_credits_reached"]
    print(  # noqa: T201 - the figures of the proof
        f"{len(jobs)} jobs, {len(stopped)} stopped at their cap, {sum(job.attempt > 1 for job in jobs)} retried, "
        f"at most {max(over):.2f} s over it"
    )
    assert {job.status for job in jobs} == {"completed", "timed_out"}
    assert len(stopped) == JOBS // 2
    assert max(over) <= MAX_OVERRUN_SECONDS
    assert not Job.objects.filter(status__in=ACTIVE).exists()
    assert not Hold.objects.filter(resolved_at=None).exists()
    assert list(ledger.verify()) == []
    assert list(hold_audit.discrepancies()) == []
