"""Slots that help with a shard, and how they give it up."""

import errno
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now
from pytest_django import Settings

from jobs.enums import StopReason
from jobs.execution import helper, machine, runner, shard_files
from jobs.execution.machine import RunLost
from jobs.execution.simulator_run import ShardRun
from jobs.execution.time_limits import Allowance
from jobs.lifecycle import cancellation, job_moves, shard_moves
from jobs.models import Job, Run, Shard, ShardedStage
from jobs.queue import executables
from simservice import shutdown
from simservice.telemetry.logs import AddIds
from tests.concurrency import at_once
from tests.factories import make_running_job
from tests.jobs.shards.helping_slots import helping
from tests.jobs.shards.sharded_jobs import allotted, claimed, make_stage, row
from tests.jobs.shards.sharded_runs import assert_nothing_left, make_simulator, meanwhile, wait_for_shard
from tests.jobs.simulators import claim as claim_job
from tests.jobs.simulators import wait_until
from tests.tracing import PARENT, recorded_spans

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _short_leases(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.LEASE_SECONDS, settings.HEARTBEAT_SECONDS = 2.0, 0.2
    monkeypatch.setattr(helper, "LOST_PAUSE_SECONDS", 0.0)


def stage_on(folder: Path, *, seconds: float = 30, body: str = "", **fields: Any) -> ShardedStage:
    """Return the stage of a running job whose simulator runs `body`, or sleeps for some seconds."""
    build = make_simulator(folder, body or f"time.sleep({seconds})")
    job = make_running_job(parallel_slots=3)
    Job.objects.filter(pk=job.pk).update(build=build, lease_expires_at=Now() + 10 * shard_moves.VOID_KEPT)
    job.refresh_from_db()
    return make_stage(job, **{"executable_sha256": executables.sha256_of(build), **fields})


def discard(stage: ShardedStage) -> None:
    assert shard_moves.discard_stages(stage.job, first=1, reason="removed")


def status_after(stage: ShardedStage, action: Callable[[], object] | None = None) -> tuple[str, int]:
    """Help with a shard, and call an action while it runs; return the shard's status and losses."""
    shard = claimed(stage)

    def act() -> None:
        if action is not None:
            wait_for_shard()
            action()

    with meanwhile(act):
        helper.execute(shard)
    allotted(stage)
    return row(shard).status, row(shard).losses


def test_a_shard_without_results_has_failed(tmp_path: Path) -> None:
    """The texts of `make_stage` contain no profilesets."""
    assert status_after(stage_on(tmp_path, seconds=0)) == ("failed", 0)


def test_a_worker_that_shuts_down_returns_its_shard_without_a_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = shutdown.Stop()
    monkeypatch.setattr(shutdown, "stop", stop)
    stage = stage_on(tmp_path)
    assert status_after(stage, lambda: stop.request(at_once=True)) == ("waiting", 0)
    assert Run.objects.get(try_number=1, seat=1).stopped_for == "lost"


# Prints the progress of some profilesets of a hundred iterations, of which each takes some seconds.
PROGRESS = """
for done in range(100):
    print(f'Generating Profileset: a 1/{phases} [=>..] {{done}}/100 9.0 1sec', flush=True)
    time.sleep({seconds})
"""


def test_a_worker_that_stops_returns_a_shard_that_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.STOP_SECONDS = 1000
    stop = shutdown.Stop()
    monkeypatch.setattr(shutdown, "stop", stop)
    stage = stage_on(tmp_path, body=PROGRESS.format(phases=10, seconds=1.5))
    assert status_after(stage, stop.request) == ("waiting", 0)
    assert Run.objects.get(try_number=1, seat=1).stopped_for == "lost"


@pytest.mark.parametrize("progress", [PROGRESS.format(phases=1, seconds=0.02), "time.sleep(1)"])
def test_a_worker_that_stops_finishes_a_short_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings, progress: str
) -> None:
    settings.STOP_SECONDS = 1000
    stop = shutdown.Stop()
    monkeypatch.setattr(shutdown, "stop", stop)
    # It ends, and its text contains no profilesets.
    assert status_after(stage_on(tmp_path, body=progress), stop.request) == ("failed", 0)
    assert Run.objects.get(try_number=1, seat=1).wall_ms


def test_a_helpers_lines_have_the_ids_of_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RunLost("the launcher died")

    monkeypatch.setattr(helper, "_run", fail)
    stage = stage_on(tmp_path)
    with caplog.filtering(AddIds()):
        helper.execute(claimed(stage))
    assert caplog.records[-1].__dict__ | stage.job.log_ids == caplog.records[-1].__dict__


