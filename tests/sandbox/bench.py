"""A bench for hostile simulators: it runs them in the sandbox, below one directory."""

import dataclasses
import functools
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox import landlock
from sandbox.confinement import Sandbox, bubblewrap_works
from sandbox.private_directory import PrivateDirectory
from sandbox.process import ConfinedProcess, Ended, Proxy, RunLimits
from tests.waiting import PATIENCE_SECONDS

PROXY_PORT = 3128
HOSTILE = Path(__file__).parent / "hostile"
START = "from tests.sandbox import hostile; hostile.main()"
PROJECT = Path(__file__).parents[2]
LIMITS = RunLimits(
    wall_seconds=60,
    cpu_seconds=20,
    memory_bytes=512 << 20,
    file_bytes=4 << 20,
    disk_bytes=8 << 20,
    processes=30,
    open_files=64,
    log_bytes=20_000,
    output_bytes=2 << 20,
)

has_landlock = landlock.version() > 0
needs_landlock = pytest.mark.skipif(not has_landlock, reason="this kernel has no Landlock")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a simulator as another user")


@functools.cache
def may_leave_network() -> bool:
    code = "from sandbox import confine; raise SystemExit(not confine.leave_network())"
    return subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=False).returncode == 0


def sandboxes() -> Iterator[Sandbox]:
    """Yield the sandboxes of this machine: without bubblewrap and, if it works, with it."""
    yield Sandbox(None, "auto")
    executable = shutil.which("bwrap")
    if executable and bubblewrap_works(Path(executable)):
        yield Sandbox(Path(executable), "auto")


def alive(marker: Path) -> list[str]:
    """Return the command lines of living processes that contain a path."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(marker) in line and process.name != str(os.getpid()):
            lines.append(line.replace(b"\0", b" ").decode())
    return lines


def eventually(condition: Callable[[], bool], *, seconds: float = PATIENCE_SECONDS) -> bool:
    """Wait for a condition; return whether it became true in time."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def sockets_and_pipes_of(pid: int) -> set[str]:
    """Return the sockets and pipes that a process has open."""
    links = [path.readlink() for path in Path(f"/proc/{pid}/fd").iterdir()]
    return {str(link) for link in links if str(link).startswith(("socket:", "pipe:"))}


def copy_package(package: Path, target: Path) -> None:
    """Copy a package of this project into another folder, from which it can be imported under the same name."""
    copy = target / package.relative_to(PROJECT)
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for parent in copy.relative_to(target).parents[:-1]:
        (target / parent / "__init__.py").touch()


class Bench:
    """Runs hostile simulators below one directory, whose name identifies their processes."""

    def __init__(self, top: Path, sandbox: Sandbox) -> None:
        self.top = top
        self.sandbox = sandbox
        self.updates: list[tuple[str, str]] = []
        self.limits = LIMITS
        self.proxy: Proxy | None = None
        self.build = top / "build"
        self.build.mkdir()
        self.executable = self.build / "simulator"
        self.executable.write_text(f"#!{sys.executable}\nfrom tests.sandbox import hostile\nhostile.main()\n")
        copy_package(HOSTILE, self.build)
        self.executable.chmod(0o755)
        self.directory = PrivateDirectory.create(top)

    def process(self, *command: object) -> ConfinedProcess:
        return ConfinedProcess(
            [str(self.executable), *map(str, command)],
            directory=self.directory,
            sandbox=self.sandbox,
            limits=self.limits,
            readable=[self.build, Path(sys.prefix), Path(sys.base_prefix)],
            on_line=lambda stream, text: self.updates.append((stream, text)),
            proxy=self.proxy,
            proxy_port=PROXY_PORT,
        )

    def run(self, *command: object, seconds: float = 60.0) -> Ended:
        with self.process(*command) as process:
            return process.wait(seconds) or self.fail("the simulator did not end")

    def fail(self, reason: str) -> Ended:
        raise AssertionError(f"{reason}; it printed {self.updates[-20:]}")

    def limit(self, **changes: int) -> None:
        self.limits = dataclasses.replace(self.limits, **changes)

    def printed(self, stream: str = "stdout") -> list[str]:
        return [text for where, text in self.updates if where == stream]

    def prints(self, text: str) -> bool:
        return eventually(lambda: text in self.printed())

    def log(self, stream: str = "stdout") -> str:
        return self.directory.log(stream).read_text()


def refusals(bench: Bench) -> set[int]:
    """Return the error numbers of all attempts; fail if one worked."""
    lines = [line for line in bench.printed() if "refused" in line or "WORKED" in line]
    assert lines, "nothing was attempted"
    assert not [line for line in lines if "WORKED" in line]
    return {int(line.rpartition(" ")[2]) for line in lines}


@contextmanager
def unix_servers(folder: Path) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Listen on a stream and a datagram socket that everyone may use, like a database and a system log."""
    with socket.socket(socket.AF_UNIX) as stream, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram:
        for server, name in ((stream, "stream"), (datagram, "datagram")):
            server.bind(str(folder / name))
            (folder / name).chmod(0o777)
            server.settimeout(0.2)
        stream.listen()
        yield stream, datagram
