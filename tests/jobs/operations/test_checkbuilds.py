"""The command that withdraws builds which no longer run, and lists folders of unused builds."""

import io
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from jobs.execution import build_probe
from jobs.models import Build
from jobs.operations import build_registration
from simc.command import BuildVersion
from tests.factories import make_job
from tests.jobs.simulators import make_stand_in

pytestmark = pytest.mark.django_db(transaction=True)
VERSION = 'sys.exit(print("SimulationCraft 1120-01"))'


def check(*arguments: str) -> list[str]:
    output = io.StringIO()
    call_command("checkbuilds", *arguments, stdout=output)
    return output.getvalue().splitlines()


def installed(parent: Path, name: str) -> Build:
    """Register a fake simulator in its own folder."""
    parent.chmod(0o755)
    (parent / name).mkdir()
    build = make_stand_in(parent / name, VERSION)
    build.simc_version = "1120-01"
    build.save()
    return build


def test_only_builds_that_do_not_run_are_withdrawn(tmp_path: Path) -> None:
    good, damaged = installed(tmp_path, "good"), installed(tmp_path, "damaged")
    Path(damaged.executable).write_text("#!/bin/sh\nexit 127\n")
    (line,) = check()
    assert line.startswith(f"Withdrawn: {damaged}. ")
    for build in (good, damaged):
        build.refresh_from_db()
    assert (good.withdrawn_at, good.broken_reason) == (None, "")
    assert damaged.withdrawn_at is not None
    assert damaged.broken_reason
    assert check() == []


def test_a_build_that_this_machine_lacks_is_not_withdrawn(tmp_path: Path) -> None:
    installed(tmp_path, "good")
    Path(installed(tmp_path, "elsewhere").executable).unlink()
    assert check() == []
    assert not Build.objects.exclude(withdrawn_at=None).exists()


def test_a_failed_sandbox_withdraws_no_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One launcher dies, and one build does not answer at its first check."""
    installed(tmp_path, "good")
    unlucky, slow = installed(tmp_path, "unlucky"), installed(tmp_path, "slow")
    runs, failures = build_probe.version_of, [slow]

    def version_of(build: Build) -> BuildVersion:
        if build == unlucky:
            raise build_probe.NotChecked("the launcher ended")
        if build in failures:
            failures.remove(build)
            raise build_probe.UnusableBuild("It did not answer within 30 s.")
        return runs(build)

    monkeypatch.setattr(build_registration, "version_of", version_of)
    assert check() == []
    assert f"{unlucky} was not checked: the launcher ended" in caplog.text
    assert not Build.objects.exclude(withdrawn_at=None).exists()


def test_no_build_is_withdrawn_if_none_was_proved_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(installed(tmp_path, "damaged").executable).write_text("#!/bin/sh\nexit 127\n")
    unlucky = installed(tmp_path, "unlucky")
    probe = build_probe._probe

    def dies(build: Build) -> str:
        if build == unlucky:
            raise build_probe.NotChecked("the launcher ended")
        return probe(build)

    monkeypatch.setattr(build_probe, "_probe", dies)
    with pytest.raises(CommandError, match="No build could be run on this machine"):
        check()
    assert not Build.objects.exclude(withdrawn_at=None).exists()


def test_a_replaced_executable_is_withdrawn(tmp_path: Path) -> None:
    installed(tmp_path, "good")
    replaced = installed(tmp_path, "replaced")
    Build.objects.filter(pk=replaced.pk).update(simc_version="1100-02")
    assert "It was registered as 1100-02 and is now 1120-01" in check()[0]


def test_a_machine_without_builds_withdraws_none(tmp_path: Path) -> None:
    for name in ("one", "two"):
        Path(installed(tmp_path, name).executable).unlink()
    with pytest.raises(CommandError, match="No build could be run on this machine"):
        check()
    assert not Build.objects.exclude(withdrawn_at=None).exists()


def test_without_builds_nothing_happens() -> None:
    assert check() == []


def test_folders_of_builds_that_cannot_be_used_are_listed(tmp_path: Path) -> None:
    now = timezone.now()
    for name in ("used", "withdrawn", "broken", "needed"):
        installed(tmp_path, name)
    (tmp_path / "of another database").mkdir()
    (tmp_path / "0123abcd.part").mkdir()
    (tmp_path / "file").touch()
    outside = {"withdrawn_at": now}
    builds = {Path(build.executable).parent.name: build for build in Build.objects.all()}
    Build.objects.filter(pk__in=[builds["withdrawn"].pk, builds["needed"].pk]).update(**outside)
    Build.objects.filter(pk=builds["broken"].pk).update(**outside, broken_reason="It crashed.")
    make_job(text='mage="A"\n', pinned_build=builds["needed"])
    assert check("--unused", str(tmp_path)) == [str(tmp_path / "0123abcd.part"), str(tmp_path / "withdrawn")]


def test_an_empty_database_lists_no_folders(tmp_path: Path) -> None:
    (tmp_path / "0123abcd.part").mkdir()
    (tmp_path / "0123abcd").mkdir()
    assert check("--unused", str(tmp_path)) == []


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="is not a folder"):
        check("--unused", str(tmp_path / "missing"))
