"""Money of jobs in shards: holds, caps, allowances, and what is billed."""

import time
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from billing import ledger
from billing.models import Hold
from clients.accounts import default_client
from clients.models import Client
from jobs.execution import attempt, conductor, time_limits
from jobs.execution.time_limits import Allowance, Budget
from jobs.models import Job, Run, Shard, ShardedStage
from tests.concurrency import at_once
from tests.factories import make_account
from tests.jobs.shards.sharded_runs import (
    NAMES,
    RATE,
    assert_nothing_left,
    conducted,
    during,
    make_simulator,
    results_of,
    submit,
)

pytestmark = pytest.mark.django_db(transaction=True)


def client_with(credits_left: int) -> Client:
    """Make a client whose account has this many available credits."""
    return default_client(make_account(credits=credits_left))


def available(job: Job) -> int:
    return ledger.available(job.account)


@pytest.fixture
def _short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow one second at a time."""
    monkeypatch.setattr(time_limits, "SLICE_SECONDS", 1)
    monkeypatch.setattr(time_limits, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(conductor, "ALLOWANCE_MS", 1000)
    monkeypatch.setattr(conductor, "MIN_ALLOWANCE_MS", 500)
    monkeypatch.setattr(time_limits, "SHORT_SECONDS", 0.9)


def assert_capped(job: Job, *, seconds: int) -> None:
    """Assert that a job was stopped with partial results and not billed more than its cap."""
    assert (job.credits_consumed or 0) <= seconds * RATE
    assert 1000 * (seconds - 1.5) < (job.sim_duration_ms or 0) <= 1000 * seconds
    assert job.summary is not None
    assert job.summary["partial"] is True
    assert 0 < len(results_of(job)) < len(NAMES)
    assert not Hold.objects.filter(resolved_at=None).exists()
    assert_nothing_left(job)


@pytest.mark.parametrize(("variant", "code"), [("C", "max_credits_reached"), ("R", "execution_timeout")])
def test_no_more_than_the_cap_is_billed(tmp_path: Path, settings: Settings, variant: str, code: str) -> None:
    settings.API_VARIANT = variant
    make_simulator(tmp_path, seconds=1.3)
    job = conducted(helpers=2, ceiling_credits=12 * RATE, ceiling_runtime_seconds=12)
    assert (job.status, job.error_code) == ("timed_out", code)
    # On a busy machine, the second helper may come too late.
    assert {0, 1} <= set(Run.objects.values_list("seat", flat=True))
    assert_capped(job, seconds=12)


def test_near_the_cap_no_helper_starts(tmp_path: Path) -> None:
    """The conductor's first shard takes so long that no whole slice is left for a helper."""
    make_simulator(tmp_path, "time.sleep(1.2 * is_first)", seconds=0.8)
    job = conducted(helpers=2, ceiling_credits=5 * RATE, ceiling_runtime_seconds=5)
    assert job.status == "timed_out"
    assert set(Run.objects.values_list("seat", flat=True)) == {0}
    assert_capped(job, seconds=5)


def test_a_cap_shorter_than_a_renewal_interval_ends_the_job(tmp_path: Path) -> None:
    """The rest of the cap is less than the time between two renewals."""
    make_simulator(tmp_path, seconds=60)
    started = time.monotonic()
    job = conducted(ceiling_credits=RATE, ceiling_runtime_seconds=1)
    assert (job.status, job.credits_consumed) == ("timed_out", RATE)
    assert time.monotonic() - started < 30


def test_a_cap_below_one_second_starts_no_shard(tmp_path: Path) -> None:
    make_simulator(tmp_path)
    job = conducted(ceiling_credits=RATE - 1, ceiling_runtime_seconds=1)
    assert (job.status, job.slots_used, job.credits_consumed) == ("timed_out", None, 0)
    assert not Run.objects.exists()


