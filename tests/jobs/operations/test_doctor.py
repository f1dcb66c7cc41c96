"""Checks of the parts that run jobs, and the command that prints all checks."""

import io
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from celery.app.control import Inspect
from django.core.management import CommandError, call_command
from django.db.models.functions import Now
from pytest_django import Settings

from jobs.execution import runner
from jobs.models import Build, Job
from jobs.operations import doctor
from sandbox.layers import SandboxUnavailable
from simservice import worker_heartbeats
from simservice.celery import QUEUES
from simservice.operations.doctor import Finding, Level, failure, warning
from tests.factories import BuildFactory, make_running_job

pytestmark = pytest.mark.django_db(transaction=True)


def only(findings: Iterator[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_a_machine_that_cannot_confine_simulators_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> list[str]:
        raise SandboxUnavailable("bubblewrap is missing;\ninstall it")

    monkeypatch.setattr(runner, "probe_sandbox", refuse)
    finding = only(doctor.check_sandbox())
    assert (finding.level, "bubblewrap is missing; install it" in finding.message) == (Level.FAILURE, True)


def test_the_layers_of_this_machine_are_listed() -> None:
    finding = only(doctor.check_sandbox())
    assert finding.level in (Level.OK, Level.WARNING)
    assert "seccomp" in finding.message or "without" in finding.message


def test_a_working_build_is_accepted(minisim: Build) -> None:
    assert only(doctor.check_builds()).level is Level.OK


def test_a_branch_without_builds_is_found(minisim: Build, settings: Settings) -> None:
    settings.GIT_BRANCHES = [*settings.GIT_BRANCHES, "dusk"]
    finding = next(doctor.check_builds())
    assert finding.message == "No build of the branch dusk is available."
    assert "registerbuild EXECUTABLE --branch dusk" in finding.advice


def test_a_missing_executable_is_found(tmp_path: Path) -> None:
    BuildFactory.create(executable=str(tmp_path / "simc"))
    finding = only(doctor.check_builds())
    assert (finding.level, "does not run here" in finding.message) == (Level.FAILURE, True)


def test_a_broken_build_is_a_warning(minisim: Build) -> None:
    BuildFactory.create(withdrawn_at=minisim.created_at, broken_reason="It crashed.")
    *_, finding = doctor.check_builds()
    assert (finding.level, "is broken: It crashed." in finding.message) == (Level.WARNING, True)


def test_missing_workers_are_a_warning() -> None:
    assert only(doctor.check_workers()).message == "No simulation worker is running, so jobs wait."
    worker_heartbeats.report("sim@one", slots=4)
    assert only(doctor.check_workers()).message == "simulation workers: 1, slots: 4"


@pytest.mark.parametrize(
    ("queues", "message"),
    [
        ([], "No worker consumes sim.high, sim.standard, sim.background, webhooks, control."),
        (["sim.high", "control", "webhooks"], "No worker consumes sim.standard, sim.background."),
        (QUEUES, "Celery workers: 1"),
    ],
)
def test_queues_without_a_worker_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, queues: list[str], message: str
) -> None:
    replies = {"celery@one": [{"name": queue} for queue in queues]} if queues else None
    monkeypatch.setattr(Inspect, "active_queues", lambda _: replies)
    assert only(doctor.check_queues()).message == message


def test_a_late_sweep_is_found() -> None:
    Job.objects.filter(pk=make_running_job().pk).update(lease_expires_at="2020-01-01T00:00Z")
    *_, finding = doctor.check_workers()
    assert (finding.level, "expired leases: 1" in finding.message) == (Level.FAILURE, True)


def test_a_lease_that_has_just_expired_is_left_to_the_next_sweep() -> None:
    worker_heartbeats.report("sim@one", slots=4)
    Job.objects.filter(pk=make_running_job().pk).update(lease_expires_at=Now() - timedelta(seconds=1))
    assert only(doctor.check_workers()).level is Level.OK


def diagnose(*arguments: str) -> list[str]:
    """Return the lines of the command, also if it reports failures."""
    output = io.StringIO()
    try:
        call_command("doctor", *arguments, stdout=output)
    except CommandError as error:
        output.write(f"{error}\n")
    return output.getvalue().splitlines()


def test_the_command_prints_each_finding_in_one_line(minisim: Build) -> None:
    lines = diagnose()
    assert {line.split()[1] for line in lines if not line.endswith("found.")} == set(doctor.CHECKS)
    assert all(line.split()[0] in [*Level] for line in lines if not line.endswith("found."))


def test_checks_can_be_skipped() -> None:
    lines = diagnose(*(f"--skip={name}" for name in doctor.CHECKS if name != "database"))
    assert [line.split()[:2] for line in lines] == [["ok", "database"]]


def test_failures_are_counted_and_warnings_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"a": lambda: iter([warning("Odd.", "Look."), failure("Bad.", "Repair it.")])}
    monkeypatch.setattr("jobs.management.commands.doctor.CHECKS", found)
    assert diagnose() == [
        "warning  a            Odd. Look.",
        "failure  a            Bad. Repair it.",
        "1 failure found.",
    ]
