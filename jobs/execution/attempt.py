"""One attempt at a job: its build, its credentials, its stages and its end.

Every write names the attempt, so an attempt that lost its lease can change nothing. It notices at its next step,
stops its simulator and gives up (`docs/reference/state-machine.md#attempts-and-leases`).
"""

import logging
import socket
from contextlib import suppress
from copy import copy
from typing import Any
from uuid import UUID

from django.db import Error as DatabaseError
from django.db.models import F

from jobs import registry
from jobs.artifacts import artifact_files, credentials
from jobs.artifacts.credentials import GameCredentials
from jobs.enums import ErrorCode, ReturnCause, Status
from jobs.errors import CredentialStoreUnavailable, GivesUp
from jobs.execution import kept_stages
from jobs.execution.lease import Lease, LeaseLost
from jobs.execution.machine import LOST_PAUSE_SECONDS, MachineFault, RunLost, machine
from jobs.execution.simulator_run import BuildBroken
from jobs.execution.stages import run_stages
from jobs.execution.time_limits import Budget
from jobs.lifecycle import counters, job_moves
from jobs.lifecycle.job_moves import BUILD_UNAVAILABLE, Outcome
from jobs.models import Artifact, Job, ShardedStage
from jobs.planning.input_text import CannotRun
from jobs.queue import claims
from jobs.queue.expiring_set import ExpiringSet
from jobs.registry import Preparation
from simservice.telemetry import known_errors, tracing
from simservice.telemetry.logs import log_ids

logger = logging.getLogger(__name__)

REDIS_ATTEMPTS = 10
REDIS_RETRY_SECONDS = 1.0
# Builds that this machine lacks, so that not every job tries them
absent_builds = ExpiringSet[UUID](seconds=60)

# The input is not at fault, and another attempt could not recover them.
CREDENTIALS_LOST = Outcome(
    status=Status.FAILED,
    error_code=ErrorCode.EXECUTION_FAILED,
    reason="The job's game credentials were lost before it ran. Nothing is billed.",
)


class NoBuildHere(GivesUp):
    """This machine lacks all builds that the job can run on."""

    requeue_reason = f"{socket.gethostname()} has none of the job's builds"
    keeps_deadline = True


def execute(job: Job) -> None:
    """Run a claimed job to its end, or give up if the lease is lost."""
    with (
        log_ids(**job.log_ids),
        tracing.span(
            "attempt", kind="CONSUMER", parent=job.trace_parent, lane=counters.lane_of(job), **job.log_ids
        ),
        Lease(job) as lease,
    ):
        try:
            with machine.counts_failures():
                _run_to_end(job, lease)
        except GivesUp as error:
            _give_up(job, lease, error)
        except DatabaseError:
            # The lease expires, and the sweep returns the job to the queue.
            logger.exception("job %s attempt %s is given up: its results cannot be stored", job.pk, job.attempt)


def _give_up(job: Job, lease: Lease, error: GivesUp) -> None:
    """Return the job to the queue, or leave that to the sweep, which limits the attempts of a job."""
    if error.requeue_reason is None:
        level = logging.WARNING if isinstance(error, LeaseLost) else logging.ERROR
        logger.log(level, "job %s attempt %s is given up: %s", job.pk, job.attempt, error, exc_info=error.__cause__)
        if isinstance(error, RunLost):
            lease.lost.wait(LOST_PAUSE_SECONDS)
        return
    known_errors.report_if_known(error)
    deadline = {"queue_deadline_at": F("queue_deadline_at")} if error.keeps_deadline else {}
    _requeue(job, lease, reason=error.requeue_reason, **deadline)


def _requeue(job: Job, lease: Lease, *, reason: str, **changes: Any) -> None:
    """Return the job to the queue at once instead of when its lease expires."""
    with suppress(LeaseLost):
        lease.retry(lambda: job_moves.requeue(copy(job), reason=reason, cause=ReturnCause.RETURNED, **changes))
    logger.info("job %s attempt %s returned to the queue: %s", job.pk, job.attempt, reason)


def _run_to_end(job: Job, lease: Lease) -> None:
    """Run the attempt and end the job with its outcome, or with an internal error.

    Raises GivesUp or a database error.
    """
    stored: list[Artifact] = []
    sharded: list[ShardedStage] = []
    try:
        outcome = _run_stages(job, lease, stored, sharded)
        lease.retry(lambda: conclude(job, outcome, stored))
        _remove_stages(job, lease, sharded)
        if outcome.sim_duration_ms:
            machine.record_success()
    except (GivesUp, DatabaseError):
        _discard(job, stored)
        raise
    except Exception as error:
        if problem := known_errors.machine_problem(error):
            # Another machine may work. Otherwise, this worker would soon end every waiting job.
            _discard(job, stored)
            raise MachineFault(problem) from error
        logger.exception("job %s attempt %s failed with an internal error", job.pk, job.attempt)
        _discard(job, stored)
        lease.retry(lambda: conclude(job, job_moves.INTERNAL, []))
        _remove_stages(job, lease, sharded)


