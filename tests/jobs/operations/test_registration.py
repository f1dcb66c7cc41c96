"""Registration of builds with `manage.py registerbuild`."""

import os
import shutil
import threading
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from jobs import registry
from jobs.execution import attempt, build_probe
from jobs.lifecycle import job_moves
from jobs.management.commands.seedlocal import MINISIM, MINISIM_ORIGIN, MINISIM_PROFILES, MINISIM_READS
from jobs.models import Build, Job
from jobs.operations import build_registration
from jobs.operations.build_registration import CheckedFile
from sandbox.process import ConfinedProcess, LauncherLost
from simc.profiles import bundle
from tests.factories import make_job
from tests.jobs.bundles import FILES, write
from tests.jobs.simulators import LEAVE_REPORT, make_stand_in

pytestmark = pytest.mark.django_db(transaction=True)


def registerbuild(executable: Path, *arguments: str) -> tuple[str, str]:
    """Run the command and return its output."""
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


def test_registering_a_commit_again_keeps_what_is_not_given(tmp_path: Path) -> None:
    """A repaired build does not become the newest one, and keeps its bundled files."""
    simc = script(tmp_path / "simc", f"echo '{VERSION}'")
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "list.simc").write_text("actions=x\n")
    given = ["--created-at", "2026-11-01", "--repo", "https://example.org/simc"]
    registerbuild(simc, *given, "--profiles", str(tmp_path / "profiles"))
    before = Build.objects.values().get()
    registerbuild(simc)
    assert before["includable"]
    assert Build.objects.values().get() == before


def test_a_failed_sandbox_is_not_blamed_on_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise LauncherLost("the launcher ended")

    monkeypatch.setattr(ConfinedProcess, "start", fails)
    with pytest.raises(CommandError, match="was not checked: the launcher ended") as refused:
        registerbuild(script(tmp_path / "simc", f"echo '{VERSION}'"))
    # 3 would let `deploy/build-simulationcraft` remove the build.
    assert refused.value.returncode == 1


@pytest.mark.parametrize("body", ["exit 1", "echo hello", "kill -9 $$"])
def test_an_executable_that_is_not_a_simulator_is_rejected(tmp_path: Path, body: str) -> None:
    with pytest.raises(CommandError, match="did not print its version"):
        registerbuild(script(tmp_path / "simc", body))
    assert not Build.objects.exists()


def test_a_withdrawn_build_is_restored_on_request(tmp_path: Path) -> None:
    executable = script(tmp_path / "simc", f"echo '{VERSION}'")
    registerbuild(executable)
    registry.withdraw(Build.objects.all())
    registerbuild(executable, "--restore")
    assert Build.objects.get().withdrawn_at is None


def test_a_registered_commit_can_be_skipped(tmp_path: Path) -> None:
    registerbuild(script(tmp_path / "simc", f"echo '{VERSION}'"), "--if-new")
    (tmp_path / "simc").unlink()
    assert registerbuild(tmp_path / "simc", "--if-new") == ("", "")
    assert Build.objects.count() == 1


def test_an_executable_that_hangs_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_probe, "PROBE_SECONDS", 1)
    with pytest.raises(CommandError, match="did not answer"):
        registerbuild(script(tmp_path / "simc", "sleep 60"))


def test_a_file_that_cannot_be_run_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    for path in (tmp_path / "missing", tmp_path / "text", tmp_path):
        with pytest.raises(CommandError):
            registerbuild(path)
    with pytest.raises(CommandError, match="not a folder"):
        registerbuild(script(tmp_path / "simc", f"echo '{VERSION}'"), "--profiles", str(tmp_path / "missing"))


