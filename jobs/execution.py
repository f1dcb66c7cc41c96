"""One attempt at a job: its build, its simulator process, what it leaves behind, and its end.

Everything that is written is fenced by the attempt's number, so an attempt that lost its lease can write nothing:
it is told at the next step, stops its simulator and leaves.
"""

import logging
import time
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any, Literal, cast

from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models.functions import Now

from jobs import artifacts, builds, credentials, lifecycle, runner, verdict, vetting
from jobs.budget import Budget
from jobs.credentials import GameCredentials
from jobs.lease import Lease, LeaseLost
from jobs.lifecycle import Outcome
from jobs.models import Artifact, Build, Job, JobProfile, Run, Status
from jobs.outputs import Outputs
from jobs.profiles.analysis import analyse, limited
from jobs.profiles.policy import Rules
from jobs.scrubbing import scrubber_of
from jobs.simulator import command, reports
from jobs.simulator.process import Ended
from jobs.simulator.reports import Report
from jobs.simulator.sandbox import PrivateDirectory
from jobs.stopping import WorkerStops
from jobs.watching import Watcher
from simservice.api.errors import SecretStoreUnavailable

logger = logging.getLogger(__name__)

REDIS_TRIES = 10
REDIS_TRIED_EVERY_SECONDS = 1.0
SINGLE_PASS = {"enabled": False, "reason": "disabled_by_option", "stages": []}

BUILD_UNAVAILABLE = Outcome(
    status=Status.FAILED,
    error_code="build_unavailable",
    reason="No build serves the channel and branch that the job asks for.",
)
# Neither the input's fault nor a loss that another attempt could make good.
CREDENTIALS_LOST = Outcome(
    status=Status.FAILED,
    error_code="execution_failed",
    reason="The game credentials that came with the job were lost before it ran. Nothing is billed; "
    "submit the job again, with its credentials.",
)
INTERNAL = Outcome(
    status=Status.FAILED, error_code="internal", reason="An error of ours ended the job. Nothing is billed."
)


def execute(job: Job) -> None:
    """Work a claimed job to its end, or stop quietly when it is taken away."""
    with Lease(job) as lease:
        try:
            end(job, lease)
        except LeaseLost:
            logger.warning("job %s attempt %s was taken away", job.pk, job.attempt)
        except WorkerStops:
            give_back(job, lease)
        except (DatabaseError, artifacts.NotStored):
            # The lease runs out, and the sweep gives the job to another attempt.
            logger.exception("job %s attempt %s is given up: nothing can be kept", job.pk, job.attempt)


def give_back(job: Job, lease: Lease) -> None:
    """Put the job back into the queue at once, so that nobody has to wait for the lease to run out."""
    with suppress(LeaseLost):
        lease.insist(lambda: lifecycle.hand_back(copy(job), reason=f"{job.worker} was stopped"))
    logger.info("job %s attempt %s is given back: the worker stops", job.pk, job.attempt)


def end(job: Job, lease: Lease) -> None:
    """Run the attempt and end the job as it went, or as our own error.

    Raises LeaseLost, WorkerStops, NotStored or a database error.
    """
    stored: list[Artifact] = []
    try:
        outcome = attempt(job, lease, stored)
        lease.insist(lambda: conclude(job, outcome, stored))
    except (LeaseLost, WorkerStops, DatabaseError, artifacts.NotStored):
        artifacts.discard(stored)
        raise
    except Exception:
        logger.exception("job %s attempt %s failed on our side", job.pk, job.attempt)
        artifacts.discard(stored)
        lease.insist(lambda: conclude(job, INTERNAL, []))


def conclude(job: Job, outcome: Outcome, stored: list[Artifact]) -> None:
    """End the job together with the rows of its artifacts; without the job, leave nothing behind.

    Safe to repeat after an end that was committed although the answer was lost.
    """
    with transaction.atomic():
        ended = lifecycle.finish(job, outcome)
        if ended:
            Artifact.objects.bulk_create(stored)
    if not ended:
        artifacts.discard(stored)
    logger.info("job %s attempt %s: %s", job.pk, job.attempt, outcome.status if ended else "ended elsewhere")