def _remove_stages(job: Job, lease: Lease, sharded: list[ShardedStage]) -> None:
    """Remove the job's sharded stages if it has ended. If that fails, the sweep and retention do it later.

    Whether this attempt ended it does not matter: the response to its end may have been lost.
    """
    if sharded or job.attempt > 1:
        with suppress(LeaseLost):
            lease.retry(lambda: kept_stages.remove(job))


def _discard(job: Job, stored: list[Artifact]) -> None:
    """Discard artifacts while an exception is handled. A database error must not replace that exception."""
    try:
        artifact_files.discard(stored)
    except DatabaseError:
        logger.warning("job %s attempt %s: files stay until its retention ends", job.pk, job.attempt, exc_info=True)


def conclude(job: Job, outcome: Outcome, stored: list[Artifact]) -> None:
    """End the job and save its artifacts' rows; if it belongs to another attempt, discard the artifacts.

    Safe to repeat if the commit succeeded but its response was lost.
    """
    with tracing.span("end", outcome=outcome.error_code or outcome.status):
        result = job_moves.finish(job, outcome, artifacts=stored)
    if not result:
        artifact_files.discard(stored)
    recorded = outcome.status if result else f"its end was not recorded ({result.name.lower()})"
    logger.info("job %s attempt %s: %s", job.pk, job.attempt, recorded)


def _run_stages(job: Job, lease: Lease, stored: list[Artifact], sharded: list[ShardedStage]) -> Outcome:
    """Run the job's stages and return its outcome.

    Artifacts are added to `stored`, and stages with shards to `sharded`.

    A build that cannot be run is marked as broken, unless this machine lacks it. In both cases, a job that has not
    started runs on the next build.

    Raises GivesUp or a database error.
    """
    secrets = _fetch_credentials(job, lease) if job.has_credentials else None
    if job.has_credentials and secrets is None:
        return CREDENTIALS_LOST
    missing = [*absent_builds.current()]
    while (prepared := registry.prepare(job, missing=missing)) is not None:
        try:
            return _run_prepared(job, prepared, lease, secrets=secrets, stored=stored, sharded=sharded)
        except (CannotRun, BuildBroken) as error:
            if not registry.is_installed(prepared.build):
                logger.warning("the build %s is not on this machine: %s", prepared.build, error)
                missing.append(prepared.build.pk)
                absent_builds.add(prepared.build.pk)
            elif isinstance(error, CannotRun):
                return error.outcome
            else:
                registry.mark_broken(prepared.build, f"{error} (on {socket.gethostname()})")
            if job.status != Status.STARTING:
                raise BuildBroken(str(error)) from error
    if registry.available(job.git_branch).exists():
        claims.branches_without_builds.add(job.git_branch)
        raise NoBuildHere
    return BUILD_UNAVAILABLE


def _run_prepared(
    job: Job,
    prepared: Preparation,
    lease: Lease,
    *,
    secrets: GameCredentials | None,
    stored: list[Artifact],
    sharded: list[ShardedStage],
) -> Outcome:
    """Run the job's stages on the prepared build. Raises what `run_stages` raises."""
    if prepared.cancel_requested:
        lease.cancelled.set()
    budget = Budget.of(job, hold_credits=prepared.hold_credits)
    build, text = prepared.build, prepared.profile_text
    return run_stages(job, build, text, lease=lease, budget=budget, secrets=secrets, stored=stored, sharded=sharded)


def _fetch_credentials(job: Job, lease: Lease) -> GameCredentials | None:
    """Return the job's game credentials, or None if they are lost. Raises LeaseLost.

    While Redis is unavailable, it may still have them, so the read is retried.
    """
    for _ in range(REDIS_ATTEMPTS):
        try:
            seconds = job.ceiling_queue_seconds + job.ceiling_runtime_seconds
            return credentials.fetch(job.pk, seconds=seconds)
        except CredentialStoreUnavailable:
            logger.warning("job %s waits for Redis, which has its credentials", job.pk)
        if lease.lost.wait(REDIS_RETRY_SECONDS):
            raise LeaseLost
    return None