def test_a_helper_stops_when_its_job_is_over(tmp_path: Path) -> None:
    stage = stage_on(tmp_path)

    def end_job() -> None:
        assert job_moves.finish(Job.objects.get(pk=stage.job_id), job_moves.INTERNAL)

    assert status_after(stage, end_job) == ("waiting", 0)


def test_a_helper_ends_its_shard_although_the_attempt_is_over(tmp_path: Path) -> None:
    stage = stage_on(tmp_path, body="if len(names) != 12: time.sleep(2); names = ['set 1']; counts = {'set 1': 1}")

    def end_attempt() -> None:
        assert job_moves.requeue(Job.objects.get(pk=stage.job_id), reason="shut down")

    assert status_after(stage, end_attempt)[0] in ("done", "failed")
    assert Job.objects.get(pk=stage.job_id).status == "queued"
    assert Run.objects.get(seat=1).wall_ms is not None


def test_a_helper_stops_when_its_stage_is_removed(tmp_path: Path) -> None:
    stage = stage_on(tmp_path)
    shard = claimed(stage)
    with meanwhile(lambda: discard(wait_for_shard().stage)):
        helper.execute(shard)
    assert_nothing_left(stage.job)


def test_files_that_are_stored_too_late_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage, store = stage_on(tmp_path, seconds=0), shard_files.store

    def stored(*args: Any, **named: Any) -> dict[str, str]:
        digests = store(*args, **named)
        discard(stage)
        return digests

    monkeypatch.setattr(shard_files, "store", stored)
    helper.execute(claimed(stage))
    assert_nothing_left(stage.job)


def test_a_shard_belongs_to_the_trace_of_its_job(tmp_path: Path) -> None:
    stage = stage_on(tmp_path, seconds=0)
    Job.objects.filter(pk=stage.job_id).update(trace_parent=PARENT)
    with recorded_spans() as recorded:
        helper.execute(claimed(stage))
    spans = {span.name: span for span in recorded.get_finished_spans()}
    helped, run, store = (spans[name] for name in ("help", "run", "store"))
    assert helped.parent is not None
    assert f"{helped.parent.span_id:016x}" in PARENT
    assert run.parent == store.parent == helped.context
    assert (run.attributes or {})["simservice.shard"] == 1


def test_a_shard_of_a_removed_stage_is_ignored(tmp_path: Path) -> None:
    stage = stage_on(tmp_path)
    shard = claimed(stage)
    discard(stage)
    helper.execute(shard)
    assert Run.objects.count() == 1


def test_a_hint_stops_a_helper_soon(tmp_path: Path, settings: Settings) -> None:
    settings.LEASE_SECONDS, settings.HEARTBEAT_SECONDS = 60, 30
    stage = stage_on(tmp_path)
    at: list[float] = []

    def stop() -> None:
        shard_moves.stop_stage(stage, StopReason.SHARD_FAILED)
        cancellation.hint(stage.job)
        at.append(time.monotonic())

    assert status_after(stage, stop) == ("stopped", 0)
    assert time.monotonic() - at[0] < 20
    assert allotted(stage) == 0


def test_a_build_replaced_after_the_claim_is_left_to_others(tmp_path: Path) -> None:
    stage = stage_on(tmp_path, executable_sha256="1" * 64)
    assert status_after(stage) == ("waiting", 0)
    assert stage.pk in executables.skipped.current()
    assert not Run.objects.filter(seat=1).exists()


def test_a_missing_executable_is_left_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("jobs.execution.simulator_run.SECOND_START_SECONDS", 0.0)
    stage = stage_on(tmp_path)
    Path(stage.build.executable).unlink()
    assert status_after(stage) == ("waiting", 0)
    assert stage.pk in executables.skipped.current()
    assert f"is returned: {stage.build.executable}" in caplog.text


def test_an_internal_error_is_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(ShardRun, "run_shard", fail)
    stage = stage_on(tmp_path)
    assert status_after(stage) == ("waiting", 1)
    assert stage.pk in executables.skipped.current()


def test_a_machine_with_a_full_disk_does_not_lose_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("jobs.execution.simulator_run.private_directory", fail)
    stage = stage_on(tmp_path)
    with helping(1):
        wait_until(lambda: stage.pk in executables.skipped.current())
        time.sleep(0.5)
    assert not Shard.objects.filter(losses__gt=0).exists()


