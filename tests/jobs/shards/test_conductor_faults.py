"""Jobs in shards that fail, are stopped, or lose machines, files, the database or the storage."""

import errno
import gzip
import io
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.db import OperationalError, connection
from django.db.models.functions import Now
from pytest_django import Settings

from clients.audit import SYSTEM
from jobs.artifacts import artifact_files
from jobs.enums import Priority
from jobs.execution import attempt, conductor, helper, shard_files, shard_results
from jobs.execution.conductor import Conductor
from jobs.execution.shard_results import ShardResults
from jobs.lifecycle import cancellation, job_moves, shard_moves
from jobs.models import Artifact, Build, Job, Run, Shard, ShardedStage
from jobs.queue import executables
from sandbox.process import ConfinedProcess
from simservice import shutdown
from tests.concurrency import at_once
from tests.jobs.shards.helping_slots import helping
from tests.jobs.shards.sharded_runs import (
    NAMES,
    RESULTS,
    assert_nothing_left,
    conducted,
    during,
    make_simulator,
    meanwhile,
    results_of,
    submit,
    wait_for_shard,
)
from tests.jobs.simulators import build_of, claim, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

# The first try of the shard with `set 4`. A rejected shard runs again with the whole baseline.
FIRST_TRY = "number_of('iterations') == 1 and 'set 4' in names and not is_first"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "LOST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(helper, "LOST_PAUSE_SECONDS", 0.0)


@pytest.fixture
def _short_leases(settings: Settings) -> None:
    settings.LEASE_SECONDS, settings.HEARTBEAT_SECONDS = 2.0, 0.3


def lost_tries() -> list[tuple[int, int]]:
    return list(Run.objects.filter(stopped_for="lost").values_list("shard", "try_number"))


def tries() -> set[tuple[int, int]]:
    return set(Run.objects.values_list("shard", "try_number"))


def assert_completed(job: Job) -> None:
    """Assert that a job has all results, bills the last try of each shard, and leaves nothing."""
    assert (job.status, job.status_reason) == ("completed", None)
    assert results_of(job) == RESULTS
    last = {run.shard: run.wall_ms or 0 for run in Run.objects.filter(job=job).order_by("try_number")}
    assert job.sim_duration_ms == sum(last.values())
    assert_nothing_left(job)


def assert_kept(job: Job) -> None:
    """Assert that a job that will run again has its stage, and no artifacts."""
    assert ShardedStage.objects.get().job == job
    assert not Artifact.objects.exists()


# Failures of the simulator


def test_a_bad_profileset_stops_all_shards_at_once(tmp_path: Path) -> None:
    make_simulator(tmp_path, "if is_first: time.sleep(1.5); fail('set 7 is bad')", seconds=60)
    started = time.monotonic()
    job = conducted(helpers=2)
    assert time.monotonic() - started < 30
    assert (job.status, job.status_reason, job.simulator_exit_code) == ("failed", "set 7 is bad", "1")
    assert set(Run.objects.filter(shard__gt=0).values_list("stopped_for", flat=True)) == {"shard_failed"}
    assert job.sim_duration_ms == Run.objects.get(shard=0).wall_ms
    assert_nothing_left(job)


def test_a_profileset_that_fails_only_in_its_shard_fails_the_job(tmp_path: Path) -> None:
    make_simulator(
        tmp_path, "if 'set 5' in names and not is_first: time.sleep(1); fail('set 5 is bad')", seconds=10
    )
    job = conducted(helpers=2)
    assert (job.status, job.status_reason, job.simulator_exit_code) == ("failed", "set 5 is bad", "1")
    assert_nothing_left(job)


def test_a_profileset_without_a_result_fails_the_job(tmp_path: Path) -> None:
    make_simulator(tmp_path, "if not is_first and 'set 5' in names: names.remove('set 5')")
    job = conducted(helpers=1)
    assert job.status == "failed"
    assert job.status_reason == "The simulator returned no result for 1 of 3 profilesets."


def test_a_profileset_without_a_result_fails_the_job_if_its_shard_cannot_tell(tmp_path: Path) -> None:
    # The single iteration of the other shards' baseline does no damage.
    body = """
if not is_first and 'set 5' in names: names.remove('set 5')
def report(whole=report):
    found = whole()
    if not is_first: found['sim']['players'][0]['collected_data']['dps']['mean'] = 0
    return found
"""
    make_simulator(tmp_path, body)
    job = conducted(helpers=1)
    assert job.status == "failed"
    assert job.status_reason == "The simulator returned no result for 1 of 12 profilesets."
    assert job.simulator_exit_code == "0"


