"""Taking in executables as builds: `manage.py registerbuild`."""

import os
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from jobs import execution, queue, registration
from jobs.management.commands.seedlocal import MINISIM, MINISIM_ORIGIN, MINISIM_PROFILES, MINISIM_READS
from jobs.models import Build, Job
from tests.factories import make_job

pytestmark = pytest.mark.django_db(transaction=True)


def registerbuild(executable: Path, *arguments: str) -> tuple[str, str]:
    """Run the command and return what it prints."""
    out, err = StringIO(), StringIO()
    options = ["--branch", "midnight", "--commit", "abc", *arguments]
    call_command("registerbuild", str(executable), *options, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def script(path: Path, body: str) -> Path:
    """Write an executable shell script into a folder that every user may read."""
    path.parent.chmod(0o755)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


VERSION = "SimulationCraft 1120-01 for World of Warcraft 11.2.0.63003 Live (hotfix 2025-09-04/63003)"


def test_the_version_line_is_recorded(tmp_path: Path) -> None:
    registerbuild(script(tmp_path / "simc", f"echo '{VERSION}'"), "--repo", "https://example.org/simc")
    build = Build.objects.get()
    assert (build.simc_version, build.wow_version, str(build.hotfix_date)) == (
        "1120-01",
        "11.2.0.63003",
        "2025-09-04",
    )
    assert (build.git_branch, build.commit, build.repo) == ("midnight", "abc", "https://example.org/simc")
    assert build.ci is None


def test_registering_a_commit_again_updates_its_build(tmp_path: Path) -> None:
    simc = script(tmp_path / "simc", f"echo '{VERSION}'")
    registerbuild(simc)
    registerbuild(simc, "--created-at", "2026-11-01T00:00:00")
    assert Build.objects.get().created_at.isoformat() == "2026-11-01T00:00:00+00:00"


@pytest.mark.parametrize("body", ["exit 1", "echo hello", "kill -9 $$"])
def test_an_executable_that_is_no_simulator_is_refused(tmp_path: Path, body: str) -> None:
    with pytest.raises(CommandError, match="no version line"):
        registerbuild(script(tmp_path / "simc", body))
    assert not Build.objects.exists()


def test_an_executable_that_never_answers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "PROBE_SECONDS", 1)
    with pytest.raises(CommandError, match="did not answer"):
        registerbuild(script(tmp_path / "simc", "sleep 60"))


def test_what_cannot_be_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    for path in (tmp_path / "missing", tmp_path / "text", tmp_path):
        with pytest.raises(CommandError):
            registerbuild(path)
    with pytest.raises(CommandError, match="not a folder"):
        registerbuild(script(tmp_path / "simc", f"echo '{VERSION}'"), "--profiles", str(tmp_path / "missing"))


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of bundled profiles, good and bad."""
    folder = tmp_path_factory.mktemp("bundled") / "profiles"
    (folder / "deep").mkdir(parents=True)
    shutil.copy(MINISIM_PROFILES / "fury_warrior.simc", folder)
    (folder / "deep" / "nested.simc").write_text('mage="Nested"\nlevel=80\n')
    (folder / "empty.simc").write_text("# nothing\n")
    (folder / "broken.simc").write_text("mage=A\nmax_time=abc\n")
    (folder / "writes.simc").write_text("mage=A\nsave=x.simc\n")
    return folder


@pytest.fixture(scope="module")
def checked(bundled: Path) -> dict[str, Any]:
    """What became of each bundled profile under the built-in simulator."""
    build = Build(executable=str(MINISIM), readable_paths=registration.readable_paths(MINISIM, MINISIM_READS))
    return registration.check_profiles(build, bundled)


@pytest.fixture
def with_profiles(bundled: Path, checked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Build:
    """The built-in simulator, registered with these profiles; they ran once for all tests."""
    monkeypatch.setattr(registration, "check_profiles", lambda *_, **__: checked)
    return registration.register(MINISIM, MINISIM_ORIGIN, readable=MINISIM_READS, profiles=bundled)


def test_bundled_profiles_that_do_not_simulate_are_left_out(with_profiles: Build) -> None:
    assert with_profiles.ci is not None
    assert with_profiles.ci["status"] == "failed"
    assert set(with_profiles.ci["failed"]) == {"empty.simc", "broken.simc", "writes.simc"}
    assert set(with_profiles.profiles) == {"fury_warrior.simc", "deep/nested.simc"}


@pytest.mark.parametrize(
    "text", ["fury_warrior.simc\niterations=20\n", '"input=deep/nested.simc"\niterations=20\n']
)
def test_a_job_can_include_a_bundled_profile(with_profiles: Build, text: str) -> None:
    make_job(text=text)
    job = queue.claim("w")
    assert job is not None
    execution.execute(job)
    ended = Job.objects.get(pk=job.pk)
    assert (ended.status, ended.status_reason) == ("completed", None)


def test_a_job_runs_within_the_platforms_limits(with_profiles: Build, settings: Settings) -> None:
    settings.MAX_ITERATIONS = 30
    make_job(text='mage=A\niterations=50\nprofileset."B C"+=iterations=40\n')
    job = queue.claim("w")
    assert job is not None
    execution.execute(job)
    ended = Job.objects.get(pk=job.pk)
    assert ended.summary is not None
    assert ended.summary["iterations"] <= 31
    assert ended.summary["mainActor"]["profilesets"]["count"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user runs simulators as itself")
def test_a_folder_that_is_closed_to_simulators_is_named(tmp_path: Path) -> None:
    simc = script(tmp_path / "simc", f"echo '{VERSION}'")
    tmp_path.chmod(0o700)
    with pytest.raises(CommandError, match=f"{tmp_path} is closed to other users.* chmod -R o\\+rX {tmp_path}"):
        registerbuild(simc)
    assert not Build.objects.exists()


def test_a_build_below_a_closed_folder_can_be_registered(tmp_path: Path) -> None:
    home, build = tmp_path / "home", tmp_path / "home" / "build"
    build.mkdir(parents=True)
    home.chmod(0o700)
    registerbuild(script(build / "simc", f"echo '{VERSION}'"))
    assert Build.objects.get().executable == str(build / "simc")
    assert home.stat().st_mode & 0o777 == 0o700
