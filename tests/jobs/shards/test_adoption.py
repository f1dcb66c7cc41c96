"""Jobs whose conductor is lost: the next attempt keeps every finished shard, and the result is the same."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.files.storage import default_storage

from jobs.artifacts import artifact_files
from jobs.enums import Status
from jobs.execution import attempt, helper, kept_stages, shard_files
from jobs.execution.conductor import Conductor
from jobs.execution.stages import Stages
from jobs.lifecycle import job_moves
from jobs.lifecycle.shard_moves import ClaimedShard
from jobs.models import Artifact, Build, Job, Run, Shard, ShardedStage
from jobs.queue import claims
from jobs.registry import withdraw
from tests.jobs.shards.sharded_runs import (
    NAMES,
    RESULTS,
    SETS,
    conducted,
    make_simulator,
    meanwhile,
    results_of,
    submit,
    wait_for_shard,
)
from tests.jobs.simulators import again, claim, make_stand_in, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

STAGED = f'mage="A"\n{SETS}'
RunKey = tuple[int, int, int, int]


class Killed(BaseException):
    """Ends the conductor without its cleanup, which handles only exceptions."""


def kill(job: Job, number: int, *, stage: int = 1) -> None:
    """Run a claimed job until its conductor is killed, when it has claimed a shard of a stage."""
    run_own = Conductor._run_own

    def run(self: Conductor, shard: ClaimedShard) -> None:
        if (self.stage.stage, shard.number) == (stage, number):
            raise Killed
        run_own(self, shard)

    kill_in(job, Conductor, "_run_own", run)


def kill_in(job: Job, owner: type, name: str, function: Callable[..., None]) -> None:
    """Run a claimed job until a function, which replaces another, kills its conductor."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, function)
        with pytest.raises(Killed):
            attempt.execute(job)


def die(*_: object) -> None:
    raise Killed


def lose(job: Job, number: int = 3, *, stage: int = 1) -> dict[RunKey, int]:
    """Run a job until its conductor is killed, and requeue it. Return the runs that ended, with their ids."""
    kill(job, number, stage=stage)
    assert job_moves.requeue(Job.objects.get(pk=job.pk), reason="its lease expired")
    return ended_runs(job)


def ended_runs(job: Job) -> dict[RunKey, int]:
    runs = Run.objects.filter(job=job, wall_ms__isnull=False)
    return {(run.stage, run.shard, run.try_number, run.attempt): run.pk for run in runs}


def files_of(job: Job) -> dict[str, float]:
    """Return the files of the job's shards, with the times of their last changes."""
    folder = artifact_files.folder_of(job.pk)
    ours = [name for name in default_storage.listdir(folder)[1] if name.startswith(f"{job.pk}-")]
    names = [f"{folder}/{name}" for name in ours if ".shard." in name]
    return {name: default_storage.get_modified_time(name).timestamp() for name in names}


def assert_no_shards_left(job: Job) -> None:
    """Assert that no rows and files of shards are left. Killed conductors leave artifacts to the retention."""
    assert not ShardedStage.objects.exists()
    assert not Shard.objects.exists()
    assert not files_of(job)


def assert_continued(job: Job, kept: dict[RunKey, int]) -> None:
    """Assert that a job completed in its second attempt with the results of one, and ran no kept shard again."""
    assert (job.status, job.status_reason, job.attempt) == ("completed", None, 2)
    assert results_of(job) == RESULTS
    runs = ended_runs(job)
    assert kept.items() <= runs.items()
    shards = [key[:2] for key in runs]
    assert len(shards) == len(set(shards))
    assert job.sim_duration_ms == sum(run.wall_ms or 0 for run in Run.objects.filter(job=job))
    assert_no_shards_left(job)


def folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


def restarts(job: Job) -> list[str]:
    """Return the reasons for which stages started again."""
    return [event.reason for event in job.events.order_by("id") if event.from_status == event.to_status]


def test_finished_shards_outlive_their_conductor(tmp_path: Path) -> None:
    make_simulator(tmp_path)
    job = submit()
    kept = lose(job)
    files = files_of(job)
    assert len(kept) == 3
    kill(claim(), 4)
    assert files.items() <= files_of(job).items()
    assert job_moves.requeue(Job.objects.get(pk=job.pk), reason="its lease expired")
    ended = again()
    assert (ended.status, ended.attempt) == ("completed", 3)
    assert kept.items() <= ended_runs(ended).items()
    assert len(ended_runs(ended)) == 5
    assert_no_shards_left(ended)


def test_the_next_attempt_runs_only_the_rest(tmp_path: Path) -> None:
    make_simulator(tmp_path)
    job = submit(csv=True)
    kept = lose(job)
    ended = again()
    assert_continued(ended, kept)
    assert restarts(ended) == []
    undisturbed = conducted(csv=True)
    assert (ended.summary, ended.slots_used) == (undisturbed.summary, undisturbed.slots_used)
    assert [kind for kind, _ in kinds_of(ended)] == [kind for kind, _ in kinds_of(undisturbed)]


