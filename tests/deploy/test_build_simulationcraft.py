"""The script that builds SimulationCraft and registers it, with a repository whose `make` copies a file.

A script in place of manage.py records its commands; `tests/docs/test_commands.py` uses the real one.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

SCRIPT = Path(settings.BASE_DIR) / "deploy" / "build-simulationcraft"
SECRETS = ("SECRET_KEY", "DATABASE_URL", "REDIS_URL")
MANAGE = """
import pathlib, sys
with pathlib.Path("calls").open("a") as calls:
    print(*sys.argv[1:], file=calls)
fails = pathlib.Path("fails")
sys.exit(int(fails.read_text()) if fails.exists() and sys.argv[1] == "registerbuild" else 0)
"""


class Machine:
    """A machine with the script, a repository and a folder for builds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository, self.builds = folder / "repository", folder / "simc" / "midnight"
        for name in ("deploy", "repository/engine", "repository/profiles"):
            (folder / name).mkdir(parents=True)
        shutil.copy(SCRIPT, folder / "deploy")
        (folder / "manage.py").write_text(MANAGE)
        (self.repository / "engine" / "Makefile").write_text("release:\n\techo built >simc\n")
        (self.repository / "profiles" / "gear.simc").touch()
        self.git("init", "--quiet", "--initial-branch=midnight")
        self.commit = self.add_commit()

    def git(self, *arguments: str) -> str:
        git = ["git", "-C", str(self.repository), "-c", "user.name=Test", "-c", "user.email=test@localhost"]
        return subprocess.run([*git, *arguments], check=True, capture_output=True, text=True).stdout.strip()

    def add_commit(self) -> str:
        self.git("add", ".")
        self.git("commit", "--quiet", "--allow-empty", "--message", "Change")
        return self.git("rev-parse", "HEAD")

    def run(self, *arguments: str, **variables: str) -> list[str]:
        """Run the script and return the commands of manage.py that it ran, without their options."""
        outside = {name: value for name, value in os.environ.items() if name not in SECRETS} | variables
        environment = {"SIMC_REPOSITORY": str(self.repository), "SIMC_FOLDER": str(self.folder / "simc")}
        (self.folder / "calls").write_text("")
        self.status = subprocess.run(
            [self.folder / "deploy" / SCRIPT.name, *arguments], env=outside | environment, check=False
        ).returncode
        return [line.split()[0] for line in (self.folder / "calls").read_text().splitlines()]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_build_is_complete_before_it_is_registered(machine: Machine) -> None:
    assert machine.run() == ["registerbuild", "checkbuilds", "checkbuilds"]
    assert sorted(path.name for path in (machine.builds / machine.commit).iterdir()) == ["profiles", "simc"]


def test_a_build_can_be_copied_before_it_is_registered(machine: Machine) -> None:
    assert machine.run("build") == []
    assert (machine.builds / machine.commit / "simc").exists()
    machine.add_commit()
    assert machine.run("register") == ["registerbuild", "checkbuilds", "checkbuilds"]
    assert [path.name for path in machine.builds.iterdir()] == [machine.commit]


def test_an_interrupted_registration_is_repeated(machine: Machine) -> None:
    machine.run("build")
    assert machine.run()[0] == "registerbuild"


@pytest.mark.parametrize(("status", "kept"), [(3, 0), (1, 1)])
def test_only_an_unusable_build_is_removed(machine: Machine, status: int, kept: int) -> None:
    (machine.folder / "fails").write_text(str(status))
    assert machine.run() == ["registerbuild"]
    assert (machine.status, len(list(machine.builds.iterdir()))) == (status, kept)


def test_an_unknown_step_is_refused(machine: Machine) -> None:
    assert (machine.run("check"), machine.status) == ([], 2)


def test_the_compilers_see_no_secrets(machine: Machine) -> None:
    """Without an argument, the script removes them; `build` refuses to run with any of them."""
    secrets = dict.fromkeys(SECRETS, "hidden-value")
    (machine.repository / "engine" / "Makefile").write_text("release:\n\tenv >simc\n")
    commit = machine.add_commit()
    assert machine.run(**secrets)[0] == "registerbuild"
    assert "hidden-value" not in (machine.builds / commit / "simc").read_text()
    for name in SECRETS:
        assert (machine.run("build", **{name: "x"}), machine.status) == ([], 2)


def test_a_commit_can_be_pinned(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.git("config", "uploadpack.allowAnySHA1InWant", "true")
    machine.add_commit()
    monkeypatch.setenv("SIMC_COMMIT", machine.commit)
    machine.run("build")
    assert [path.name for path in machine.builds.iterdir()] == [machine.commit]


def test_a_commit_without_a_trusted_signature_is_not_built(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "keys"
    keys.mkdir(mode=0o700)
    monkeypatch.setenv("SIMC_KEYS", str(keys))
    assert machine.run() == []
    assert machine.status != 0
    assert not list(machine.builds.iterdir())


@pytest.mark.skipif(not shutil.which("gpg"), reason="GnuPG is not installed")
def test_a_signed_commit_is_built(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = tmp_path / "keys"
    keys.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(keys))
    quick = ["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "test@localhost"]
    subprocess.run(quick, check=True, capture_output=True)
    machine.git("commit", "--quiet", "--allow-empty", "--gpg-sign=test@localhost", "--message", "Signed")
    monkeypatch.setenv("SIMC_KEYS", str(keys))
    assert machine.run()[0] == "registerbuild"


def test_registration_runs_nothing_of_the_source(machine: Machine) -> None:
    """The folder of the source belongs to the compilers' user, who could put a hook there."""
    machine.run("build")
    shutil.rmtree(machine.folder / "simc" / "source")
    assert machine.run("register") == ["registerbuild", "checkbuilds", "checkbuilds"]


def test_a_forged_name_of_the_newest_build_is_refused(machine: Machine) -> None:
    machine.run("build")
    (machine.folder / "simc" / "midnight.newest").write_text("../../etc now\n")
    assert (machine.run("register"), machine.status) == ([], 2)
