"""One attempt at a job, with the built-in simulator and misbehaving fake ones."""

import json
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pytest
from django.core.files.storage import default_storage
from django.db import OperationalError
from pytest_django import Settings

from jobs import registry
from jobs.artifacts import artifact_files
from jobs.enums import Status
from jobs.errors import WorkerStops
from jobs.execution import attempt, verdict
from jobs.execution.lease import LeaseLost
from jobs.execution.simulator_run import BuildBroken
from jobs.lifecycle import job_moves
from jobs.live.progress import progress_of
from jobs.models import Artifact, Build, Job, JobDetails, JobEvent, Run
from jobs.results import details
from simservice.storages.local import LocalStorage
from tests.factories import make_job
from tests.jobs.simulators import content, make_stand_in, run
from tests.simc.details_check import check_report

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_real_profile_completes_with_its_result(minisim: Build) -> None:
    job = run(html=True)
    assert (job.status, job.error_code, job.simulator_exit_code) == ("completed", None, "0")
    assert job.summary is not None
    assert job.summary["mainActor"]["name"] == "Frosty"
    assert job.summary["mainActor"]["mean"] > 0
    assert job.credits_consumed == -(-job.sim_duration_ms // 1000) * 32  # type: ignore[operator]
    assert progress_of(job).percent == 100
    assert set(Artifact.objects.filter(job=job).values_list("kind", flat=True)) == {
        "input",
        "json_report",
        "html_report",
        "stdout_log",
        "stderr_log",
    }
    assert json.loads(content(job, Artifact.Kind.JSON_REPORT))["report_version"] == "2.0.0"
    assert content(job, Artifact.Kind.INPUT).startswith(b'mage="Frosty"')
    assert content(job, Artifact.Kind.STDERR_LOG) == b""


def test_a_completed_job_has_the_details_of_its_report(minisim: Build, tmp_path: Path) -> None:
    job = run()
    report = tmp_path / "report.json"
    report.write_bytes(content(job, Artifact.Kind.JSON_REPORT))
    assert check_report(report, details.document_of(job)).problems == []


def test_a_job_without_a_report_has_no_details(tmp_path: Path) -> None:
    make_stand_in(tmp_path, "pass")
    assert run().status == "failed"
    assert not JobDetails.objects.exists()


def test_report_version_3_is_written_on_request(minisim: Build) -> None:
    job = run(json_version=3)
    assert job.status == "completed"
    assert json.loads(content(job, Artifact.Kind.JSON_REPORT))["report_version"] == "3.0.0-alpha1"


def test_the_services_options_override_the_profile(minisim: Build) -> None:
    job = run(text='mage="A"\niterations=20\njson2=elsewhere.json\nthreads=64\noutput=text.txt\n')
    assert job.status == "completed"
    assert json.loads(content(job, Artifact.Kind.JSON_REPORT))["sim"]["options"]["threads"] == 1


def test_a_run_is_recorded(minisim: Build) -> None:
    job = run()
    recorded = Run.objects.get(job=job)
    assert (recorded.attempt, recorded.stage, recorded.exit_code) == (1, 1, "0")
    assert recorded.wall_ms == job.sim_duration_ms
    assert "rlimits" in recorded.sandbox_layers


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("# nothing here\n", "input_invalid", "Nothing to sim"),
        ('mage="A"\nmax_time=abc\n', "simulation_error", "max_time"),
    ],
)
def test_the_simulators_error_message_is_the_reason(minisim: Build, text: str, code: str, reason: str) -> None:
    job = run(text=text)
    assert (job.status, job.error_code) == ("failed", code)
    assert reason in str(job.status_reason)