def kinds_of(job: Job) -> list[tuple[str, int | None]]:
    return list(Artifact.objects.filter(job=job).order_by("id").values_list("kind", "stage"))


def test_earlier_stages_are_kept_too(tmp_path: Path) -> None:
    # Long enough that the second stage is expected to be worth shards
    make_simulator(tmp_path, seconds=0.1)
    job = submit(text=STAGED, multi_stage=True)
    kept = lose(job, number=0, stage=2)
    assert {key[0] for key in kept} == {1}
    ended = again()
    assert (ended.status, ended.attempt) == ("completed", 2)
    runs = ended_runs(ended)
    assert kept.items() <= runs.items()
    assert {key for key in runs if key[0] == 1} == kept.keys()
    assert ended.summary == conducted(text=STAGED, multi_stage=True).summary
    assert restarts(ended) == []
    assert_no_shards_left(ended)


def test_a_job_whose_shards_are_all_done_only_needs_its_end(tmp_path: Path) -> None:
    make_simulator(tmp_path)
    job = submit()
    kill_in(job, Stages, "_store_results", die)
    assert job_moves.requeue(Job.objects.get(pk=job.pk), reason="its lease expired")
    kept = ended_runs(job)
    assert len(kept) == 5
    assert_continued(again(), kept)
    assert Run.objects.filter(job=job).count() == 5


def help_once() -> None:
    """Run one shard as a helper."""
    wait_until(lambda: Job.objects.get().status == Status.RUNNING)
    shard = wait_until(lambda: claims.claim_work("helper"))
    assert isinstance(shard, ClaimedShard)
    helper.execute(shard)


def test_a_helper_goes_on_while_the_job_waits(tmp_path: Path) -> None:
    make_simulator(tmp_path, seconds=0.7)
    job = submit()
    run_own = Conductor._run_own

    def run(self: Conductor, shard: ClaimedShard) -> None:
        if shard.number:
            wait_for_shard(seat=1)
            raise Killed
        run_own(self, shard)

    with meanwhile(help_once):
        kill_in(job, Conductor, "_run_own", run)
        helped = wait_for_shard(seat=1)
        assert job_moves.requeue(Job.objects.get(pk=job.pk), reason="its lease expired")
    assert Job.objects.get(pk=job.pk).status == Status.QUEUED
    assert Shard.objects.get(pk=helped.pk).status == "done"
    ran = Run.objects.get(job=job, shard=helped.number)
    assert (ran.attempt, ran.try_number, ran.stopped_for) == (1, 1, "")
    assert_continued(again(), ended_runs(job))


def test_a_rejected_shard_is_kept_with_its_whole_baseline(tmp_path: Path) -> None:
    body = "if number_of('iterations') == 1 and 'set 4' in names and not is_first: counts = dict.fromkeys(names, 1)"
    make_simulator(tmp_path, body)
    job = submit()
    lose(job, number=4)
    ended = again()
    assert (ended.status, restarts(ended)) == ("completed", [])
    assert results_of(ended).keys() == set(NAMES)
    assert_no_shards_left(ended)


def test_the_stage_of_an_older_version_is_adopted(tmp_path: Path) -> None:
    make_simulator(tmp_path)
    job = submit()
    kept = lose(job)
    ShardedStage.objects.update(created_by_attempt=None)
    assert_continued(again(), kept)


def test_a_helper_of_an_older_version_names_its_files_by_the_attempt(tmp_path: Path) -> None:
    make_simulator(tmp_path)
    job = submit()
    kept = lose(job)
    stage = ShardedStage.objects.get()
    for kind in shard_files.KINDS:
        name, other = (
            shard_files.name_of(stage, kind, number=2, try_number=1, attempt=number) for number in (1, 2)
        )
        with default_storage.open(name) as stored:
            default_storage.save(other, io.BytesIO(stored.read()))
        default_storage.delete(name)
    ended = again()
    assert ended.status == "completed"
    assert results_of(ended) == RESULTS
    assert kept.items() <= ended_runs(ended).items()
    assert not Run.objects.filter(job=job, shard=2, try_number=2).exists()


def test_only_the_end_of_the_job_removes_its_files(tmp_path: Path) -> None:
    make_simulator(tmp_path)
    job = submit()
    lose(job)
    files = files_of(job)
    kept_stages.remove(job)
    assert files == files_of(job)
    assert ShardedStage.objects.exists()


# Files


def removed(name: str) -> None:
    default_storage.delete(name)


