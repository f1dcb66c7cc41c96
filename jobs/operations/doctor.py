"""Checks of the parts that run jobs, for `manage.py doctor`."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db.models.functions import Now

from jobs import registry
from jobs.enums import CLAIMED, Priority
from jobs.execution import build_probe, runner
from jobs.execution.machine import DRAINED
from jobs.models import Build, Job
from jobs.operations import build_registration, html_reports
from jobs.queue import announcements, closures
from sandbox import layers
from simservice import worker_heartbeats
from simservice.celery import QUEUES, app
from simservice.operations.doctor import CHECKS as SERVICE_CHECKS
from simservice.operations.doctor import Check, Finding, check_pooler, failure, ok, warning

REGISTER = "Run `python manage.py registerbuild EXECUTABLE --branch {} --commit COMMIT`."


def check_sandbox() -> Iterator[Finding]:
    """Yield whether this machine can confine simulators."""
    try:
        active = runner.probe_sandbox()
    except layers.SandboxUnavailable as error:
        yield failure(
            f"Simulators cannot be confined on this machine: {' '.join(str(error).split())}",
            "See docs/explanation/security.md#requirements, or skip this check on machines that do not simulate.",
        )
        return
    if lacking := layers.missing(active):
        yield warning(f"Simulators run without {', '.join(lacking)}.", "Set SANDBOX=required in production.")
    else:
        yield ok(f"all protections are active: {', '.join(sorted(active))}")


def check_builds() -> Iterator[Finding]:
    """Yield whether each branch has builds that run on this machine."""
    current = {build.pk: build for _, build in registry.current()}
    for branch in settings.GIT_BRANCHES:
        if branch not in {build.git_branch for build in current.values()}:
            yield failure(f"No build of the branch {branch} is available.", REGISTER.format(branch))
    for build in current.values():
        yield from _check_build(build)
    for build in Build.objects.filter(registry.BROKEN)[:10]:
        yield warning(
            f"The build {build} is broken: {build.broken_reason}",
            "In the admin, restore it after a repair, or withdraw it if it is no longer needed.",
        )


def _check_build(build: Build) -> Iterator[Finding]:
    """Yield whether a build runs on this machine, and whether it can write HTML reports."""
    try:
        build_registration.require_as_registered(build)
        html_failure = html_reports.check(build)
    except build_probe.NotChecked as error:
        message = f"The build {build} could not be checked: {' '.join(str(error).split())}"
        yield failure(message, "Run this command again.")
    except build_probe.UnusableBuild as error:
        yield failure(
            f"The build {build} does not run here: {' '.join(str(error).split())}",
            f"Install {Path(build.executable)} on this machine, or withdraw the build in the admin.",
        )
    else:
        yield ok(f"{build} runs: SimulationCraft {build.simc_version}")
        if html_failure:
            message = f"The build {build} cannot write HTML reports. {html_failure}"
            yield warning(message, html_reports.advice(html_failure))


def check_workers() -> Iterator[Finding]:
    """Yield whether simulation workers and the sweep are running."""
    workers = worker_heartbeats.simulation_workers()
    if workers:
        yield ok(f"simulation workers: {len(workers)}, slots: {worker_heartbeats.total_slots(workers)}")
    yield from _check_closures()
    for name, problem in worker_heartbeats.problems_of(workers).items():
        if problem == DRAINED:
            continue
        advice = "Fix the problem on its machine. The worker then resumes by itself."
        yield failure(f"{name} claims no jobs: {problem}.", advice)
    if not workers:
        yield warning("No simulation worker is running, so jobs wait.", "Start a `sim` process.")
    # The next sweep handles what has just expired.
    late = Now() - timedelta(seconds=settings.SWEEP_SECONDS * 5)
    stalled = Job.objects.filter(status__in=CLAIMED, lease_expires_at__lt=late).count()
    unannounced = announcements.unannounced().filter(created_at__lt=late).count()
    if stalled or unannounced:
        yield failure(
            f"The sweep is late: expired leases: {stalled}, unannounced jobs: {unannounced}.",
            "Start a `control` process, or read its log.",
        )


def _check_closures() -> Iterator[Finding]:
    """Yield a warning for each paused lane and each drained machine."""
    for each in closures.current().order_by("pk"):
        command = (
            f"machines resume {each.host}" if each.host else f"lanes resume {Priority(each.lane or 0).api_name}"
        )
        message = f"The {each} has been {each.description}."
        yield warning(message, f"To end this, run `python manage.py {command}`.")


def check_queues() -> Iterator[Finding]:
    """Yield a warning for Celery queues without a worker, or the number of workers."""
    replies = app.control.inspect().active_queues() or {}
    consumed = {queue["name"] for queues in replies.values() for queue in queues}
    if missing := [name for name in QUEUES if name not in consumed]:
        advice = "Start a worker for each queue: docs/explanation/processes.md#celery."
        yield warning(f"No worker consumes {', '.join(missing)}.", advice)
    else:
        yield ok(f"Celery workers: {len(replies)}")


CHECKS: dict[str, Check] = {
    **SERVICE_CHECKS,
    "pooler": check_pooler,
    "sandbox": check_sandbox,
    "builds": check_builds,
    "workers": check_workers,
    "queues": check_queues,
}