def test_without_a_build_nothing_runs() -> None:
    job = run()
    assert (job.status, job.error_code, job.credits_consumed) == ("failed", "build_unavailable", 0)
    assert job.started_at is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "wrote no valid report"),
        ("open('report.json', 'w').close()", "wrote no valid report"),
        ("open('report.json', 'w').write('{\"sim\": ')", "wrote no valid report"),
        # Some sandbox layers forbid creating these.
        ("try: os.symlink('/etc/passwd', 'report.json')\nexcept OSError: pass", "wrote no valid report"),
        ("try: os.mkfifo('report.json')\nexcept OSError: pass", "wrote no valid report"),
        ("sys.exit(3)", "status 3"),
        ("sys.exit(11)", "crashed (status 11)"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
    ],
    ids=["no report", "empty", "truncated", "symlink", "fifo", "status 3", "status 11", "signal"],
)
def test_an_exit_without_a_valid_report_is_a_failure(tmp_path: Path, body: str, reason: str) -> None:
    make_stand_in(tmp_path, body)
    job = run()
    assert (job.status, job.error_code) == ("failed", "execution_failed")
    assert reason in str(job.status_reason)
    assert Artifact.objects.filter(job=job, kind="stdout_log").exists()


def test_a_simulator_flooding_its_output_is_stopped(tmp_path: Path, settings: Settings) -> None:
    settings.SIM_OUTPUT_BYTES = 16 << 20
    make_stand_in(tmp_path, "line = b'x' * 65536 + b'\\n'\nfor _ in range(16384): sys.stdout.buffer.write(line)")
    job = run()
    assert job.error_code == "execution_failed"
    assert "output limit" in str(job.status_reason)
    assert Artifact.objects.get(job=job, kind="stdout_log").bytes < 8 << 20


def test_a_job_is_stopped_and_billed_at_its_ceiling(tmp_path: Path) -> None:
    make_stand_in(
        tmp_path,
        "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "time.sleep(60)",
    )
    job = run(ceiling_credits=32, ceiling_runtime_seconds=1)
    assert (job.status, job.error_code, job.credits_consumed) == ("timed_out", "max_credits_reached", 32)
    assert job.sim_duration_ms is not None
    assert job.sim_duration_ms < 10_000


def test_partial_results_at_the_ceiling_are_kept(minisim: Build) -> None:
    job = run(text='mage="A"\niterations=10000000\n', ceiling_credits=64, ceiling_runtime_seconds=2)
    assert job.status == "timed_out"
    assert job.summary is not None
    assert job.summary["partial"] is True
    partial = details.details_of(job)
    assert partial is not None
    assert partial.actors[0].dps is not None
    assert partial.actors[0].dps.mean == job.summary["mainActor"]["mean"]


def test_a_lost_attempt_writes_nothing_and_stops_its_simulator(tmp_path: Path, settings: Settings) -> None:
    settings.HEARTBEAT_SECONDS = 0.1
    make_stand_in(tmp_path, "time.sleep(60)")
    make_job()
    job = job_moves.claim_job("worker-1")
    assert job is not None
    start_run = job_moves.start_run

    def requeue_once_running(job: Job, **named: Any) -> int | None:
        run = start_run(job, **named)
        job_moves.requeue(Job.objects.get(pk=job.pk), reason="taken")
        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_moves, "start_run", requeue_once_running)
        attempt.execute(job)
    assert Job.objects.get(pk=job.pk).status == "queued"
    assert not Artifact.objects.exists()
    lost = Run.objects.get(job=job)
    assert (lost.stopped_for, lost.wall_ms) == ("lost", None)


def test_a_worker_that_resumes_does_not_record_a_lost_run(minisim: Build) -> None:
    end_run = job_moves.end_run

    def woken_up(fields: Mapping[str, Any]) -> Iterator[int]:
        job_moves.requeue(Job.objects.get(), reason="taken")
        return end_run(fields)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_moves, "end_run", woken_up)
        job = run()
    lost = Run.objects.get(job=job)
    assert (lost.stopped_for, lost.wall_ms, lost.exit_code) == ("lost", None, None)


def test_files_of_a_lost_attempt_are_removed(minisim: Build) -> None:
    make_job()
    job = job_moves.claim_job("worker-1")
    assert job is not None
    conclude = attempt.conclude

    def too_late(job: Job, outcome: job_moves.Outcome, stored: list[Artifact]) -> None:
        job_moves.requeue(Job.objects.get(pk=job.pk), reason="taken")
        conclude(job, outcome, stored)
        assert stored
        assert not any(default_storage.exists(artifact.storage_name) for artifact in stored)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attempt, "conclude", too_late)
        attempt.execute(job)
    assert Job.objects.get(pk=job.pk).status == "queued"
    assert not Artifact.objects.exists()
    assert not JobDetails.objects.exists()


