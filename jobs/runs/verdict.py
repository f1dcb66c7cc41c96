"""The outcome of a job, decided from the end of its simulator process.

The exit status alone is not enough: the simulator also exits with 0 if it could not write its report
(`docs/reference/simulator-command-line.md#exit-status`). A job is completed only with exit status 0 and a valid
report.
"""

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from django.conf import settings

from jobs import variants
from jobs.enums import ErrorCode, Status
from jobs.lifecycle import Outcome
from jobs.models import Job
from jobs.simulator.private_directory import megabytes
from jobs.simulator.reports import BrokenReport, Report
from jobs.simulator.stop_reasons import StopReason

if TYPE_CHECKING:
    # The web server needs `is_crash`, but no simulator.
    from jobs.simulator.process import Ended

# The other reasons are limits of the sandbox.
JOB_STOPS = (StopReason.CEILING, StopReason.OVERTIME, StopReason.CREDITS, StopReason.CANCELLED)
# From the simulator's own handler of segmentation faults: docs/reference/simulator-command-line.md#exit-status
CRASH_STATUS = 11
# The shell and the dynamic loader exit with these if a program cannot be run; simulators never do.
NO_PROGRAM = (126, 127)
EMPTY_INPUT_MESSAGE = "nothing to sim"


def judge(
    job: Job,
    ended: "Ended",
    *,
    report: Report | BrokenReport,
    profilesets: int,
    read_error_message: Callable[[], str | None],
) -> Outcome:
    """Return the outcome's status, code and reason for an ended process. The caller adds the usage.

    `profilesets` is the number of profilesets in the report of a complete run. `read_error_message` returns the
    simulator's error message; it is called only for a job that failed.
    """
    if ended.stopped_for in JOB_STOPS:
        return stopped(job, StopReason(ended.stopped_for))
    if exceeded := _exceeded_limit(ended):
        return _crashed(f"The simulator {exceeded} and was stopped.")
    if ended.exit_status is None or ended.exit_status == CRASH_STATUS:
        return _crashed(f"The simulator crashed ({_end_of(ended)}).", read_error_message())
    if ended.exit_status != 0:
        if error_message := read_error_message():
            return _rejected(error_message)
        return _crashed(f"The simulator exited with status {exit_code(ended)}.")
    if isinstance(report, BrokenReport):
        return _crashed(f"The simulator wrote no valid report: {report}.")
    return incomplete(report, profilesets, read_error_message) or Outcome(status=Status.COMPLETED)


def incomplete(
    report: Report, profilesets: int, read_error_message: Callable[[], str | None] = lambda: None
) -> Outcome | None:
    """Return the outcome of a report without all `profilesets`, or None if it has them.

    The simulator exits with 0 even if profilesets failed.
    """
    lacking = profilesets - len(report.profilesets)
    # If nobody does any damage, reports leave profilesets out although they did not fail.
    if lacking <= 0 or report.players[0].dps.mean <= 0:
        return None
    reason = f"The simulator returned no result for {lacking} of {profilesets} profilesets."
    error_message = read_error_message() or next(iter(report.errors), None)
    return Outcome(
        status=Status.FAILED,
        error_code=ErrorCode.SIMULATION_ERROR,
        reason=_with_error_message(reason, error_message),
    )


def stopped(job: Job, stop_reason: StopReason) -> Outcome:
    """Return the outcome of a job that was cancelled, or stopped at the end of its budget."""
    if stop_reason == StopReason.CANCELLED:
        reason = "The job was cancelled while running. The simulation time used is billed."
        return Outcome(status=Status.CANCELLED, error_code=ErrorCode.USER_CANCELLED, reason=reason)
    if stop_reason == StopReason.CREDITS:
        reason = "The account ran out of credits, so the job was stopped. The simulation time used is billed."
        return Outcome(status=Status.FAILED, error_code=ErrorCode.INSUFFICIENT_CREDITS, reason=reason)
    variant = variants.current()
    in_credits = variant.shows_credit_ceiling
    limit = (
        f"credit limit of {job.ceiling_credits:,}"
        if in_credits
        else f"runtime limit of {job.ceiling_runtime_seconds:,} s"
    )
    reason = f"The job reached its {limit} and was stopped."
    return Outcome(status=Status.TIMED_OUT, error_code=variant.cap_reached, reason=reason)


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


def _rejected(error_message: str) -> Outcome:
    """Return the outcome for a simulator that rejected its input."""
    nothing = EMPTY_INPUT_MESSAGE in error_message.lower()
    code = ErrorCode.INPUT_INVALID if nothing else ErrorCode.SIMULATION_ERROR
    return Outcome(status=Status.FAILED, error_code=code, reason=error_message)


def is_crash(code: str | None) -> bool:
    """Return whether an exit code, as returned by `exit_code`, means a crash."""
    return code is not None and (not code.isdigit() or int(code) == CRASH_STATUS)


def _end_of(ended: "Ended") -> str:
    """Return how a crashed process ended, as a phrase."""
    return f"status {ended.exit_status}" if ended.exit_status is not None else exit_code(ended)


def exit_code(ended: "Ended") -> str:
    """Return the exit status, or the name of the signal that ended the process."""
    if ended.exit_status is not None:
        return str(ended.exit_status)
    try:
        return signal.Signals(ended.signal or signal.SIGKILL).name
    except ValueError:
        return f"signal {ended.signal}"