def test_a_simulator_that_crashes_names_its_signal(tmp_path: Path) -> None:
    make_simulator(tmp_path, "if 'set 5' in names and not is_first: os.kill(os.getpid(), 9)")
    job = conducted()
    assert (job.status, job.error_code, job.simulator_exit_code) == ("failed", "execution_failed", "SIGKILL")


# Cancellation


def cancel_when_two_run(job: Job) -> Callable[[], None]:
    def act() -> None:
        wait_until(lambda: Run.objects.filter(shard__gt=0, ended_at=None).count() == 2)
        time.sleep(1.5)
        cancellation.cancel(job, by=SYSTEM)

    return act


def assert_stopped(job: Job) -> None:
    """Assert that a job was cancelled before its last shards had run, with partial results."""
    assert job.status == "cancelled"
    assert job.summary is not None
    assert job.summary["partial"] is True
    assert 0 < len(results_of(job)) < 12
    assert_nothing_left(job)


def test_a_cancelled_job_keeps_what_is_finished(tmp_path: Path) -> None:
    make_simulator(tmp_path, seconds=1)
    job = submit()
    ended = during(job, cancel_when_two_run(job), helpers=1)
    assert_stopped(ended)
    assert ended.sim_duration_ms == sum(run.wall_ms or 0 for run in Run.objects.all())


@pytest.mark.usefixtures("_short_leases")
@pytest.mark.parametrize("fault", ["counts[names[0]] = 1", "names = ['set 99', *names]; counts['set 99'] = 50"])
def test_a_stopped_shard_with_other_results_is_left_out(tmp_path: Path, fault: str) -> None:
    make_simulator(tmp_path, f"if 'set 4' in names and not is_first: {fault}", seconds=1)
    job = submit()
    ended = during(job, cancel_when_two_run(job), helpers=1)
    assert ended.status == "cancelled"
    assert Run.objects.filter(shard=2, stopped_for="cancelled").exists()
    found = results_of(ended).keys()
    assert found
    assert not {"set 4", "set 99"} & found


def test_a_cancellation_is_noticed_without_redis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "is_hinted", lambda _: False)
    make_simulator(tmp_path, seconds=1)
    job = submit()
    assert_stopped(during(job, cancel_when_two_run(job), helpers=1))


def test_a_cancelled_job_whose_shards_are_all_done_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conclude = Conductor._conclude

    def late(self: Conductor) -> Any:
        self.lease.cancelled.set()
        return conclude(self)

    monkeypatch.setattr(Conductor, "_conclude", late)
    make_simulator(tmp_path)
    assert_completed(conducted())


# Lost tries


