"""The outcome of a job, decided from the end of its simulator process.

The exit status alone is not enough: the simulator also exits with 0 if it could not write its report or did only
a part of its work (`docs/reference/simulator-command-line.md#exit-status`). A job is completed only if its JSON
report is valid and has everything that was asked for. The HTML report does not decide.
"""

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from django.conf import settings

from jobs import api_mode, failure_causes
from jobs.enums import ErrorCode, Status, StopReason
from jobs.failure_causes import FailureCause
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job
from jobs.results import labels
from sandbox import locales
from sandbox.private_directory import megabytes
from simc.reports import BrokenReport, Report
from simc.shortfall import Asked, shortfall

if TYPE_CHECKING:
    # The web server needs reasons, but no simulator.
    from sandbox.process import Ended

# The other reasons are limits of the sandbox.
JOB_STOPS = (StopReason.CEILING, StopReason.OVERTIME, StopReason.CREDITS, StopReason.CANCELLED)


class Messages(Protocol):
    """What a simulator printed."""

    def error_message(self) -> str | None:
        """Return the error message, or None."""

    def last_remark(self) -> str | None:
        """Return the last message of any kind, or None."""

    def is_cut_short(self) -> bool:
        """Return whether the simulator says that it ended early."""


@dataclass(frozen=True)
class _NoMessages:
    """The messages of a simulator that printed none, or whose messages were judged before."""

    def error_message(self) -> str | None:
        return None

    def last_remark(self) -> str | None:
        return None

    def is_cut_short(self) -> bool:
        return False


NO_MESSAGES = _NoMessages()


def outcome_of(
    job: Job,
    ended: "Ended",
    *,
    report: Report | BrokenReport,
    asked: Asked,
    messages: Messages,
    has_html: bool = False,
    fights_done: bool = False,
) -> Outcome:
    """Return the outcome's status, code and reason for an ended process. The caller adds the usage.

    `has_html` is whether the simulator also writes an HTML report, which does not decide. `fights_done` is whether
    it had begun to write reports when it was stopped.
    """
    if ended.stopped_for in JOB_STOPS:
        if has_html and fights_done and ended.stopped_for != StopReason.CANCELLED:
            return _stopped_in_html(job, StopReason(ended.stopped_for), report, asked)
        return stopped(job, StopReason(ended.stopped_for))
    failure = _failure_of(ended, messages)
    if isinstance(report, BrokenReport):
        return failure or _without_report(report, messages)
    if failure is not None and not has_html:
        return failure
    unfinished = incomplete(report, asked, messages)
    return (failure or unfinished) if unfinished else Outcome(status=Status.COMPLETED)


def incomplete(report: Report, asked: Asked, messages: Messages = NO_MESSAGES) -> Outcome | None:
    """Return the outcome of a report without all that was asked for, or None if it has it.

    The simulator exits with 0 even if an exception ended one of its threads, or if profilesets failed.
    """
    lack = shortfall(report, asked)
    is_cut_short = not asked.profilesets_may_end_early and messages.is_cut_short()
    if lack is None and not is_cut_short:
        return None
    error_message = messages.error_message() or next(iter(report.errors), None)
    is_theirs = (
        lack is not None
        and lack.only_profilesets
        and failure_causes.named_cause(error_message) in (None, FailureCause.TEXT)
    )
    return Outcome(
        status=Status.FAILED,
        error_code=ErrorCode.SIMULATION_ERROR if is_theirs else ErrorCode.EXECUTION_FAILED,
        reason=_with_error_message(lack.sentence if lack else "The simulator ended early.", error_message),
    )


def stopped(job: Job, stop_reason: StopReason) -> Outcome:
    """Return the outcome of a job that was cancelled, or stopped at the end of its budget."""
    if stop_reason == StopReason.CANCELLED:
        reason = f"The job was cancelled while running. {labels.TIME_IS_BILLED}"
        return Outcome(status=Status.CANCELLED, error_code=ErrorCode.USER_CANCELLED, reason=reason)
    if stop_reason == StopReason.CREDITS:
        reason = f"The account ran out of credits, so the job was stopped. {labels.TIME_IS_BILLED}"
        return Outcome(status=Status.FAILED, error_code=ErrorCode.INSUFFICIENT_CREDITS, reason=reason)
    variant = api_mode.current()
    in_credits = variant.shows_credit_ceiling
    limit = (
        f"credit limit of {job.ceiling_credits:,}"
        if in_credits
        else f"runtime limit of {job.ceiling_runtime_seconds:,} s"
    )
    reason = f"The job reached its {limit} and was stopped."
    return Outcome(status=Status.TIMED_OUT, error_code=variant.cap_reached, reason=reason)