def test_a_database_failure_leaves_the_job_to_the_sweep(minisim: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(job: Job, **named: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(registry, "prepare", broken)
    job = run()
    assert (job.status, job.error_code) == ("starting", None)


def test_a_lost_answer_to_the_start_only_delays_the_run(minisim: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    start_run, errors = job_moves.start_run, iter([OperationalError()])

    def commit_then_fail(job: Job, **named: Any) -> int | None:
        run_id = start_run(copy(job), **named)
        for error in errors:
            raise error
        job.status = Status.RUNNING
        return run_id

    monkeypatch.setattr(job_moves, "start_run", commit_then_fail)
    job = run()
    assert (job.status, job.attempt) == ("completed", 1)
    assert Run.objects.get(job=job).wall_ms == job.sim_duration_ms
    assert JobEvent.objects.filter(job=job, to_status=Status.RUNNING).count() == 1


def test_a_silent_commit_keeps_its_artifacts(minisim: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    conclude, errors = attempt.conclude, iter([OperationalError()])

    def commit_then_fail(job: Job, outcome: job_moves.Outcome, stored: list[Artifact]) -> None:
        status = job.status
        conclude(job, outcome, stored)
        for error in errors:
            job.status = status
            raise error

    monkeypatch.setattr(attempt, "conclude", commit_then_fail)
    job = run()
    assert job.status == "completed"
    assert content(job, Artifact.Kind.JSON_REPORT)


def test_a_lease_lost_after_a_silent_commit_deletes_nothing(
    minisim: Build, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    conclude = attempt.conclude

    def commit_then_fail(job: Job, outcome: job_moves.Outcome, stored: list[Artifact]) -> None:
        conclude(job, outcome, stored)
        # For the lease, an ended job is the same as a lost one.
        raise LeaseLost

    monkeypatch.setattr(attempt, "conclude", commit_then_fail)
    job = run()
    assert job.status == "completed"
    assert content(job, Artifact.Kind.JSON_REPORT)
    # The runbook names these words.
    assert "lost its lease" in caplog.text


def test_a_failed_upload_leaves_no_file(minisim: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact_files, "SAVE_WAITS_SECONDS", ())
    save_many = LocalStorage.save_many
    saved: list[str] = []

    def saves_two(storage: LocalStorage, files: Mapping[str, IO[bytes]]) -> None:
        saved.extend(islice(files, 2))
        save_many(storage, {name: files[name] for name in saved})
        assert all(map(storage.exists, saved))
        raise OSError

    monkeypatch.setattr(LocalStorage, "save_many", saves_two)
    job = run()
    assert (job.status, job.error_code) == ("running", None)
    assert len(saved) == 2
    assert not any(map(default_storage.exists, saved))


def test_an_internal_error_ends_the_job_without_charge(minisim: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "outcome_of", lambda *_, **__: 1 / 0)
    job = run()
    assert (job.status, job.error_code, job.credits_consumed) == ("failed", "internal", 0)


def test_a_job_over_its_memory_limit_fails_with_a_reason(tmp_path: Path, settings: Settings) -> None:
    settings.SIM_MEMORY_BYTES = 256 << 20
    hoard = "block = bytearray(os.urandom(1024)) * (60 << 10)\ntime.sleep(30)"
    make_stand_in(tmp_path, f"print('running', flush=True)\n[os.fork() for _ in range(3)]\n{hoard}")
    job = run()
    assert (job.status, job.error_code) == ("failed", "execution_failed")
    assert job.status_reason == "The simulator exceeded the memory limit of 256 MiB and was stopped."


def fail_with(error: type[Exception]) -> Callable[..., None]:
    """Return a function that raises an error."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "expected"),
    [(ZeroDivisionError, ("failed", "internal")), (WorkerStops, ("queued", None)), (BuildBroken, ("queued", None))],
)
def test_a_failed_discard_does_not_change_the_outcome(
    monkeypatch: pytest.MonkeyPatch, minisim: Build, error: type[Exception], expected: tuple[str, str | None]
) -> None:
    monkeypatch.setattr(artifact_files, "discard", fail_with(OperationalError))
    monkeypatch.setattr(attempt, "_run_stages", fail_with(error))
    job = run()
    assert (job.status, job.error_code) == expected