def attempt(job: Job, lease: Lease, stored: list[Artifact]) -> Outcome:
    """Run the simulator and return how the job ends; what it leaves is put into `stored`. Raises LeaseLost."""
    build = builds.resolve(job)
    if build is None:
        return BUILD_UNAVAILABLE
    secrets = fetch_credentials(job, lease) if job.has_credentials else None
    if job.has_credentials and secrets is None:
        return CREDENTIALS_LOST
    text, profilesets = profile_to_run(job)
    arguments = arguments_of(job)
    scrubber = scrubber_of(secrets)
    with runner.private_directory() as directory:
        runner.prepare(directory, text, build=build, credentials=secrets)
        lease.look_for_cancel()
        if lease.cancelled.is_set():
            return lifecycle.CANCELLED
        watcher = Watcher(job, lease, Budget.of(job), phases=1 + profilesets, scrubber=scrubber)
        ended = simulate(job, build, arguments, directory=directory, watcher=watcher)
        lease.require()
        outputs = Outputs(job, directory, scrubber)
        outcome = outcome_of(job, ended, outputs, watcher.budget)
        # Taken in one by one, so that the caller knows of those stored before one fails.
        stored.extend(outputs.store(ran=command.input_text(text, arguments)))
    return outcome


def fetch_credentials(job: Job, lease: Lease) -> GameCredentials | None:
    """Return the game credentials that came with the job, None when they are lost. Raises LeaseLost.

    A Redis that does not answer is waited for, since it may still have them.
    """
    for _ in range(REDIS_TRIES):
        try:
            seconds = job.ceiling_queue_seconds + job.ceiling_runtime_seconds
            return credentials.fetch(job.pk, seconds=seconds)
        except SecretStoreUnavailable:
            logger.warning("job %s waits for Redis to have its credentials", job.pk)
        if lease.lost.wait(REDIS_TRIED_EVERY_SECONDS):
            raise LeaseLost(job.pk)
    return None


def profile_to_run(job: Job) -> tuple[str, int]:
    """Return the job's profile held within the platform's limits, and how many profilesets it has."""
    text = JobProfile.objects.get(job=job).text
    analysis = analyse(text, rules=Rules(has_credentials=job.has_credentials), bounds=vetting.bounds())
    return limited(text, analysis), len(analysis.profilesets)


def arguments_of(job: Job) -> list[str]:
    """Return the simulator's arguments for a job."""
    return command.arguments(
        threads=job.vcpus,
        json_version=cast(Literal[2, 3], job.json_version),
        html=job.html,
        has_credentials=job.has_credentials,
    )


def simulate(
    job: Job, build: Build, arguments: list[str], *, directory: PrivateDirectory, watcher: Watcher
) -> Ended:
    """Run one simulator process to its end and record it. Raises LeaseLost."""
    process = runner.simulator(
        build,
        arguments,
        directory=directory,
        threads=job.vcpus,
        seconds=job.ceiling_runtime_seconds,
        on_line=watcher.on_line,
        on_line_end=watcher.on_line_end,
        network=job.has_credentials,
    )
    with process:
        started = time.monotonic()
        run = lifecycle.start_run(job, build=build)
        if run is None:
            raise LeaseLost(job.pk)
        ended = watcher.watch(process, started=started)
    watcher.lease.insist(lambda: record_end(run, ended))
    return ended


def record_end(run: Run, ended: Ended) -> None:
    """Write down how a process ended; a run that was given up as lost meanwhile stays so."""
    Run.objects.filter(pk=run.pk, ended_at=None).update(
        ended_at=Now(),
        wall_ms=round(ended.wall_seconds * 1000),
        cpu_ms=round(ended.cpu_seconds * 1000),
        peak_memory_bytes=ended.peak_memory_bytes,
        exit_code=verdict.exit_code(ended),
        stopped_for=ended.stopped_for or "",
        sandbox_layers=ended.layers,
    )


def outcome_of(job: Job, ended: Ended, outputs: Outputs, budget: Budget) -> Outcome:
    """Judge an ended process by its end and what it left."""
    summary = summary_of(outputs.report, partial=ended.stopped_for is not None)
    judged = verdict.judge(job, ended, summary=summary, complaint=outputs.complaint())
    wall_ms = round(ended.wall_seconds * 1000)
    # A job stopped at its cap is billed the cap, also when that is no whole number of seconds.
    charge = budget.held_credits if ended.stopped_for == verdict.CEILING else budget.charge(wall_ms)
    return replace(
        judged,
        exit_code=verdict.exit_code(ended),
        sim_duration_ms=wall_ms,
        credits_consumed=charge + job.priority_fee_credits,
        summary=summary,
    )


def summary_of(report: Report | None, *, partial: bool) -> dict[str, Any] | None:
    """Return the summary of a report, None without one."""
    if report is None:
        return None
    return reports.summarise(report, metric="dps", multistage=SINGLE_PASS, partial=partial)
