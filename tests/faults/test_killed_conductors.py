"""Conductors killed at any point after their first shard: the next attempt keeps every finished shard."""

import math
from pathlib import Path

import pytest
from django.core.files.storage import default_storage

from jobs.artifacts import artifact_files
from jobs.execution import simulation_worker
from jobs.models import Job, Run, Shard
from tests.billing.ledger_state import LONG
from tests.factories import make_job
from tests.faults.processes import kill_worker, recover
from tests.jobs.shards.sharded_runs import NAMES, PROFILE, RATE, RESULTS, SETS, make_simulator, results_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.timeout(180)]

POINTS = [
    "before a conductor's claim",
    "after a conductor's claim",
    "while the claim of a shard runs",
    "before the simulator",
    "simulator started",
    "before the run is recorded",
    "while the start runs",
    "run recorded",
    "before the files of a shard are stored",
    "after the files of a shard are stored",
    "before a shard ends",
    "while the end of a shard runs",
    "after a shard ends",
    "before the conductor fetches",
    "fetched, not checked",
    "collected",
    "before the heartbeat",
    "heartbeat committed",
    "all shards ended",
    "before the merge",
    "merged",
    "before artifacts are stored",
    "artifacts stored",
    "all artifacts stored",
]
# The points that a short run tests.
FEW = ["after a conductor's claim", "all artifacts stored"]
Kept = dict[tuple[int, int], tuple[int, int | None]]


def finished(job: Job) -> Kept:
    """Return the run of each finished shard, with its time, by stage and shard."""
    runs = {(run.stage, run.shard, run.try_number): run for run in Run.objects.filter(job=job)}
    done = Shard.objects.filter(status="done").values_list("stage__stage", "number", "try_number")
    return {key[:2]: (runs[key].pk, runs[key].wall_ms) for key in done}


def counted(job: Job) -> Kept:
    """Return the runs that ended, with their times, by stage and shard. No shard may have ended twice."""
    runs = Run.objects.filter(job=job, wall_ms__isnull=False)
    assert len({(run.stage, run.shard) for run in runs}) == len(runs)
    return {(run.stage, run.shard): (run.pk, run.wall_ms) for run in runs}


def assert_continued(job: Job, kept: Kept) -> None:
    """Assert that a job has all results in its second attempt, ran no kept shard again, and is billed once."""
    job.refresh_from_db()
    assert (job.status, job.status_reason, job.attempt) == ("completed", None, 2)
    assert results_of(job).keys() == set(NAMES)
    assert kept.items() <= counted(job).items()
    ms = sum(time or 0 for _, time in counted(job).values())
    assert (job.sim_duration_ms, job.credits_consumed) == (ms, math.ceil(ms / 1000) * RATE)
    assert not Shard.objects.exists()
    folder = artifact_files.folder_of(job.pk)
    assert not [name for name in default_storage.listdir(folder)[1] if f"{job.pk}-" in name and ".shard." in name]


@pytest.mark.parametrize("point", POINTS if LONG else FEW)
def test_a_killed_conductor_loses_no_finished_shard(point: str, tmp_path: Path) -> None:
    build = make_simulator(tmp_path, seconds=0.2)
    job = make_job(text=PROFILE, parallel_slots=4)
    kill_worker(point, Path(build.executable), after_a_shard=True)
    kept = finished(job)
    assert kept
    recover()
    simulation_worker.simulate()
    assert_continued(job, kept)
    assert results_of(job) == RESULTS


@pytest.mark.parametrize("point", ["artifacts stored"])
def test_a_killed_conductor_loses_no_earlier_stage(point: str, tmp_path: Path) -> None:
    """It is killed when it has stored the first stage."""
    build = make_simulator(tmp_path, seconds=0.05)
    job = make_job(text=f'mage="A"\n{SETS}', multi_stage=True, parallel_slots=4)
    kill_worker(point, Path(build.executable), after_a_shard=True)
    kept = finished(job)
    assert {stage for stage, _ in kept} == {1}
    assert len(kept) == Shard.objects.count()
    recover()
    simulation_worker.simulate()
    assert_continued(job, kept)
