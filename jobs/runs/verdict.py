"""What the end of a simulator process means for its job.

The exit status alone proves nothing: the simulator ends with 0 when it could not write its report
(`docs/reference/simulator-command-line.md#exit-status`). A job is completed only with exit status 0 and a report
that can be read.
"""

import signal

from django.conf import settings

from jobs import variants
from jobs.enums import ErrorCode, Status
from jobs.lifecycle import Outcome
from jobs.models import Job
from jobs.simulator.private_directory import megabytes
from jobs.simulator.process import Ended
from jobs.simulator.reports import BrokenReport, Report

CEILING = "ceiling"
# The launcher's word where the worker came too late to stop a job at its ceiling.
OVERTIME = "overtime"
CREDITS = "credits"
CANCELLED = "cancelled"
STOPS = (CEILING, OVERTIME, CREDITS, CANCELLED)
# From the simulator's own handler of segmentation faults: docs/reference/simulator-command-line.md#exit-status
CRASH_STATUS = 11
# The shell and the dynamic loader use these for a program that cannot be run; simulators never do.
NO_PROGRAM = (126, 127)
NOTHING_TO_SIMULATE = "nothing to sim"


def judge(
    job: Job, ended: Ended, *, report: Report | BrokenReport, profilesets: int, complaint: str | None
) -> Outcome:
    """Return the verdict on an ended process: the outcome's status, code and reason.

    The report should have `profilesets` profilesets; `complaint` is the simulator's error message. The caller adds
    what the job used.
    """
    if ended.stopped_for in STOPS:
        return stopped(job, ended.stopped_for)
    if exceeded := exceeded_limit(ended):
        return crashed(f"The simulator {exceeded} and was stopped.")
    if ended.exit_status is None or ended.exit_status == CRASH_STATUS:
        return crashed(f"The simulator crashed ({end_of(ended)}).", told=complaint)
    if ended.exit_status != 0:
        return refused(complaint) if complaint else crashed(f"The simulator exited with status {exit_code(ended)}.")
    if isinstance(report, BrokenReport):
        return crashed(f"The simulator wrote no valid report: {report}.")
    lacking = profilesets - len(report.profilesets)
    # Where nobody does any damage, reports leave the profilesets out as they do failed ones.
    if lacking > 0 and report.players[0].dps.mean > 0:
        told = complaint or next(iter(report.errors), None)
        return incomplete(lacking, profilesets, told=told)
    return Outcome(status=Status.COMPLETED)


def stopped(job: Job, why: str) -> Outcome:
    """Return the verdict on a simulator that we stopped: cancelled, or at the end of what it may spend."""
    if why == CANCELLED:
        reason = "The job was cancelled while running. The simulation time used is billed."
        return Outcome(status=Status.CANCELLED, error_code=ErrorCode.USER_CANCELLED, reason=reason)
    if why == CREDITS:
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


def exceeded_limit(ended: Ended) -> str | None:
    """Return which limit a simulator exceeded, or None."""
    # The kernel sends SIGXFSZ when a single file reaches the limit.
    if ended.stopped_for == "disk_flood" or ended.signal == signal.SIGXFSZ:
        return f"exceeded the disk limit of {megabytes(settings.SIM_DISK_BYTES)}"
    if ended.stopped_for == "output_flood":
        return f"exceeded the output limit of {megabytes(settings.SIM_OUTPUT_BYTES)}"
    if ended.stopped_for == "memory_limit":
        return f"exceeded the memory limit of {settings.SIM_MEMORY_BYTES >> 20:,} MiB"
    return None


def incomplete(lacking: int, profilesets: int, *, told: str | None) -> Outcome:
    """Return the verdict for failed profilesets, after which the simulator still ends with 0."""
    reason = f"The simulator returned no result for {lacking} of {profilesets} profilesets."
    return Outcome(status=Status.FAILED, error_code=ErrorCode.SIMULATION_ERROR, reason=with_words(reason, told))


def crashed(reason: str, *, told: str | None = None) -> Outcome:
    """Return the verdict on a simulator that did not end as a program should."""
    return Outcome(status=Status.FAILED, error_code=ErrorCode.EXECUTION_FAILED, reason=with_words(reason, told))


def with_words(reason: str, told: str | None) -> str:
    """Return a reason, followed by the simulator's own words if it said anything."""
    return f"{reason} It reported: {told}" if told else reason


def refused(complaint: str) -> Outcome:
    """Return the verdict on a simulator that refused its input, in its own words."""
    nothing = NOTHING_TO_SIMULATE in complaint.lower()
    code = ErrorCode.INPUT_INVALID if nothing else ErrorCode.SIMULATION_ERROR
    return Outcome(status=Status.FAILED, error_code=code, reason=complaint)


def is_crash(code: str | None) -> bool:
    """Return whether an exit code, as returned by `exit_code`, means a crash."""
    return code is not None and (not code.isdigit() or int(code) == CRASH_STATUS)


def end_of(ended: Ended) -> str:
    """Return how a crashed process ended, in words."""
    return f"status {ended.exit_status}" if ended.exit_status is not None else exit_code(ended)


def exit_code(ended: Ended) -> str:
    """Return the exit status, or the name of the signal that ended the process."""
    if ended.exit_status is not None:
        return str(ended.exit_status)
    try:
        return signal.Signals(ended.signal or signal.SIGKILL).name
    except ValueError:
        return f"signal {ended.signal}"