def damaged(name: str) -> None:
    with default_storage.open(name) as stored:
        content = stored.read()
    default_storage.delete(name)
    default_storage.save(name, io.BytesIO(content[: len(content) // 2]))


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("change", [removed, damaged])
def test_a_shard_whose_file_is_gone_runs_again(tmp_path: Path, change: Callable[[str], None], number: int) -> None:
    make_simulator(tmp_path)
    job = submit()
    lose(job)
    stage = ShardedStage.objects.get()
    change(shard_files.name_of(stage, Artifact.Kind.JSON_REPORT, number=number, try_number=1))
    ended = again()
    assert (ended.status, ended.attempt) == ("completed", 2)
    assert results_of(ended) == RESULTS
    assert (1, number, 2, 2) in ended_runs(ended)
    counted = Run.objects.filter(job=job).exclude(shard=number, try_number=1)
    assert ended.sim_duration_ms == sum(run.wall_ms or 0 for run in counted)
    assert_no_shards_left(ended)


def test_a_restored_backup_without_files_runs_everything_again(tmp_path: Path) -> None:
    make_simulator(tmp_path)
    job = submit()
    lose(job)
    for name in files_of(job):
        default_storage.delete(name)
    ended = again()
    assert (ended.status, ended.attempt) == ("completed", 2)
    assert results_of(ended) == RESULTS
    assert_no_shards_left(ended)


# Builds


def assert_started_again(job: Job, problem: str) -> None:
    """Assert that a job completed with runs of its second attempt alone, and says why."""
    assert (job.status, job.attempt) == ("completed", 2)
    assert results_of(job) == RESULTS
    assert restarts(job) == [f"stage 1 starts again: {problem}"]
    counted = Run.objects.filter(job=job, attempt=2)
    assert job.sim_duration_ms == sum(run.wall_ms or 0 for run in counted)
    assert {run.build for run in counted.select_related("build")} == {job.build}
    assert_no_shards_left(job)


NO_BUILD = "its build is no longer available on this machine"


def test_a_replaced_build_starts_the_stage_again(tmp_path: Path) -> None:
    build = make_simulator(tmp_path)
    job = submit()
    lose(job)
    path = Path(build.executable)
    path.write_text(path.read_text() + "# replaced\n")
    assert_started_again(again(), NO_BUILD)


def test_a_removed_build_starts_the_stage_again_on_the_channels_build(tmp_path: Path) -> None:
    build = make_simulator(folder(tmp_path, "old"))
    job = submit()
    lose(job)
    newer = make_simulator(folder(tmp_path, "new"))
    Path(build.executable).unlink()
    ended = again()
    assert_started_again(ended, NO_BUILD)
    assert ended.build == newer


def test_a_withdrawn_build_starts_the_stage_again(tmp_path: Path) -> None:
    build = make_simulator(folder(tmp_path, "old"))
    job = submit()
    lose(job)
    newer = make_simulator(folder(tmp_path, "new"))
    withdraw(Build.objects.filter(pk=build.pk))
    ended = again()
    assert_started_again(ended, NO_BUILD)
    assert ended.build == newer


def test_a_newer_build_does_not_replace_that_of_a_kept_stage(tmp_path: Path) -> None:
    build = make_simulator(folder(tmp_path, "old"))
    job = submit(channel="latest")
    kept = lose(job)
    make_simulator(folder(tmp_path, "new"))
    ended = again()
    assert_continued(ended, kept)
    assert ended.build == build


@pytest.mark.parametrize("change", [{"base_text": 'mage="B"'}, {"numbers": "iterations=51\ntarget_error=0"}])
def test_a_stage_that_another_version_cuts_differently_starts_again(tmp_path: Path, change: dict[str, str]) -> None:
    make_simulator(tmp_path)
    job = submit()
    lose(job)
    ShardedStage.objects.update(**change)
    assert_started_again(again(), "it has other profilesets than before")


@pytest.mark.parametrize("change", [{"profilesets": 4}, {"text": 'profileset."set 99"+=level=1'}])
def test_a_shard_with_other_profilesets_starts_the_stage_again(tmp_path: Path, change: dict[str, str]) -> None:
    make_simulator(tmp_path)
    job = submit()
    lose(job)
    Shard.objects.filter(number=4).update(**change)
    assert_started_again(again(), "it has other profilesets than before")


def test_a_build_that_breaks_at_its_start_leaves_nothing(tmp_path: Path) -> None:
    """The first build has the right file, but it cannot be executed."""
    older = make_simulator(folder(tmp_path, "old"))
    broken = make_stand_in(folder(tmp_path, "new"), "pass")
    Path(broken.executable).write_text("#!/missing/interpreter\n")
    job = submit(channel="latest")
    attempt.execute(job)
    ended = Job.objects.get(pk=job.pk)
    assert (ended.status, ended.attempt, ended.build) == ("completed", 1, older)
    assert_no_shards_left(ended)
