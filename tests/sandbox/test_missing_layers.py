"""Machines on which some layers of the sandbox are missing."""

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.layers import PROTECTIONS
from sandbox.private_directory import PrivateDirectory
from tests.sandbox.bench import PROJECT, Bench, needs_landlock, needs_root, sandboxes

DRIVER = """
import sys
from contextlib import closing
from pathlib import Path
from sandbox.process import RunLimits, NotStarted, ConfinedProcess
from sandbox.private_directory import PrivateDirectory
from sandbox.confinement import Sandbox

limits = RunLimits(wall_seconds=60, cpu_seconds=60, memory_bytes=1 << 30, file_bytes=1 << 20, disk_bytes=1 << 20,
                processes=30, open_files=64, log_bytes=1000, output_bytes=100000)
process = ConfinedProcess(["/bin/sh", "-c", sys.argv[5]], limits=limits,
                           directory=PrivateDirectory(Path(sys.argv[1])), sandbox=Sandbox.for_mode(sys.argv[2]),
                           readable=[Path(sys.argv[4])], on_line=lambda stream, text: print(text),
                           proxy={"closing": closing}.get(sys.argv[3]), proxy_port=3128)
try:
    with process:
        process.wait(20)
        print("ran with", *process.layers)
except NotStarted as error:
    print(error)
"""


@pytest.fixture
def in_container(open_directory: Path) -> Callable[..., str]:
    """Return a function that runs a simulator where some system calls are denied, and returns its output."""

    def run(
        mode: str, *denied: str, proxy: str = "none", readable: Path = open_directory, script: str = "true"
    ) -> str:
        container = ["-m", "tests.sandbox.container", ",".join(denied)]
        arguments = [str(PrivateDirectory.create(open_directory).root), mode, proxy, str(readable), script]
        command = [sys.executable, *container, sys.executable, "-c", DRIVER, *arguments]
        return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout

    return run


def test_required_needs_landlock_and_namespaces(in_container: Callable[..., str]) -> None:
    output = in_container("required", "landlock", "unshare", "clone")
    assert "the sandbox lacks: file system view" in output
    assert "network namespace" in output


@needs_root
def test_auto_runs_as_root_without_landlock_and_namespaces(in_container: Callable[..., str]) -> None:
    assert in_container("auto", "landlock", "unshare", "clone") == "ran with own_uid rlimits seccomp\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root can give an identity of its own")
def test_auto_needs_landlock_or_an_identity(in_container: Callable[..., str]) -> None:
    assert "the sandbox lacks: own identity or Landlock" in in_container("auto", "landlock", "unshare", "clone")


@pytest.mark.parametrize("mode", ["required", "auto"])
def test_both_modes_need_seccomp(in_container: Callable[..., str], mode: str) -> None:
    assert "the sandbox lacks: seccomp" in in_container(mode, "seccomp")


def test_game_credentials_need_a_network_namespace(in_container: Callable[..., str]) -> None:
    assert "a proxy needs a network namespace" in in_container("auto", "unshare", "clone", proxy="closing")


@needs_root
def test_a_closed_build_needs_mounts(in_container: Callable[..., str], closed_build: Path) -> None:
    home = closed_build.parents[1]
    output = in_container("auto", "mount", "clone", readable=closed_build)
    assert f"other users cannot enter {home}" in output
    assert f"chmod o+x {home}" in output


@pytest.mark.skipif(len(list(sandboxes())) < 2, reason="bubblewrap is absent or cannot work here")
def test_bubblewrap_shows_few_devices(in_container: Callable[..., str]) -> None:
    """Some other devices provide shared memory, and Landlock may be missing."""
    assert in_container("auto", "landlock", script="ls /dev").splitlines()[:-1] == ["null", "urandom"]


@needs_root
def test_a_build_below_a_closed_folder_is_read_only(in_container: Callable[..., str], closed_build: Path) -> None:
    (closed_build / "data").chmod(0o666)
    script = f"echo mine > {closed_build}/data || echo refused"
    assert "refused" in in_container("auto", "landlock", "clone", readable=closed_build, script=script)
    assert (closed_build / "data").read_text() == "its own"


@needs_landlock
def test_required_runs_with_every_protection(bench: Bench) -> None:
    bench.sandbox = dataclasses.replace(bench.sandbox, mode="required")
    layers = bench.run("status", 0).layers
    assert all(set(sources) & set(layers) for sources in PROTECTIONS.values())