BUNDLED = {
    **FILES,
    "deep/nested.simc": 'mage="Nested"\nlevel=80\n',
    "fragments/templated.simc": "level=$(level)\n",
    "uses_template.simc": "mage=A\n$(level)=80\ntemplated.simc\n",
    "empty.simc": "# nothing\n",
    "broken.simc": "mage=A\nmax_time=abc\n",
    "writes.simc": "mage=A\nlevel=80 save=x.simc\n",
    "includes_it.simc": "mage=A\nwrites.simc\n",
    "loops.simc": "mage=A\nloops.simc\n",
    "lacks.simc": "mage=A\ninput=apls/none.simc\n",
    "undefined.simc": "mage=A\nlevel=$(none)\n",
}
WRITES = "line 2, save=x.simc: it makes the simulator do something other than simulate."
FAILURES = {
    "broken.simc": "Option 'max_time' with value 'abc'",
    "huge.simc": "it has 2,147,483,648 bytes; the limit is 2,097,152",
    "linked.simc": "it is a symbolic link, and links are not followed",
    "pipe.simc": "it is not a regular file",
    "two\\nlines.simc": "its name contains control characters",
    "writes.simc": f"writes.simc, {WRITES}",
    "includes_it.simc": f"writes.simc, {WRITES}",
    "loops.simc": "loops.simc, line 2, loops.simc: the file includes itself: loops.simc → loops.simc.",
    "lacks.simc": "lacks.simc, line 2, apls/none.simc: the build has no such file",
    "undefined.simc": "undefined.simc, line 2, level=$(none): Missing template variable: 'none'",
}
REFUSED = {"writes.simc", "includes_it.simc", "loops.simc", "lacks.simc", "undefined.simc"}
ALONE = {"fury_warrior.simc", "deep/nested.simc", "profiles/mage.simc", "raid.simc", "uses_template.simc"}


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of valid and invalid bundled files."""
    folder = write(tmp_path_factory.mktemp("bundled") / "profiles", BUNDLED)
    shutil.copy(MINISIM_PROFILES / "fury_warrior.simc", folder)
    (folder / "linked.simc").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.simc")
    (folder / "two\nlines.simc").touch()
    with (folder / "huge.simc").open("wb") as file:
        file.truncate(2 << 30)
    return folder


@pytest.fixture(scope="module")
def checked(bundled: Path) -> dict[str, Any]:
    """The checks of the bundled files under the built-in simulator."""
    build = Build(executable=str(MINISIM), readable_paths=build_registration.readable_paths(MINISIM, MINISIM_READS))
    return build_registration.check_profiles(build, bundled)


@pytest.fixture
def with_profiles(bundled: Path, checked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Build:
    """The built-in simulator, registered with these files, which are checked once for all tests."""
    monkeypatch.setattr(build_registration, "check_profiles", lambda *_, **__: checked)
    return build_registration.register(MINISIM, MINISIM_ORIGIN, readable=MINISIM_READS, profiles=bundled)


def test_the_manifest_lists_files_that_simulate_alone(with_profiles: Build) -> None:
    assert set(with_profiles.profiles) == ALONE


def test_every_harmless_file_can_be_included(with_profiles: Build) -> None:
    assert set(with_profiles.includable) == {*BUNDLED, "fury_warrior.simc"} - REFUSED


def test_each_failed_check_has_a_reason(with_profiles: Build) -> None:
    ci = with_profiles.ci
    assert ci is not None
    reasons = {failed["name"]: failed["reason"] for failed in ci["failures"]}
    assert set(reasons) == set(FAILURES)
    assert all(FAILURES[name] in reason for name, reason in reasons.items())
    assert ci["total"] == len(ALONE) + len(FAILURES)
    assert datetime.fromisoformat(ci["checked_at"]).tzinfo is not None


STUBBORN = f"""
if 'display_build=2' in sys.argv: print({VERSION!r}); sys.exit(0)
text = open('profile.simc').read()
if 'slow' in text: time.sleep(2)
if 'sleepy' in text: time.sleep(60)
if 'silent' in text: sys.exit(0)
if 'abort' in text: print("simc: /src/a.cpp:9: f: Assertion `x' failed.", file=sys.stderr, flush=True); os.abort()
if 'crash' in text: os.kill(os.getpid(), signal.SIGSEGV)
if 'angry' in text: sys.stderr.write("Error: no such race\\n"); sys.exit(1)
{LEAVE_REPORT}
"""


def test_each_kind_of_simulator_failure_has_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_registration, "PROFILE_SECONDS", 5)
    build = make_stand_in(tmp_path, STUBBORN)
    names = ("sleepy", "silent", "crash", "abort", "angry", "good")
    folder = write(tmp_path / "bundle", {f"{name}.simc": f"mage={name}\n" for name in names})
    checks = build_registration.check_profiles(build, folder)
    assert checks["profiles"] == ["good.simc"]
    assert len(checks["includable"]) == 6
    assert {failed["name"]: failed["reason"] for failed in checks["ci"]["failures"]} == {
        "abort.simc": "The simulator crashed (SIGABRT). It reported: simc: a.cpp:9: f: Assertion `x' failed.",
        "angry.simc": "no such race",
        "crash.simc": "The simulator crashed (SIGSEGV).",
        "silent.simc": "The simulator wrote no valid report: the file is missing.",
        "sleepy.simc": "The simulator did not end within 5 s.",
    }


def test_files_are_checked_in_parallel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4))
    check_file, all_started = build_registration._check_file, threading.Barrier(4, timeout=60)

    def check_together(*args: Any) -> CheckedFile:
        all_started.wait()
        return check_file(*args)

    monkeypatch.setattr(build_registration, "_check_file", check_together)
    build = make_stand_in(tmp_path, LEAVE_REPORT)
    folder = write(tmp_path / "bundle", {f"{number}.simc": "mage=A\n" for number in range(4)})
    assert len(build_registration.check_profiles(build, folder)["profiles"]) == 4


def test_thousands_of_fragments_are_checked(tmp_path: Path) -> None:
    folder = write(tmp_path, {f"{number % 50}/{number}.simc": "max_time=100\n" for number in range(3_000)})
    counts: list[tuple[int, int]] = []
    checks = build_registration.check_profiles(Build(), folder, on_progress=lambda *count: counts.append(count))
    assert (len(checks["includable"]), checks["profiles"], checks["ci"]["total"]) == (3_000, [], 0)
    assert counts[-1] == (3_000, 3_000)


def test_too_many_files_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_FILES", 2)
    simc = script(tmp_path / "simc", f"echo '{VERSION}'")
    write(tmp_path / "bundle", {f"{number}.simc": "" for number in range(3)})
    with pytest.raises(CommandError, match="more than 2 files"):
        registerbuild(simc, "--profiles", str(tmp_path / "bundle"))
    assert not Build.objects.exists()


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The command's output for a simulator with a bundle."""
    monkeypatch.setattr(build_registration, "PROGRESS_SECONDS", 0.5)
    build = make_stand_in(tmp_path, STUBBORN)
    monkeypatch.setattr(build_registration, "readable_paths", lambda *_: build.readable_paths)
    Build.objects.all().delete()
    files = {"slow.simc": "mage=slow\n", "angry.simc": "mage=angry\n", "writes.simc": "html=x\n", "apl.simc": ""}
    folder = write(tmp_path / "bundle", files)
    return registerbuild(Path(build.executable), "--profiles", str(folder), "--branch", "elsewhere")


