"""Advice about jobs that did not complete."""

from typing import Any
from unittest.mock import Mock

import pytest

from jobs import failure_causes
from jobs.enums import Status
from jobs.execution import attempt, verdict
from jobs.lifecycle.job_moves import BUILD_UNAVAILABLE, Outcome
from jobs.models import Job, Run
from jobs.results import labels
from sandbox.process import Ended
from simc.reports import BrokenReport, Report
from simc.shortfall import Asked


def make_end(exit_status: int | None = 0, *, signal: int | None = None, stopped_for: str | None = None) -> Ended:
    """Return the exit of a simulator process."""
    return Ended(
        exit_status=exit_status,
        signal=signal,
        stopped_for=stopped_for,
        wall_seconds=1.0,
        cpu_seconds=1.0,
        peak_memory_bytes=1,
        layers=[],
    )


def advice_about(end: Ended, *, complaint: str | None = None) -> str | None:
    """Return the advice for a job whose only process ended this way, without a report."""
    job = Job(attempt=1, ceiling_credits=64, ceiling_runtime_seconds=2)
    messages = Mock(error_message=lambda: complaint, last_remark=lambda: None, is_cut_short=lambda: False)
    outcome = verdict.outcome_of(
        job, end, report=BrokenReport("the file is missing"), asked=Asked(), messages=messages
    )
    job.status, job.error_code, job.status_reason = outcome.status, outcome.error_code, outcome.reason
    run = Run(attempt=1, exit_code=verdict.exit_code(end), stopped_for=end.stopped_for or "")
    return labels.advice(job, [run])


@pytest.mark.parametrize(
    ("end", "complaint", "expected"),
    [
        (make_end(stopped_for="ceiling"), None, "Raise the limit"),
        (make_end(stopped_for="overtime"), None, "Raise the limit"),
        (make_end(stopped_for="credits"), None, "more credits"),
        (make_end(stopped_for="cancelled"), None, "Run the job again to get results"),
        (make_end(stopped_for="output_flood"), None, "produces less output"),
        (make_end(stopped_for="disk_flood"), None, "writes less"),
        (make_end(stopped_for="memory_limit"), None, "less memory"),
        (make_end(None, signal=11), None, "another build channel"),
        (make_end(None, signal=9), None, "another build channel"),
        (make_end(failure_causes.HANDLED_CRASH), None, "another build channel"),
        (make_end(1), "unknown option", "Correct the error"),
        (make_end(1), "Nothing to sim!", "Every profile needs a character"),
        (make_end(1), None, "Check the error log"),
        (make_end(0), None, "Check the error log"),
    ],
)
def test_advice_matches_how_the_simulator_ended(end: Ended, complaint: str | None, expected: str) -> None:
    advice = advice_about(end, complaint=complaint)
    assert advice is not None
    assert expected in advice


def after(outcome: Outcome, **fields: Any) -> str | None:
    """Return the advice for a job that ended before its first process."""
    return labels.advice(Job(status=outcome.status, error_code=outcome.error_code, attempt=1, **fields), [])


def test_advice_matches_an_end_before_the_simulator_ran() -> None:
    assert after(attempt.CREDENTIALS_LOST, has_credentials=True) == labels.CREDENTIALS_LOST
    assert "build channel" in str(after(BUILD_UNAVAILABLE))


def test_advice_ignores_earlier_attempts() -> None:
    lost = Run(attempt=1, stopped_for="memory_limit")
    job = Job(status=Status.FAILED, error_code="execution_failed", attempt=2, has_credentials=True)
    assert labels.advice(job, [lost]) == labels.CREDENTIALS_LOST


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        (Run(exit_code="SIGKILL", stopped_for="memory_limit"), labels.STOPPED_ADVICE["memory_limit"]),
        (Run(exit_code="SIGSEGV"), labels.CRASHED),
        (Run(exit_code="1"), labels.ADVICE["execution_failed"]),
    ],
)
def test_advice_matches_the_shard_that_failed(failed: Run, expected: str) -> None:
    """The other shards of the job were stopped because of it."""
    stopped = [Run(shard=shard, exit_code="SIGKILL", stopped_for="lost", attempt=1) for shard in (0, 2)]
    failed.attempt = failed.shard = 1
    job = Job(status=Status.FAILED, error_code="execution_failed", attempt=1)
    assert labels.advice(job, [stopped[0], failed, stopped[1]]) == expected


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.RUNNING])
def test_successful_jobs_have_no_advice(status: Status) -> None:
    assert labels.advice(Job(status=status, attempt=1), []) is None


def test_the_cause_of_a_completed_run_is_not_searched() -> None:
    read, valid = Mock(), Mock(spec=Report, profilesets=(), players=[Mock(fights=0)], iterations=0)
    messages = Mock(error_message=read, is_cut_short=lambda: False)
    outcome = verdict.outcome_of(Job(), make_end(), report=valid, asked=Asked(), messages=messages)
    assert outcome.status == "completed"
    read.assert_not_called()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.5, "0.5 s"), (9.9, "9.9 s"), (45, "45 s"), (90, "90 s"), (91, "2 min"), (1_800, "30 min"),
     (5_400, "90 min"), (5_460, "1 h 31 min"), (7_200, "2 h"), (35_999, "10 h"), (86_400, "24 h"),
     (7_200_000, "2,000 h")],
)  # fmt: skip
def test_a_duration_has_few_digits(seconds: float, words: str) -> None:
    assert labels.duration(seconds) == words
