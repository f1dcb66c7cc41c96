"""Estimates of a job's time, from past jobs."""

import random
from typing import Any

import pytest

from billing.models import Account
from clients.accounts import default_client
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Build, Job, Run
from jobs.planning import estimates, multistage
from jobs.planning.estimates import Estimate, PastJob, costs_of, from_past_jobs
from jobs.planning.multistage import StagePlan
from simc.profiles.analysis import Analysis, analyse
from simc.profiles.numbers import Bounds
from simc.profiles.policy import Rules
from tests.factories import make_account, make_running_job
from tests.jobs.plans import copy_job, forget_statistics, plans_of, reindex_jobs

BOUNDS = Bounds(iterations=250_000, target_error=0.05)


def analysed(*, profilesets: int = 0, numbers: str = "iterations=1000", name: str = "Frosty") -> Analysis:
    """Return the analysis of a profile with some profilesets."""
    sets = "".join(f'profileset."Set {number}"+=intellect={number}\n' for number in range(profilesets))
    return analyse(f'mage="{name}"\n{numbers}\n{sets}', rules=Rules(), bounds=BOUNDS)


def planned(analysis: Analysis, *, wanted: bool = False) -> StagePlan:
    return multistage.plan(analysis, wanted=wanted, bounds=BOUNDS)


def past(*, seconds: float, fights: float, **fields: Any) -> PastJob:
    """Return a past job of the account on the build."""
    alike: dict[str, Any] = {"spread": 5.0, "character": "Frosty", "is_own": True, "on_build": True, "stages": []}
    return PastJob(seconds=seconds, fights=fights, **alike | fields)


def expected(*jobs: PastJob, wanted: bool = False, **profile: Any) -> Estimate:
    analysis = analysed(**profile)
    return from_past_jobs(jobs, analysis, planned(analysis, wanted=wanted))


def test_the_time_grows_with_fights_and_profilesets() -> None:
    job = past(seconds=10, fights=5_000)
    assert expected(job).seconds.expected == pytest.approx(2)
    assert expected(job, profilesets=9).seconds.expected == pytest.approx(20)
    assert expected(job, numbers="iterations=100000\ntarget_error=0.2").seconds.expected == pytest.approx(5)


def test_a_single_job_gives_a_wide_range() -> None:
    seconds = expected(past(seconds=10, fights=1_000)).seconds
    assert (seconds.low, seconds.high) == pytest.approx((5, 20))


def test_seconds_are_rounded_up_before_they_are_multiplied() -> None:
    price = expected(past(seconds=1.01, fights=1_000)).credits(credits_per_second=32, ceiling=57_600)
    assert (price.low, price.expected, price.high) == (32, 64, 96)


def test_a_price_is_at_most_the_ceiling() -> None:
    price = expected(past(seconds=10, fights=1_000)).credits(credits_per_second=32, ceiling=400)
    assert (price.low, price.expected, price.high) == (160, 320, 400)


@pytest.mark.parametrize("differing", [{"character": "Other"}, {"on_build": False}, {"is_own": False}])
def test_similar_jobs_count_before_others(differing: dict[str, Any]) -> None:
    near = [past(seconds=10, fights=1_000) for _ in range(5)]
    far = [past(seconds=99, fights=1_000, **differing) for _ in range(30)]
    assert expected(*far, *near).seconds.expected == pytest.approx(10)


def test_the_start_of_the_simulator_is_told_from_the_fights() -> None:
    jobs = [past(seconds=0.5 + fights / 1_000, fights=fights) for fights in (200, 500, 4_000)]
    assert expected(*jobs, numbers="iterations=100").seconds.expected == pytest.approx(0.6)
    assert expected(*jobs, numbers="iterations=50000").seconds.expected == pytest.approx(50.5)


def test_jobs_that_are_all_alike_say_nothing_about_the_start() -> None:
    jobs = [past(seconds=1.0, fights=1_000) for _ in range(9)]
    assert expected(*jobs, numbers="iterations=100").seconds.expected == pytest.approx(0.1)
    noisy = [
        past(seconds=seconds, fights=fights) for seconds, fights in ((1.0, 990), (1.002, 1_000), (1.005, 1_010))
    ]
    assert expected(*noisy, numbers="iterations=100000").seconds.expected == pytest.approx(100, rel=0.05)
    falling = [past(seconds=1.0, fights=1_000), past(seconds=0.5, fights=5_000)]
    assert expected(*falling, numbers="iterations=1000").seconds.low > 0