def test_the_command_shows_its_progress(registered: tuple[str, str]) -> None:
    lines = registered[1].splitlines()
    assert lines.index("3 of 4 bundled files checked") < lines.index("4 of 4 bundled files checked")


def test_the_command_lists_skipped_files_with_reasons(registered: tuple[str, str]) -> None:
    assert "can only be included: angry.simc: no such race\n" in registered[1]
    assert "left out: writes.simc: writes.simc, line 1, html=x: it writes a file.\n" in registered[1]
    assert "3 bundled files can be included; 1 of them simulate alone." in registered[1]


def test_the_command_warns_about_an_unused_branch(registered: tuple[str, str]) -> None:
    warning = "Warning: no job can run on this build until GIT_BRANCHES (midnight) includes elsewhere."
    assert registered[1].startswith(warning)


def test_the_command_explains_how_to_reach_a_local_stack(registered: tuple[str, str]) -> None:
    assert "set -a; . DIR/stack.env; set +a" in registered[1]


@pytest.mark.parametrize(
    "text", ["fury_warrior.simc\niterations=20\n", '"input=deep/nested.simc"\niterations=20\n']
)
def test_a_job_can_include_a_bundled_profile(with_profiles: Build, text: str) -> None:
    make_job(text=text)
    job = job_moves.claim_job("w")
    assert job is not None
    attempt.execute(job)
    finished = Job.objects.get(pk=job.pk)
    assert (finished.status, finished.status_reason) == ("completed", None)