def test_a_shard_that_lacks_results_on_a_full_disk_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_disk_problem", lambda **_: machine.DISK_FULL)
    stage = stage_on(tmp_path, body="sys.exit(0)")
    assert status_after(stage) == ("waiting", 0)
    assert stage.pk in executables.skipped.current()


def test_a_shard_that_ran_ends_the_pause_of_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tested = machine.Machine()
    monkeypatch.setattr(helper, "machine", tested)
    with suppress(RunLost), tested.counts_failures():
        raise RunLost
    helper.execute(claimed(stage_on(tmp_path, seconds=0)))
    assert tested.pause_seconds == 0


def test_a_helper_that_wakes_up_in_the_next_attempt_starts_nothing(tmp_path: Path) -> None:
    stage = stage_on(tmp_path)
    shard = claimed(stage)
    assert job_moves.requeue(Job.objects.get(pk=stage.job_id), reason="lost")
    again = claim_job()
    helper.execute(shard)
    again.refresh_from_db()
    assert (again.status, again.attempt) == ("starting", 2)
    assert not Run.objects.filter(attempt=2).exists()


def test_a_helper_whose_job_has_returned_to_the_queue_returns_its_shard(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = stage_on(tmp_path)
    shard = claimed(stage)
    assert job_moves.requeue(Job.objects.get(pk=stage.job_id), reason="lost")
    helper.execute(shard)
    assert not Run.objects.filter(seat=1).exists()
    assert (row(shard).status, row(shard).losses) == ("waiting", 0)
    assert not caplog.records


def test_a_helper_without_funds_ends_its_shard(tmp_path: Path) -> None:
    stage = stage_on(tmp_path, funded_ms=1500, slice_ms=1000)
    assert status_after(stage) == ("stopped", 0)
    assert allotted(stage) == 1500


def test_a_shard_can_outlast_the_funds_at_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "OVERTIME_SECONDS", 0)
    stage = stage_on(tmp_path, seconds=3, funded_ms=1500, slice_ms=1000)
    assert status_after(stage, lambda: shard_moves.fund_stage(stage, funded_ms=60_000)) == ("failed", 0)
    assert Run.objects.get(seat=1).stopped_for == ""


def test_a_shard_that_its_supervisor_stops_is_stopped_rather_than_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As after a pause of the worker that outlasted the allowance
    monkeypatch.setattr(runner, "OVERTIME_SECONDS", 0)
    monkeypatch.setattr(Allowance, "has_more_time", lambda _: False)
    stage = stage_on(tmp_path)
    Job.objects.filter(pk=stage.job_id).update(ceiling_runtime_seconds=1)
    assert status_after(stage) == ("stopped", 0)
    assert Run.objects.get(seat=1).stopped_for == StopReason.OVERTIME


# The lease


def allowance_of(stage: ShardedStage) -> Allowance:
    return Allowance(stage.job, claimed(stage), slice_ms=stage.slice_ms)


def test_a_lease_extends_its_allowance(settings: Settings) -> None:
    stage = make_stage()
    allowance = allowance_of(stage)
    allowance.started = time.monotonic() - 4
    allowance.lease.renew()
    assert stage.slice_ms + 4000 <= allowance.allowance_ms <= stage.slice_ms + allowance.ran_ms
    assert allotted(stage) == allowance.allowance_ms


def test_simultaneous_renewals_extend_once() -> None:
    stage = make_stage()
    allowance = allowance_of(stage)
    allowance.started = time.monotonic() - 4
    at_once(4, allowance.lease.renew)
    assert stage.slice_ms + 4000 <= allowance.allowance_ms <= stage.slice_ms + allowance.ran_ms
    assert allotted(stage) == allowance.allowance_ms


def test_new_funds_give_a_used_up_allowance_more_time() -> None:
    stage = make_stage(funded_ms=10_000)
    allowance = allowance_of(stage)
    allowance.started = time.monotonic() - 10
    assert allowance.stop_reason() == StopReason.CEILING
    assert not allowance.has_more_time()
    shard_moves.fund_stage(stage, funded_ms=20_000)
    assert allowance.has_more_time()


def test_an_extension_after_the_stop_counts_as_more_time() -> None:
    stage = make_stage(funded_ms=10_000)
    allowance = allowance_of(stage)
    allowance.started = time.monotonic() - 10
    assert allowance.stop_reason() == StopReason.CEILING
    shard_moves.fund_stage(stage, funded_ms=20_000)
    allowance.lease.renew()
    assert allotted(stage) == 20_000
    assert allowance.has_more_time()
