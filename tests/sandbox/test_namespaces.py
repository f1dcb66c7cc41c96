"""Bubblewrap's namespaces: which ones the second stage joins, and a bubblewrap that creates too few."""

import shutil
from pathlib import Path

import psutil
import pytest

from sandbox import confinement, namespaces
from sandbox.confinement import Sandbox
from sandbox.process import NotStarted
from tests.sandbox.bench import Bench

BUBBLEWRAP = Path(shutil.which("bwrap") or "/nowhere/bwrap")
needs_bubblewrap = pytest.mark.skipif(
    not confinement.bubblewrap_works(BUBBLEWRAP), reason="bubblewrap is absent or cannot work here"
)


@pytest.fixture
def plain(tmp_path: Path) -> Bench:
    """Return a bench whose simulators are not expected to start."""
    return Bench(tmp_path, Sandbox(None, "auto"))


def replace_bubblewrap(bench: Bench, script: str) -> None:
    path = bench.top / "bwrap"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    bench.sandbox = Sandbox(path, "auto")


def start(bench: Bench) -> None:
    with bench.process("status", 0):
        raise AssertionError("the simulator started")


def test_a_bubblewrap_without_namespaces_starts_nothing(plain: Bench) -> None:
    replace_bubblewrap(plain, "echo && read -r _")
    with pytest.raises(NotStarted, match=r"bubblewrap has not created a (user|mnt) namespace"):
        start(plain)


@needs_bubblewrap
@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("--unshare-net", "net"),
        ("--unshare-pid", "pid"),
        ("--unshare-ipc", "ipc"),
        ("--unshare-uts", "uts"),
        ("--unshare-cgroup-try", "cgroup"),
    ],
)
def test_each_namespace_of_bubblewrap_is_required(plain: Bench, option: str, name: str) -> None:
    lacking = f'for each; do shift; [ "$each" = {option} ] || set -- "$@" "$each"; done; exec {BUBBLEWRAP} "$@"'
    replace_bubblewrap(plain, lacking)
    with pytest.raises(NotStarted, match=f"has not created a {name} namespace"):
        start(plain)


def test_a_bubblewrap_that_fails_starts_nothing(plain: Bench) -> None:
    replace_bubblewrap(plain, "echo no permission >&2; exit 1")
    with pytest.raises(NotStarted, match=r"could not create its sandbox \(no permission\)"):
        start(plain)


def test_a_missing_bubblewrap_starts_nothing(plain: Bench) -> None:
    plain.sandbox = Sandbox(Path("/nowhere/bwrap"), "auto")
    with pytest.raises(NotStarted, match="/nowhere/bwrap"):
        start(plain)


@needs_bubblewrap
def test_a_bubblewrap_that_cannot_be_joined_does_not_work(plain: Bench) -> None:
    """The test of bubblewrap at startup joins its namespaces too."""
    replace_bubblewrap(plain, "echo && read -r _")
    assert plain.sandbox.bubblewrap
    assert not confinement.bubblewrap_works(plain.sandbox.bubblewrap)
    assert confinement.bubblewrap_works(BUBBLEWRAP)


def namespaces_of(process: psutil.Process) -> dict[str, str]:
    """Return the namespaces of a process, by name, and its control groups."""
    folder = Path(f"/proc/{process.pid}")
    joined = {path.name: str(path.readlink()) for path in (folder / "ns").iterdir()}
    return joined | {"cgroups": (folder / "cgroup").read_text()}


@needs_bubblewrap
def test_the_simulator_is_in_all_namespaces(tmp_path: Path) -> None:
    """It is in exactly those of a process that bubblewrap starts itself."""
    bench = Bench(tmp_path, Sandbox(BUBBLEWRAP, "auto"))
    with bench.directory, bench.process("deaf") as process:
        assert bench.prints("running")
        below = psutil.Process(process.supervisor.pid).children(recursive=True)
        simulator = next(each for each in below if str(bench.executable) in each.cmdline())
        pause = next(each for each in below if each.cmdline() == list(namespaces.PAUSE))
        joined = namespaces_of(simulator)
        assert joined == namespaces_of(pause)
        own = namespaces_of(psutil.Process())
        for name in (*namespaces.CREATED, namespaces.CGROUP):
            assert joined[name] != own[name]