def test_each_stage_starts_the_simulator() -> None:
    staged = [{"stage": number, "profilesets": 4, "culled": 0} for number in (1, 2, 3)]
    jobs = [past(seconds=6 + fights / 1_000, fights=fights, stages=staged) for fights in (1_000, 50_000)]
    jobs += [past(seconds=2 + fights / 1_000, fights=fights) for fights in (500, 20_000)]
    costs = costs_of(jobs)
    assert (costs.start, costs.fight) == pytest.approx((2, 0.001))


def test_jobs_of_a_similar_size_count_before_others() -> None:
    """Starting the simulator takes half a second, whatever it simulates."""
    short = [past(seconds=0.5 + 100 / 1_000, fights=100) for _ in range(5)]
    long = [past(seconds=0.5 + 100, fights=100_000) for _ in range(5)]
    assert expected(*long, *short, numbers="iterations=100").seconds.expected == pytest.approx(0.6)
    assert expected(*short, *long, numbers="iterations=100000").seconds.expected == pytest.approx(100.5)


def test_an_estimate_says_what_it_rests_on() -> None:
    jobs = [past(seconds=10, fights=1_000), past(seconds=10, fights=1_000, is_own=False, on_build=False)]
    basis = expected(*jobs)
    assert (basis.jobs, basis.is_own, basis.on_build) == (2, False, False)


def test_stages_cost_less_than_a_single_pass() -> None:
    job = past(seconds=10, fights=1_000)
    fine: dict[str, Any] = {"profilesets": 100, "numbers": "target_error=0.05"}
    assert expected(job, wanted=True, **fine).seconds.expected < expected(job, **fine).seconds.expected / 5


def test_stages_that_cull_run_each_profileset_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    job = past(seconds=10, fights=1_000)
    fine: dict[str, Any] = {"profilesets": 100, "numbers": "target_error=0.05"}
    twice = expected(job, wanted=True, **fine).seconds.expected
    monkeypatch.setattr(estimates, "CULLING_RUNS", 1)
    assert twice > 1.2 * expected(job, wanted=True, **fine).seconds.expected


def run_time(chance: random.Random, fights: float, pace: float) -> float:
    """Return the time of a run with half a second for its start and 10 % of noise."""
    return (0.5 + fights * pace) * chance.lognormvariate(0, 0.1)


@pytest.mark.parametrize("seed", range(5))
def test_eight_of_ten_estimates_are_within_a_factor_of_1_5(seed: int) -> None:
    """An account simulates four characters at different speeds, with 10 to 100,000 fights a job."""
    chance = random.Random(seed)  # noqa: S311
    paces = {name: chance.uniform(0.0005, 0.002) for name in ("Ada", "Bo", "Cy", "Di")}
    jobs: list[PastJob] = []
    close = 0
    for number in range(140):
        name, sets = chance.choice(list(paces)), int(chance.lognormvariate(2, 1.5))
        iterations = chance.choice([10, 100, 500, 1_000])
        fights = float((1 + sets) * iterations)
        seconds = run_time(chance, fights, paces[name])
        if number >= 40:
            known = jobs[-estimates.READ_JOBS :]
            found = expected(*known, profilesets=sets, numbers=f"iterations={iterations}", name=name)
            close += 1 / 1.5 <= found.seconds.expected / seconds <= 1.5
        jobs.append(past(seconds=seconds, fights=fights, character=name))
    assert close >= 80


def figures(fights: int) -> dict[str, float]:
    """Return figures of fights whose standard deviation is 5 % of the mean."""
    return {"mean": 1000.0, "stddev": 50.0, "mean_stddev": 50 / fights**0.5}


def end_job(account: Account, build: Build | None = None, *, summary: Any = None, **fields: Any) -> Build:
    """Complete a job with a baseline and 9 profilesets of 500 fights each in 10 s, and return its build."""
    job = make_running_job(client=default_client(account), character="Frosty", **fields)
    if build:
        Job.objects.filter(pk=job.pk).update(build=build)
        job.build = build
    sets = {"count": 9, "results": [figures(500)] * 9}
    done = summary or {"mainActor": {**figures(500), "profilesets": sets}, "multiStage": {"stages": []}}
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, sim_duration_ms=10_000, summary=done))
    assert job.build
    return job.build


def estimated(account: Account, build: Build) -> Estimate | None:
    analysis = analysed()
    return estimates.estimate(account, build, analysis, planned(analysis))


@pytest.mark.django_db
def test_completed_jobs_are_read_with_their_work() -> None:
    account = make_account()
    found = estimated(account, end_job(account))
    assert found
    assert found.seconds.expected == pytest.approx(2)
    assert (found.jobs, found.is_own, found.on_build) == (1, True, True)


