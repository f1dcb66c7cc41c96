"""One attempt at a job: its build, its credentials, the stages it runs, and its end.

Everything that is written is fenced by the attempt's number, so an attempt that lost its lease can write nothing:
it is told at the next step, stops its simulator and leaves.
"""

import logging
import socket
from contextlib import suppress
from copy import copy

from django.db import Error as DatabaseError
from django.db import transaction

from jobs import artifacts, credentials, lifecycle
from jobs.builds import registry
from jobs.credentials import GameCredentials
from jobs.enums import ErrorCode, Status
from jobs.errors import CredentialStoreUnavailable
from jobs.execution.lease import Lease, LeaseLost
from jobs.execution.stages import BuildBroken, Stages
from jobs.lifecycle import Outcome
from jobs.models import Artifact, Job
from jobs.runs.input_text import CannotRun
from jobs.shutdown import WorkerStops

logger = logging.getLogger(__name__)

REDIS_TRIES = 10
REDIS_TRIED_EVERY_SECONDS = 1.0

BUILD_UNAVAILABLE = Outcome(
    status=Status.FAILED,
    error_code=ErrorCode.BUILD_UNAVAILABLE,
    reason="No build is available for the job's channel and branch.",
)
# Neither the input's fault nor a loss that another attempt could make good.
CREDENTIALS_LOST = Outcome(
    status=Status.FAILED,
    error_code=ErrorCode.EXECUTION_FAILED,
    reason="The job's game credentials were lost before it ran. Nothing is billed. "
    "Submit the job again with its credentials.",
)


def execute(job: Job) -> None:
    """Work a claimed job to its end, or stop quietly when it is taken away."""
    with Lease(job) as lease:
        try:
            end(job, lease)
        except LeaseLost:
            logger.warning("job %s attempt %s was taken away", job.pk, job.attempt)
        except WorkerStops:
            give_back(job, lease, reason="the worker was shut down")
        except BuildBroken:
            give_back(job, lease, reason="the build stopped working during the run")
        except (DatabaseError, artifacts.NotStored):
            # The lease runs out, and the sweep gives the job to another attempt.
            logger.exception("job %s attempt %s is given up: nothing can be kept", job.pk, job.attempt)


def give_back(job: Job, lease: Lease, *, reason: str) -> None:
    """Return the job to the queue at once instead of when its lease expires."""
    with suppress(LeaseLost):
        lease.insist(lambda: lifecycle.hand_back(copy(job), reason=reason))
    logger.info("job %s attempt %s is given back: %s", job.pk, job.attempt, reason)


def end(job: Job, lease: Lease) -> None:
    """Run the attempt and end the job as it went, or as our own error.

    Raises LeaseLost, WorkerStops, BuildBroken, NotStored or a database error.
    """
    stored: list[Artifact] = []
    try:
        outcome = attempt(job, lease, stored)
        lease.insist(lambda: conclude(job, outcome, stored))
    except (LeaseLost, WorkerStops, BuildBroken, DatabaseError, artifacts.NotStored):
        artifacts.discard(stored)
        raise
    except Exception:
        logger.exception("job %s attempt %s failed on our side", job.pk, job.attempt)
        artifacts.discard(stored)
        lease.insist(lambda: conclude(job, lifecycle.INTERNAL, []))


def conclude(job: Job, outcome: Outcome, stored: list[Artifact]) -> None:
    """End the job together with the rows of its artifacts; without the job, leave nothing behind.

    Safe to repeat after an end that was committed although the answer was lost.
    """
    with transaction.atomic():
        result = lifecycle.finish(job, outcome)
        if result:
            Artifact.objects.bulk_create(stored)
    if not result:
        artifacts.discard(stored)
    logger.info("job %s attempt %s: %s: %s", job.pk, job.attempt, outcome.status, result.name.lower())


def attempt(job: Job, lease: Lease, stored: list[Artifact]) -> Outcome:
    """Run the simulator and return how the job ends; its artifacts are added to `stored`.

    A build that cannot be run is marked as broken, and a job that has not started runs on the next build.

    Raises LeaseLost, WorkerStops, BuildBroken for a job that has started, or a database error.
    """
    secrets = fetch_credentials(job, lease) if job.has_credentials else None
    if job.has_credentials and secrets is None:
        return CREDENTIALS_LOST
    while (build := registry.resolve(job)) is not None:
        try:
            return Stages(job, build, lease, secrets=secrets, stored=stored).run()
        except CannotRun as error:
            return error.outcome
        except BuildBroken as error:
            registry.mark_broken(build, f"{error} (on {socket.gethostname()})")
            if job.status != Status.STARTING:
                raise
    return BUILD_UNAVAILABLE


def fetch_credentials(job: Job, lease: Lease) -> GameCredentials | None:
    """Return the game credentials that came with the job, None when they are lost. Raises LeaseLost.

    A Redis that does not answer is waited for, since it may still have them.
    """
    for _ in range(REDIS_TRIES):
        try:
            seconds = job.ceiling_queue_seconds + job.ceiling_runtime_seconds
            return credentials.fetch(job.pk, seconds=seconds)
        except CredentialStoreUnavailable:
            logger.warning("job %s waits for Redis to have its credentials", job.pk)
        if lease.lost.wait(REDIS_TRIED_EVERY_SECONDS):
            raise LeaseLost(job.pk)
    return None