def test_a_paused_helper_changes_nothing(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HEARTBEAT_SECONDS = 60
    stored: list[str] = []
    store = artifact_files.store_files

    def recorded(contents: Any) -> dict[str, str]:
        pairs = list(contents)
        stored.extend(name for name, _ in pairs)
        return store(iter(pairs))

    monkeypatch.setattr(artifact_files, "store_files", recorded)
    make_simulator(tmp_path, seconds=0.7)

    def pause() -> None:
        shard = wait_for_shard(seat=1)
        Shard.objects.filter(pk=shard.pk).update(lease_expires_at=Now() - shard_moves.VOID_KEPT)

    job = during(submit(), pause, helpers=1)
    assert_completed(job)
    ((number, _),) = lost_tries()
    assert tries() >= {(number, 1), (number, 2)}
    own = {name for name in stored if f".shard.{number}." in name and "report" in name}
    assert len(own) == 2


def tamper(monkeypatch: pytest.MonkeyPatch, change: Callable[[str], None], *, number: int, tries: int = 1) -> None:
    """Change the stored report of the first tries of a shard."""
    store = shard_files.store

    def stored(stage: ShardedStage, contents: Any, *, number: int, try_number: int) -> dict[str, str]:
        digests = store(stage, contents, number=number, try_number=try_number)
        if number == wanted and try_number <= tries:
            change(shard_files.name_of(stage, Artifact.Kind.JSON_REPORT, number=number, try_number=try_number))
        return digests

    wanted = number
    monkeypatch.setattr(shard_files, "store", stored)


def missing(name: str) -> None:
    default_storage.delete(name)


def replace(name: str, content: bytes) -> None:
    default_storage.delete(name)
    assert default_storage.save(name, io.BytesIO(content)) == name


def truncated(name: str) -> None:
    with default_storage.open(name) as stored:
        content = stored.read()
    replace(name, content[: len(content) // 2])


def empty(name: str) -> None:
    replace(name, b"")


def no_report(name: str) -> None:
    replace(name, gzip.compress(b"[]"))


def other_result(name: str) -> None:
    """Replace a report by a valid one with other numbers."""
    with default_storage.open(name) as stored:
        content = gzip.decompress(stored.read())
    assert b"10" in content
    replace(name, gzip.compress(content.replace(b"10", b"11")))


def truncated_log(name: str) -> None:
    truncated(name.replace("json_report", "stdout_log"))


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("change", [missing, truncated, empty, no_report, other_result, truncated_log])
def test_a_shard_with_unusable_files_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[str], None], number: int
) -> None:
    make_simulator(tmp_path, "print('x' * 2000)")
    tamper(monkeypatch, change, number=number)
    assert_completed(conducted())
    assert tries() == {(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (number, 2)}


@pytest.mark.parametrize(
    "fault",
    [
        "counts = dict.fromkeys(names, 1)",
        "counts[names[0]] = 51 + 50",
        "counts['set 99'] = 50; names = [*names, 'set 99']",
        "counts['set 9'] = 50; names = [*names[1:], 'set 9']",
    ],
    ids=["one iteration", "too many iterations", "a name more", "another name"],
)
def test_a_shard_with_other_results_runs_again_with_the_whole_baseline(tmp_path: Path, fault: str) -> None:
    make_simulator(tmp_path, f"if {FIRST_TRY}: {fault}")
    assert_completed(conducted(helpers=1))
    assert tries() == {(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (2, 2)}


def test_a_second_wrong_number_is_accepted(tmp_path: Path) -> None:
    make_simulator(tmp_path, "if 'set 4' in names and not is_first: counts = dict.fromkeys(names, 1)")
    job = conducted()
    assert_completed(job)
    assert (2, 2) in tries()
    assert (2, 3) not in tries()
    assert job.listed_warnings == ["The simulator ended the profileset 'set 4' after 1 of 50 iterations."]


def test_three_losses_lose_the_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_simulator(tmp_path)
    tamper(monkeypatch, truncated, number=2, tries=9)
    job = conducted(helpers=1)
    assert (job.status, job.attempt) == ("running", 1)
    assert max(number for _, number in tries()) == 3
    assert_kept(job)


def test_losses_stop_the_shard_that_the_conductor_runs(tmp_path: Path) -> None:
    make_simulator(tmp_path, "if is_first: time.sleep(60)")

    def lose() -> None:
        wait_until(lambda: Run.objects.filter(shard=0).exists())
        Shard.objects.filter(number=3).update(losses=job_moves.MAX_LOSSES)

    started = time.monotonic()
    assert during(submit(), lose).status == "running"
    assert time.monotonic() - started < 30


# Machines


def test_a_lost_launcher_of_a_helper_is_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_simulator(tmp_path, seconds=0.5)
    processes: list[ConfinedProcess] = []
    start = ConfinedProcess.start

    def started(process: ConfinedProcess) -> None:
        start(process)
        if threading.current_thread() is not threading.main_thread():
            processes.append(process)

    monkeypatch.setattr(ConfinedProcess, "start", started)

    def kill() -> None:
        wait_for_shard(seat=1)
        os.kill(processes[0].supervisor.pid, signal.SIGKILL)

    assert_completed(during(submit(), kill, helpers=1))
    assert len(lost_tries()) == 1


def test_a_machine_with_another_file_leaves_the_shards_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row has another hash than the conductor's file, as if the helper's file differed."""
    create = shard_moves.create_stage

    def created(stage: ShardedStage, *rest: Any) -> bool:
        result = create(stage, *rest)
        ShardedStage.objects.update(executable_sha256="0" * 64)
        return result

    monkeypatch.setattr(shard_moves, "create_stage", created)
    make_simulator(tmp_path, seconds=0.3)
    job = conducted(helpers=2)
    assert_completed(job)
    assert job.slots_used == 1


@pytest.mark.parametrize("number", [0, 1])
def test_a_build_replaced_in_mid_job_gives_the_attempt_up(tmp_path: Path, number: int) -> None:
    build = make_simulator(tmp_path, seconds=0.5)

    def replace_file() -> None:
        wait_until(lambda: Run.objects.filter(shard=number).exists())
        path = Path(build.executable)
        path.with_suffix(".new").write_text(path.read_text() + "# replaced\n")
        path.with_suffix(".new").chmod(0o755)
        path.with_suffix(".new").rename(path)

    job = during(submit(), replace_file)
    event = job.events.order_by("id").last()
    assert (job.status, event and event.reason) == ("queued", "the build was replaced during the run")
    assert build_of(job) == build
    assert_kept(job)


def test_a_build_that_vanishes_before_the_first_shard_is_not_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.execution.attempt.LOST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("jobs.execution.simulator_run.SECOND_START_SECONDS", 0.0)
    build = make_simulator(tmp_path)
    Path(build.executable).unlink()
    job = conducted()
    assert (job.status, build_of(job)) == ("queued", build)


def test_a_build_that_is_busy_for_a_moment_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.execution.simulator_run.SECOND_START_SECONDS", 0.0)
    sha256_of, failures = executables.sha256_of, iter([OSError("busy")])

    def sometimes(build: Build) -> str:
        for error in failures:
            raise error
        return sha256_of(build)

    monkeypatch.setattr(executables, "sha256_of", sometimes)
    make_simulator(tmp_path)
    assert_completed(conducted())


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> shutdown.Stop:
    """The shutdown of this process, not requested yet."""
    stop = shutdown.Stop()
    monkeypatch.setattr(shutdown, "stop", stop)
    return stop


def test_a_conductor_that_shuts_down_returns_the_job(tmp_path: Path, stop: shutdown.Stop) -> None:
    make_simulator(tmp_path, seconds=5)

    def shut_down() -> None:
        wait_for_shard(seat=1)
        stop.request(at_once=True)

    job = during(submit(), shut_down, helpers=1)
    assert (job.status, job.sim_duration_ms) == ("queued", None)
    assert_kept(job)
    assert set(Run.objects.exclude(shard=0).values_list("stopped_for", flat=True)) == {"lost"}
    assert not Run.objects.filter(ended_at=None).exists()


def test_a_conductor_that_stops_passes_the_job_on_after_its_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: shutdown.Stop
) -> None:
    make_simulator(tmp_path, seconds=0.2)

    def shut_down() -> None:
        wait_for_shard(seat=0)
        stop.request()

    job = during(submit(), shut_down)
    assert (job.status, job.retried) == ("queued", True)
    monkeypatch.setattr(shutdown, "stop", shutdown.Stop())
    attempt.execute(claim())
    assert_completed(Job.objects.get(pk=job.pk))
    assert not Run.objects.filter(wall_ms=None).exists()
    assert set(Run.objects.values_list("attempt", flat=True)) == {1, 2}
    assert Run.objects.values("shard").distinct().count() == Run.objects.count()


# Prints the progress of the first shard: of its runs, only the baseline takes long.
BASELINE = """
for fights in range(100 if is_first else 0):
    print(f'Generating Baseline: 1/13 [=>..] {fights}/100 9.0 1sec', flush=True)
    time.sleep(0.03)
"""


def test_a_conductor_that_stops_finishes_the_first_shard(
    tmp_path: Path, settings: Settings, stop: shutdown.Stop
) -> None:
    settings.STOP_SECONDS = 25
    make_simulator(tmp_path, BASELINE)

    def shut_down() -> None:
        wait_until(lambda: Run.objects.filter(shard=0).exists())
        stop.request()

    job = during(submit(), shut_down)
    assert job.status == "queued"
    assert Run.objects.get().wall_ms


def test_a_conductor_that_stops_ends_a_job_whose_shards_have_ended(tmp_path: Path, stop: shutdown.Stop) -> None:
    make_simulator(tmp_path, seconds=0.2)

    def shut_down() -> None:
        wait_until(lambda: Shard.objects.exists() and not Shard.objects.filter(status="waiting").exists())
        stop.request()

    assert_completed(during(submit(), shut_down))


# The database and the storage


@pytest.fixture
def cut_database(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that makes all moves of shards and renewals of leases fail for some seconds."""
    until = [0.0]

    def failing(run: Callable[..., Any]) -> Callable[..., Any]:
        def maybe(*args: Any, **named: Any) -> Any:
            if time.monotonic() < until[0]:
                raise OperationalError("the database restarts")
            return run(*args, **named)

        return maybe

    for module in (shard_moves, job_moves):
        monkeypatch.setattr(module, "run", failing(module.run))

    def cut(seconds: float) -> None:
        until[0] = time.monotonic() + seconds

    return cut


def test_a_database_outage_loses_nothing(tmp_path: Path, cut_database: Callable[[float], None]) -> None:
    make_simulator(tmp_path, seconds=0.4)

    def act() -> None:
        wait_for_shard(seat=1)
        cut_database(3)

    assert_completed(during(submit(), act, helpers=2))
    assert lost_tries() == []


def test_cut_connections_lose_nothing(tmp_path: Path) -> None:
    make_simulator(tmp_path, seconds=0.4)

    def act() -> None:
        wait_for_shard(seat=1)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    assert_completed(during(submit(), act, helpers=1))
    assert lost_tries() == []


start_run = job_moves.start_run


def lose_answers(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[int]:
    """Make the first call of a function fail after its commit. Return a list with an entry for each call."""
    function, calls = getattr(owner, name), list[int]()

    def lost(*args: Any, **named: Any) -> Any:
        result = function(*args, **named)
        calls.append(1)
        if len(calls) == 1:
            if function is start_run:
                args[0].status = "starting"
            raise OperationalError("the response was lost")
        return result

    monkeypatch.setattr(owner, name, lost)
    return calls


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (shard_moves, "create_stage"),
        (job_moves, "start_run"),
        (shard_moves, "end_shard"),
        (shard_moves, "reject_shard"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_lost_answer_of_the_database_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    make_simulator(tmp_path, f"if {FIRST_TRY}: counts = dict.fromkeys(names, 1)")
    calls = lose_answers(monkeypatch, owner, name)
    assert_completed(conducted())
    assert calls
    assert lost_tries() == []


def test_a_lost_answer_to_the_end_of_the_job_leaves_no_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_simulator(tmp_path)
    calls = lose_answers(monkeypatch, job_moves, "finish")
    assert_completed(conducted())
    assert len(calls) == 2


@pytest.mark.usefixtures("_short_leases")
def test_a_lost_answer_to_a_claim_costs_a_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_simulator(tmp_path)
    calls = lose_answers(monkeypatch, shard_moves, "claim_shard")
    started = time.monotonic()
    assert_completed(conducted())
    assert calls
    assert time.monotonic() - started > 2


def failing_first(function: Callable[..., Any], *, failures: int, error: Exception) -> Callable[..., Any]:
    """Return a function whose first calls fail."""
    left = iter(range(failures))

    def sometimes(*args: Any, **named: Any) -> Any:
        if next(left, None) is not None:
            raise error
        return function(*args, **named)

    return sometimes


def test_a_storage_outage_while_reports_are_collected_delays_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_simulator(tmp_path)
    failing = failing_first(artifact_files.copy_file, failures=5, error=OSError("the storage is unavailable"))
    monkeypatch.setattr(artifact_files, "copy_file", failing)
    assert_completed(conducted())
    assert len(tries()) == 5


def test_a_long_storage_outage_gives_the_attempt_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_simulator(tmp_path)
    monkeypatch.setattr(shard_results, "MAX_OUTAGE_SECONDS", 0.5)
    failing = failing_first(artifact_files.copy_file, failures=10**6, error=OSError("the storage is unavailable"))
    monkeypatch.setattr(artifact_files, "copy_file", failing)
    job = conducted()
    assert job.status == "running"
    assert_kept(job)


@pytest.mark.usefixtures("_short_leases")
def test_a_helper_that_cannot_store_its_files_loses_its_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_simulator(tmp_path, seconds=0.3)
    save = artifact_files._save
    failures: list[str] = []

    def failing(named: Any) -> None:
        if threading.current_thread() is not threading.main_thread() and len(failures) < 1:
            failures.append("once")
            raise OSError("the storage is unavailable")
        save(named)

    monkeypatch.setattr(artifact_files, "_save", failing)
    assert_completed(conducted(helpers=1))
    assert failures
    assert len(lost_tries()) == 1


# Two conductors


def test_a_conductor_that_lost_the_job_changes_nothing(tmp_path: Path, settings: Settings) -> None:
    settings.HEARTBEAT_SECONDS = 2.0
    make_simulator(tmp_path, seconds=0.4)
    job = submit()

    def take_over() -> None:
        wait_for_shard(seat=0)
        assert job_moves.requeue(Job.objects.get(pk=job.pk), reason="its lease expired")
        attempt.execute(claim())

    with meanwhile(take_over):
        attempt.execute(job)
    ended = Job.objects.get(pk=job.pk)
    assert (ended.status, ended.attempt) == ("completed", 2)
    assert results_of(ended).keys() == set(NAMES)
    assert ended.sim_duration_ms == sum(run.wall_ms or 0 for run in Run.objects.exclude(stopped_for="lost"))
    assert set(Artifact.objects.values_list("attempt", flat=True)) == {2}
    assert_nothing_left(ended)


# The conductor's threads


def test_no_shard_is_forgotten_if_it_is_rejected_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector's thread collects the last report right after the conductor has read that no shard waits."""
    monkeypatch.setattr(conductor, "OBSERVE_SECONDS", 60)
    collect, read_state, skipped = ShardResults.collect, shard_moves.read_stage, list[ShardResults]()

    def skip_once(self: ShardResults) -> None:
        if skipped:
            collect(self)
        skipped.append(self)

    def read_early(stage: ShardedStage) -> Any:
        state = read_state(stage)
        if len(skipped) == 1:
            thread = threading.Thread(target=at_once, args=(1, lambda: collect(skipped[0])))
            thread.start()
            thread.join(0.5)
        return state

    monkeypatch.setattr(ShardResults, "collect", skip_once)
    monkeypatch.setattr(shard_moves, "read_stage", read_early)
    make_simulator(tmp_path)
    tamper(monkeypatch, missing, number=4)
    assert_completed(conducted())


def test_observations_exclude_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_simulator(tmp_path, seconds=0.1)
    monkeypatch.setattr(conductor, "OBSERVE_SECONDS", 0.01)
    inside, most = [0], [0]
    threads = set()
    publish = Conductor._publish

    def counted(self: Conductor) -> None:
        inside[0] += 1
        threads.add(threading.current_thread())
        most[0] = max(most[0], inside[0])
        time.sleep(0.01)
        publish(self)
        inside[0] -= 1

    monkeypatch.setattr(Conductor, "_publish", counted)
    assert_completed(conducted(helpers=1))
    assert most[0] == 1
    assert len(threads) == 2


@pytest.fixture
def _own_threads() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    names = {thread.name for thread in set(threading.enumerate()) - before}
    assert not {name for name in names if name.startswith(("conductor", "collector", "lease", "watcher"))}


@pytest.mark.usefixtures("_own_threads")
def test_an_internal_error_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Conductor, *_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Conductor, "_conclude", fail)
    make_simulator(tmp_path, seconds=0.2)
    job = conducted(helpers=1)
    assert (job.status, job.error_code) == ("failed", "internal")
    assert_nothing_left(job)


def test_an_internal_error_ends_the_runs_of_helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Conductor) -> None:
        wait_for_shard()
        raise ZeroDivisionError

    monkeypatch.setattr(Conductor, "_run_shards", fail)
    make_simulator(tmp_path, seconds=0.2)
    job = submit()
    Job.objects.filter(pk=job.pk).update(status="running")
    job.status = "running"
    with helping(1):
        attempt.execute(job)
    assert not Run.objects.filter(ended_at=None).exists()


def test_a_disk_that_fills_during_the_merge_returns_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("simc.report_merge.merge", full)
    make_simulator(tmp_path)
    job = conducted()
    assert (job.status, job.error_code) == ("queued", None)
    assert_kept(job)


def test_a_job_cancelled_before_its_first_process_is_billed_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = shard_moves.create_stage

    def cancel_first(*arguments: Any) -> bool:
        cancellation.cancel(Job.objects.get(), by=SYSTEM)
        return create(*arguments)

    monkeypatch.setattr(shard_moves, "create_stage", cancel_first)
    make_simulator(tmp_path)
    job = conducted(priority=Priority.HIGH, priority_fee_credits=100)
    assert (job.status, job.credits_consumed, job.sim_duration_ms) == ("cancelled", 0, None)
    assert job.status_reason == job_moves.CANCELLED.reason
    assert not Artifact.objects.exists()


def test_progress_never_falls_and_ends_near_100(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_simulator(tmp_path, seconds=0.4)
    seen: list[float] = []
    publish = Conductor._publish

    def recorded(self: Conductor) -> None:
        publish(self)
        seen.append(self.progress.estimate.percent)

    monkeypatch.setattr(Conductor, "_publish", recorded)
    tamper(monkeypatch, missing, number=2)
    assert_completed(conducted(helpers=1))
    assert seen == sorted(seen)
    # It rises in steps, even if a busy machine makes few observations.
    assert seen[0] < 50
    assert len(set(seen)) >= 3
    assert seen[-1] == 99.9