@pytest.mark.django_db
def test_several_actors_count_as_often() -> None:
    account = make_account()
    summary: dict[str, Any] = {
        "mainActor": None,
        "actors": {"count": 4, "results": [figures(500)]},
        "multiStage": {"stages": []},
    }
    found = estimated(account, end_job(account, summary=summary, other_characters=3))
    assert found
    assert found.seconds.expected == pytest.approx(5)


@pytest.mark.django_db
def test_the_stages_of_past_jobs_count() -> None:
    account = make_account()
    stages = [
        {"stage": 1, "profilesets": 40, "culled": 30},
        {"stage": 2, "profilesets": 10, "culled": 8},
        {"stage": 3, "profilesets": 2, "culled": 0},
    ]
    sets = {"count": 40, "results": [figures(10_000)] * 2}
    build = end_job(
        account,
        multi_stage=True,
        summary={"mainActor": {**figures(10_000), "profilesets": sets}, "multiStage": {"stages": stages}},
    )
    (job,) = estimates.past_jobs(account, build)
    # The baseline, 40 sets twice to an error of 1 %, 10 twice to 0.2 %, and two with all fights.
    assert job.fights == pytest.approx(10_000 + 80 * 100 + 20 * 2_500 + 2 * 10_000)


@pytest.mark.django_db
def test_an_account_without_jobs_gets_those_on_its_build() -> None:
    build, account = end_job(make_account()), make_account()
    found = estimated(account, build)
    assert found
    assert not found.is_own
    assert estimated(account, end_job(make_account(), summary={"mainActor": None})) is None


@pytest.mark.django_db
def test_characters_of_other_accounts_are_not_read() -> None:
    (job,) = estimates.past_jobs(make_account(), end_job(make_account()))
    assert job.character == ""


@pytest.mark.django_db
def test_past_jobs_are_read_by_indexes() -> None:
    account, other = make_account(), make_account()
    build = end_job(account)
    end_job(other)
    copy_job(Job.objects.get(account=account).pk, 3)
    copy_job(Job.objects.get(account=other).pk, 4_000)
    reindex_jobs()
    forget_statistics(Run)
    own, others = plans_of(lambda: estimated(account, build), table="jobs_job")
    assert "job_by_status" in own.indexes
    assert "jobs_job_pkey" in others.indexes
    assert not (own.scanned | others.scanned) & {"jobs_job"}
    assert others.pages <= estimates.LATEST_JOBS + 3 * estimates.READ_JOBS


WEIGHTS = "iterations=1000\ncalculate_scale_factors=1\nscale_only=crit,haste"
PLOTS = "iterations=1000\ndps_plot_stat=crit,haste\ndps_plot_points=10\ndps_plot_iterations=100"


def test_scale_factors_and_plots_are_additional_fights() -> None:
    job = past(seconds=10, fights=1_000)
    assert expected(job).seconds.expected == pytest.approx(10)
    assert expected(job, numbers=WEIGHTS).seconds.expected == pytest.approx(30)
    # 20 points with 100 fights each
    assert expected(job, numbers=PLOTS).seconds.expected == pytest.approx(30)
    assert expected(job, numbers=f"{PLOTS}\ndps_plot_positive=1").seconds.expected == pytest.approx(30)


def test_in_stages_they_run_only_in_the_last_one() -> None:
    staged = [{"stage": number, "profilesets": 4, "culled": 0} for number in (1, 2, 3)]
    job = past(seconds=10, fights=1_000, stages=staged)
    numbers = "iterations=1000\ntarget_error=0.05"
    plain = expected(job, wanted=True, profilesets=4, numbers=numbers).seconds.expected
    weighed = f"{numbers}\ncalculate_scale_factors=1\nscale_only=crit,haste"
    more = expected(job, wanted=True, profilesets=4, numbers=weighed).seconds.expected
    assert more - plain == pytest.approx(20)


@pytest.mark.django_db
def test_the_fights_of_past_weights_count() -> None:
    account = make_account()
    sets = {"count": 9, "results": [figures(500)] * 9}
    actor = {**figures(500), "profilesets": sets}
    summary = {"mainActor": actor, "multiStage": {"stages": []}, "additional_fights": 5_000}
    found = estimated(account, end_job(account, summary=summary))
    assert found
    # 10 s for 10,000 fights, and 1,000 of them
    assert found.seconds.expected == pytest.approx(1)