def _stopped_in_html(job: Job, stop_reason: StopReason, report: Report | BrokenReport, asked: Asked) -> Outcome:
    """Return the outcome of a job whose HTML report did not end: completed if its JSON report is complete."""
    if not isinstance(report, BrokenReport) and shortfall(report, asked) is None:
        return Outcome(status=Status.COMPLETED)
    outcome = stopped(job, stop_reason)
    reason = f"{outcome.reason} All fights were done, but the simulator did not finish the HTML report."
    return Outcome(status=outcome.status, error_code=outcome.error_code, reason=reason)


def html_problem(ended: "Ended", messages: Messages) -> str | None:
    """Return why the HTML report of a completed job cannot be used, or None.

    The simulator writes the reports last, so whatever ended it early happened in the HTML report.
    """
    if ended.stopped_for in JOB_STOPS:
        return failure_causes.UNFINISHED_HTML
    if exceeded := _exceeded_limit(ended):
        return f"the simulator {exceeded} while writing it"
    error_message = messages.error_message()
    if ended.exit_status == 0:
        is_about_html = "html" in (error_message or "").lower()
        return f"the simulator reported: {error_message}".rstrip(".") if is_about_html else None
    if "locale" in (error_message or ""):
        return f"the simulator crashed because the locale {locales.NAME} is not installed"
    end = f"crashed ({end_of(ended)})" if _has_crashed(ended, error_message) else f"exited with {end_of(ended)}"
    return f"the simulator {end} while writing it" + (f": {error_message.rstrip('.')}" if error_message else "")


def _failure_of(ended: "Ended", messages: Messages) -> Outcome | None:
    """Return the outcome of a process that did not end normally, or None."""
    if exceeded := _exceeded_limit(ended):
        return _crashed(f"The simulator {exceeded} and was stopped.")
    if ended.exit_status == 0:
        return None
    error_message = messages.error_message()
    if _has_crashed(ended, error_message):
        return _crashed(f"The simulator crashed ({end_of(ended)}).", error_message)
    cause = failure_causes.cause_of(error_message, ended.exit_status)
    if error_message and cause:
        return Outcome(status=Status.FAILED, error_code=failure_causes.ERROR_CODES[cause], reason=error_message)
    return _crashed(f"The simulator exited with status {exit_code(ended)}.")


def _without_report(report: BrokenReport, messages: Messages) -> Outcome:
    """Return the outcome of a simulator that exited with 0 without a valid report."""
    error_message = messages.error_message()
    cause = failure_causes.named_cause(error_message)
    if error_message and cause in (FailureCause.NOTHING, FailureCause.TEXT):
        return Outcome(status=Status.FAILED, error_code=failure_causes.ERROR_CODES[cause], reason=error_message)
    reason = f"The simulator wrote no valid report: {report}."
    return _crashed(reason, error_message or messages.last_remark())


def _exceeded_limit(ended: "Ended") -> str | None:
    """Return which limit a simulator exceeded, or None."""
    # The kernel sends SIGXFSZ when a single file reaches the limit.
    if ended.stopped_for == StopReason.DISK_FLOOD or ended.signal == signal.SIGXFSZ:
        return f"exceeded the disk limit of {megabytes(settings.SIM_DISK_BYTES)}"
    if ended.stopped_for == StopReason.OUTPUT_FLOOD:
        return f"exceeded the output limit of {megabytes(settings.SIM_OUTPUT_BYTES)}"
    if ended.stopped_for == StopReason.MEMORY_LIMIT:
        return f"exceeded the memory limit of {settings.SIM_MEMORY_BYTES >> 20:,} MiB"
    return None


def _has_crashed(ended: "Ended", error_message: str | None) -> bool:
    """Return whether a process that did not exit with 0 crashed."""
    return failure_causes.is_crash(exit_code(ended), has_error=bool(error_message))


def _crashed(reason: str, error_message: str | None = None) -> Outcome:
    """Return the outcome for a simulator that did not exit normally."""
    return Outcome(
        status=Status.FAILED,
        error_code=ErrorCode.EXECUTION_FAILED,
        reason=_with_error_message(reason, error_message),
    )


def _with_error_message(reason: str, error_message: str | None) -> str:
    """Return a reason, followed by the simulator's error message, if any."""
    return f"{reason} It reported: {error_message}" if error_message else reason


def end_of(ended: "Ended") -> str:
    """Return how a process ended, as a phrase."""
    return f"status {ended.exit_status}" if ended.exit_status is not None else exit_code(ended)


def exit_code(ended: "Ended") -> str:
    """Return the exit status, or the name of the signal that ended the process."""
    if ended.exit_status is not None:
        return str(ended.exit_status)
    try:
        return signal.Signals(ended.signal or signal.SIGKILL).name
    except ValueError:
        return f"signal {ended.signal}"
