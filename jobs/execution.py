"""One attempt at a job: its build, its simulator process, what it leaves behind, and its end.

Everything that is written is fenced by the attempt's number, so an attempt that lost its lease can write nothing:
it is told at the next step, stops its simulator and leaves.
"""

import io
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, cast

from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models.functions import Now

from jobs import artifacts, builds, lifecycle, runner, verdict, vetting
from jobs.budget import Budget
from jobs.lease import Lease, LeaseLost
from jobs.lifecycle import Outcome
from jobs.models import Artifact, Build, Job, JobProfile, Run, Status
from jobs.profiles.analysis import analyse, limited
from jobs.profiles.policy import Rules
from jobs.simulator import command, reports
from jobs.simulator.process import Ended
from jobs.simulator.sandbox import PrivateDirectory, UnsafeProduct, open_product
from jobs.watching import Watcher

logger = logging.getLogger(__name__)

STDERR_TAIL_BYTES = 16 << 10
REPORTS = {Artifact.Kind.JSON_REPORT: command.REPORT_NAME, Artifact.Kind.HTML_REPORT: command.HTML_NAME}
LOGS = {Artifact.Kind.STDOUT_LOG: "stdout", Artifact.Kind.STDERR_LOG: "stderr"}
SINGLE_PASS = {"enabled": False, "reason": "disabled_by_option", "stages": []}

BUILD_UNAVAILABLE = Outcome(
    status=Status.FAILED,
    error_code="build_unavailable",
    reason="No build serves the channel and branch that the job asks for.",
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
        except DatabaseError:
            # The lease runs out, and the sweep gives the job to another attempt.
            logger.exception("job %s attempt %s is given up: the database does not answer", job.pk, job.attempt)


def end(job: Job, lease: Lease) -> None:
    """Run the attempt and end the job as it went, or as our own error. Raises LeaseLost or a database error."""
    stored: list[Artifact] = []
    try:
        outcome = attempt(job, lease, stored)
        lease.insist(lambda: conclude(job, outcome, stored))
    except (LeaseLost, DatabaseError):
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
    text, profilesets = profile_to_run(job)
    arguments = command.arguments(
        threads=job.vcpus, json_version=cast(Literal[2, 3], job.json_version), html=job.html
    )
    with runner.private_directory() as directory:
        runner.prepare(directory, text, build=build)
        lease.look_for_cancel()
        if lease.cancelled.is_set():
            return lifecycle.CANCELLED
        budget = Budget.of(job)
        watcher = Watcher(job, lease, budget, phases=1 + profilesets)
        ended = simulate(job, build, arguments, directory=directory, watcher=watcher)
        lease.require()
        outcome = outcome_of(job, ended, directory, budget)
        # Taken in one by one, so that the caller knows of those stored before one fails.
        stored.extend(products(job, directory, ran=command.input_text(text, arguments)))
    return outcome


def profile_to_run(job: Job) -> tuple[str, int]:
    """Return the job's profile held within the platform's limits, and how many profilesets it has."""
    text = JobProfile.objects.get(job=job).text
    analysis = analyse(text, rules=Rules(), bounds=vetting.bounds())
    return limited(text, analysis), len(analysis.profilesets)


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
    """Write down how a process ended."""
    Run.objects.filter(pk=run.pk).update(
        ended_at=Now(),
        wall_ms=round(ended.wall_seconds * 1000),
        cpu_ms=round(ended.cpu_seconds * 1000),
        peak_memory_bytes=ended.peak_memory_bytes,
        exit_code=verdict.exit_code(ended),
        stopped_for=ended.stopped_for or "",
        sandbox_layers=ended.layers,
    )


def outcome_of(job: Job, ended: Ended, directory: PrivateDirectory, budget: Budget) -> Outcome:
    """Judge an ended process by its end and what it left in its directory."""
    summary = read_summary(directory, partial=ended.stopped_for is not None)
    judged = verdict.judge(job, ended, summary=summary, complaint=complaint_in(directory))
    wall_ms = round(ended.wall_seconds * 1000)
    # A job stopped at its cap is billed the cap, also when that is no whole number of seconds.
    charge = job.ceiling_credits if ended.stopped_for == verdict.CEILING else budget.charge(wall_ms)
    return replace(
        judged,
        exit_code=verdict.exit_code(ended),
        sim_duration_ms=wall_ms,
        credits_consumed=charge + job.priority_fee_credits,
        summary=summary,
    )


def read_summary(directory: PrivateDirectory, *, partial: bool) -> dict[str, Any] | None:
    """Return the summary of the report in a private directory, or None when there is none that can be read."""
    try:
        stream = open_product(directory.cwd, command.REPORT_NAME, max_bytes=runner.MAX_REPORT_BYTES)
        if stream is None:
            return None
        with stream:
            report = reports.read_report(stream, max_bytes=runner.MAX_REPORT_BYTES)
    except (reports.BrokenReport, UnsafeProduct) as error:
        logger.info("no usable report: %s", error)
        return None
    return reports.summarise(report, metric="dps", multistage=SINGLE_PASS, partial=partial)


def complaint_in(directory: PrivateDirectory) -> str | None:
    """Return the simulator's own last error message."""
    with directory.log("stderr").open("rb") as log:
        log.seek(max(0, log.seek(0, io.SEEK_END) - STDERR_TAIL_BYTES))
        return reports.failure_message(log.read().decode(errors="replace"))


def products(job: Job, directory: PrivateDirectory, *, ran: str) -> Iterator[Artifact]:
    """Store everything worth keeping of a run, one by one, and yield the rows, not yet saved."""
    yield artifacts.store(job, Artifact.Kind.INPUT, io.BytesIO(ran.encode()))
    for kind, name in REPORTS.items():
        try:
            product = open_product(directory.cwd, name, max_bytes=runner.MAX_REPORT_BYTES)
        except UnsafeProduct as error:
            logger.info("job %s: %s not kept: %s", job.pk, kind, error)
            continue
        if product is not None:
            with product:
                yield artifacts.store(job, kind, product)
    for kind, stream in LOGS.items():
        with directory.log(stream).open("rb") as log:
            yield artifacts.store(job, kind, log)
