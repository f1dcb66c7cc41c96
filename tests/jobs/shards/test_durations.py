"""The expected time of a profileset, from past jobs."""

from typing import Any

import pytest

from billing.models import Account
from clients.accounts import default_client
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Build, Job, Run
from jobs.planning import past_jobs
from jobs.planning.past_jobs import PastJob, expected_fights, expected_set_seconds, measured, past_job
from simc.profiles.numbers import Precision
from simc.reports import Player, Profileset, Report, Statistics
from tests.factories import BuildFactory, make_account, make_job, make_running_job
from tests.jobs.plans import copy_job, forget_statistics, plans_of, reindex_jobs

ANOTHER_1000 = Precision(iterations=1_000, target_error=0)
TO_TARGET = Precision(iterations=100_000, target_error=0.2)


def figures(fights: int, *, stage: int = 1) -> dict[str, Any]:
    """Return figures of fights whose standard deviation is 5 % of the mean."""
    return {"mean": 1000.0, "stddev": 50.0, "mean_stddev": 50 / fights**0.5, "stage": stage}


def actor(count: int, *, fights: int, stage: int = 1) -> dict[str, Any]:
    """Return a main actor with profilesets, of which two are listed."""
    profilesets = {"count": count, "results": [figures(fights, stage=stage)] * 2}
    return {**figures(fights), "profilesets": profilesets}


def end_job(account: Account, *, wall_ms: int = 10_000, summary: dict[str, Any] | None = None) -> Build:
    """Complete a job with a baseline and 9 profilesets of 500 fights each, and return its build."""
    job = make_running_job(client=default_client(account))
    Run.objects.filter(job=job).update(wall_ms=wall_ms, ended_at=job.started_at)
    summary = summary or {"mainActor": actor(9, fights=500), "multiStage": {"stages": []}}
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, summary=summary))
    assert job.build
    return job.build


def expected(account: Account, build: Build, numbers: Precision = ANOTHER_1000) -> float | None:
    return expected_set_seconds(Job(account=account), build, numbers=numbers)


@pytest.mark.parametrize(
    ("numbers", "fights"),
    [
        (Precision(iterations=50, target_error=0), 50),
        (Precision(iterations=100_000, target_error=0.2), 2_500),
        (Precision(iterations=1_234, target_error=0.2), 1_234),
        (Precision(iterations=100_000, target_error=50), 100),
        (Precision(iterations=70, target_error=50), 70),
        (Precision(iterations=100_000, target_error=1e-300), 100_000),
    ],
)
def test_fights_follow_from_the_numbers(numbers: Precision, fights: int) -> None:
    assert expected_fights(numbers, spread=5.0) == fights


@pytest.mark.parametrize(
    ("fights", "expected"),
    [((500, 500, 500), PastJob(pace=0.02, spread=5.0)), ((500, 500, 0), None), ((500,), None)],
)
def test_a_stage_is_measured(fights: tuple[int, ...], expected: PastJob | None) -> None:
    baseline, *sets = [
        Statistics(mean=1000, mean_stddev=50 / count**0.5 if count else 0, stddev=50, min=0, max=1)
        for count in fights
    ]
    report = Report(
        players=(Player("A", baseline),),
        profilesets=tuple(Profileset(str(number), each, 1) for number, each in enumerate(sets)),
        raid_dps=baseline,
        iterations=500,
        errors=(),
    )
    # 1,500 fights took 30 s.
    found = measured(report, seconds=30)
    assert (found is None) == (expected is None)
    if found and expected:
        assert (found.pace, found.spread) == pytest.approx((expected.pace, expected.spread))


@pytest.mark.django_db
def test_past_jobs_give_the_time_of_a_profileset() -> None:
    account = make_account()
    build = end_job(account)
    # 5,000 fights took 10 s.
    assert expected(account, build) == pytest.approx(2.0)
    assert expected(account, build, TO_TARGET) == pytest.approx(5.0)


@pytest.mark.django_db
def test_jobs_on_the_build_count_before_others() -> None:
    account = make_account()
    build = end_job(account)
    other = end_job(account, wall_ms=90_000)
    assert expected(account, build) == pytest.approx(2.0)
    assert expected(account, other) == pytest.approx(18.0)
    assert expected(account, BuildFactory.create()) == pytest.approx(10.0)


@pytest.mark.django_db
def test_jobs_of_other_accounts_do_not_count() -> None:
    build = end_job(make_account())
    assert expected(make_account(), build) is None


@pytest.mark.django_db
def test_only_the_last_stage_counts() -> None:
    account = make_account()
    job = make_running_job(client=default_client(account), multi_stage=True)
    assert job.build
    for shard in (0, 1):
        Run.objects.create(
            job=job, attempt=1, stage=2, shard=shard, build=job.build, started_at=job.created_at,
            ended_at=job.created_at, wall_ms=2_000,
        )  # fmt: skip
    Run.objects.filter(job=job, stage=1).update(wall_ms=70_000, ended_at=job.started_at)
    summary = {
        "mainActor": actor(40, fights=500, stage=2),
        "multiStage": {"stages": [{"stage": 1, "profilesets": 40}, {"stage": 2, "profilesets": 3}]},
    }
    summary["mainActor"]["profilesets"]["results"].append(figures(7, stage=1))
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, summary=summary))
    # 4 s for the baseline and three profilesets, with 500 fights each.
    assert expected(account, job.build) == pytest.approx(2.0)


@pytest.mark.django_db
@pytest.mark.parametrize("summary", [{"a": 1}, {"mainActor": None}, {"mainActor": figures(500), "multiStage": {}}])
def test_jobs_without_profilesets_do_not_count(summary: dict[str, Any]) -> None:
    account = make_account()
    assert expected(account, end_job(account, summary=summary)) is None


@pytest.mark.parametrize(
    ("changed", "wall_ms"),
    [
        ({}, None),
        ({}, 0),
        ({"results": []}, 1_000),
        ({"results": [figures(500) | {"mean_stddev": 0}]}, 1_000),
        ({"results": [figures(500) | {"mean": 0}]}, 1_000),
        ({"results": [figures(500, stage=2)]}, 1_000),
    ],
)
def test_unknown_figures_do_not_count(changed: dict[str, Any], wall_ms: int | None) -> None:
    unknown = figures(500) | {"profilesets": {"count": 1, "results": [figures(500)]} | changed}
    assert past_job(unknown, None, wall_ms) is None


def make_account_with_past() -> Account:
    account = make_account()
    end_job(account)
    return account


@pytest.mark.django_db
def test_past_jobs_are_read_by_an_index() -> None:
    account = make_account()
    build = end_job(account)
    copy_job(Job.objects.get().pk, 200)
    copy_job(make_job(default_client(account)).pk, 200)
    copy_job(Job.objects.get(account=make_account_with_past()).pk, 4_000)
    reindex_jobs()
    forget_statistics(Run)
    (plan,) = plans_of(lambda: expected(account, build), table="jobs_job")
    assert "job_by_status" in plan.indexes
    assert not plan.scanned & {"jobs_job"}
    # Up to three pages for a job: its row, its summary and its runs.
    assert plan.pages <= 3 * past_jobs.READ_JOBS + 40