@pytest.mark.usefixtures("_short_slices")
def test_the_hold_grows_beyond_the_time_it_began_with(tmp_path: Path) -> None:
    """Each shard takes longer than the first hold pays for."""
    make_simulator(tmp_path, seconds=0.9)
    job = conducted(client_with(100 * RATE), helpers=2, held_credits=2 * RATE)
    assert (job.status, job.status_reason) == ("completed", None)
    assert results_of(job).keys() == set(NAMES)
    assert not Hold.objects.filter(resolved_at=None).exists()
    assert available(job) == 102 * RATE - (job.credits_consumed or 0)


@pytest.mark.usefixtures("_short_slices")
def test_the_hold_always_covers_all_seats(tmp_path: Path) -> None:
    make_simulator(tmp_path, seconds=0.6)
    job = submit(client_with(100 * RATE), held_credits=2 * RATE)
    samples: list[tuple[int, int, int]] = []

    def sample() -> None:
        while not Job.objects.filter(pk=job.pk, completed_at__isnull=False).exists():
            if stage := ShardedStage.objects.first():
                running = Shard.objects.filter(status="running").count()
                held = Hold.objects.get(pk=job.pk).credits
                samples.append((running, stage.allotted_ms, held * 1000 // RATE))
            time.sleep(0.05)

    assert during(job, sample, helpers=3).status == "completed"
    assert all(allotted <= held for _, allotted, held in samples)
    assert max(running for running, _, _ in samples) == 4
    assert min(held for _, _, held in samples) >= 4000


@pytest.mark.usefixtures("_short_slices")
def test_a_job_out_of_credits_stops_and_is_billed_at_most_its_hold(tmp_path: Path) -> None:
    make_simulator(tmp_path, seconds=0.7)
    job = conducted(client_with(2 * RATE + 5), helpers=1, held_credits=3 * RATE)
    assert (job.status, job.error_code) == ("failed", "insufficient_credits")
    assert_capped(job, seconds=5)
    assert available(job) == 5 * RATE + 5 - (job.credits_consumed or 0)


def test_new_credits_are_found_before_a_job_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last try to hold more was refused, and the next one is not due yet."""
    create = Budget.__init__

    def refused(self: Budget, *args: Any, **named: Any) -> None:
        create(self, *args, **named)
        self.next_at = time.monotonic() + 1000

    monkeypatch.setattr(Budget, "__init__", refused)
    make_simulator(tmp_path)
    assert conducted(client_with(100 * RATE), held_credits=RATE // 2).status == "completed"


@pytest.mark.usefixtures("_short_slices")
def test_a_try_whose_allowance_was_not_extended_in_time_is_not_billed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = Allowance.update

    def never_first(self: Allowance) -> None:
        if (self.shard.number, self.shard.try_number) != (1, 1):
            update(self)

    monkeypatch.setattr(Allowance, "update", never_first)
    make_simulator(tmp_path, seconds=0.6)
    job = conducted()
    assert job.status == "completed"
    runs = Run.objects.filter(job=job)
    assert list(runs.filter(stopped_for="lost").values_list("shard", "try_number")) == [(1, 1)]
    assert job.sim_duration_ms == sum(run.wall_ms or 0 for run in runs.exclude(stopped_for="lost"))


@pytest.mark.usefixtures("_short_slices")
def test_two_jobs_share_the_last_credits_of_an_account(tmp_path: Path) -> None:
    make_simulator(tmp_path, seconds=0.5)
    client = client_with(4 * RATE)
    waiting = [submit(client, held_credits=2 * RATE) for _ in range(2)]
    at_once(2, lambda: attempt.execute(waiting.pop()))
    jobs = list(Job.objects.all())
    # Together they need 12 s, and the account pays for 8 s.
    assert "insufficient_credits" in {job.error_code for job in jobs} <= {"insufficient_credits", None}
    assert sum(job.credits_consumed or 0 for job in jobs) == 8 * RATE - available(jobs[0])
    assert available(jobs[0]) >= 0