def test_a_job_runs_within_the_platform_limits(with_profiles: Build, settings: Settings) -> None:
    settings.MAX_ITERATIONS = 30
    make_job(text='mage=A\niterations=50\nprofileset."B C"+=iterations=40\n')
    job = job_moves.claim_job("w")
    assert job is not None
    attempt.execute(job)
    finished = Job.objects.get(pk=job.pk)
    assert finished.summary is not None
    assert finished.summary["iterations"] <= 31
    assert finished.summary["mainActor"]["profilesets"]["count"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user runs simulators as itself")
def test_an_unreadable_build_is_named_in_the_error(tmp_path: Path) -> None:
    simc = script(tmp_path / "simc", f"echo '{VERSION}'")
    simc.chmod(0o700)
    with pytest.raises(CommandError, match=f"{simc} is closed to other users.* chmod -R o\\+rX {simc}"):
        registerbuild(simc)
    assert not Build.objects.exists()


def test_a_build_cannot_read_the_files_beside_it(tmp_path: Path) -> None:
    secret = tmp_path / ".ssh" / "id_ed25519"
    secret.parent.mkdir()
    secret.write_text("secret")
    reads = script(tmp_path / "simc", f"cat {secret} || echo '{VERSION}'")
    registerbuild(reads)
    assert Build.objects.get().readable_paths == [str(reads)]


def test_a_build_can_read_what_was_named_on_purpose(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "version").write_text(VERSION)
    needs = script(tmp_path / "simc", f"cat {data}/version")
    with pytest.raises(CommandError, match="did not print its version"):
        registerbuild(needs)
    registerbuild(needs, "--readable", str(data))
    assert Build.objects.get().simc_version == "1120-01"


def test_no_build_can_read_the_files_of_jobs(tmp_path: Path, settings: Settings) -> None:
    simc = script(tmp_path / "simc", f"echo '{VERSION}'")
    (settings.DATA_DIR / "artifacts").mkdir(parents=True, exist_ok=True)
    for folder in (settings.DATA_DIR, settings.DATA_DIR / "artifacts", settings.DATA_DIR.parent, Path("/")):
        with pytest.raises(CommandError, match="contains files of jobs"):
            registerbuild(simc, "--readable", str(folder))


@pytest.mark.parametrize("folder", ["/root", "/home", "/etc", "/proc", "/dev", "/run", "/var", "~"])
def test_no_build_can_read_a_folder_with_secrets(tmp_path: Path, folder: str) -> None:
    simc = script(tmp_path / "simc", f"echo '{VERSION}'")
    with pytest.raises(CommandError, match="can contain secrets"):
        registerbuild(simc, "--readable", str(Path(folder).expanduser()))
    assert not Build.objects.exists()


def test_a_build_below_a_closed_folder_can_be_registered(tmp_path: Path) -> None:
    home, build = tmp_path / "home", tmp_path / "home" / "build"
    build.mkdir(parents=True)
    home.chmod(0o700)
    registerbuild(script(build / "simc", f"echo '{VERSION}'"))
    assert Build.objects.get().executable == str(build / "simc")
    assert home.stat().st_mode & 0o777 == 0o700
