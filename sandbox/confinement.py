"""What one run of a program can access, and the specification of its start inside all layers.

Bubblewrap is used where it works. With or without it, `sandbox.confine` applies the other layers: namespaces,
Landlock, a separate identity (only a caller that runs as root can assign one), limits and seccomp.
"""

import functools
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Self

from sandbox import locales, seccomp
from sandbox.identity import FIRST_UID, closed_folders, closed_path
from sandbox.layers import REQUIRED, Layer, Mode
from sandbox.private_directory import PrivateDirectory

FOLDER = Path(__file__).parent
NAMESPACES = FOLDER / "namespaces.py"
INTERPRETER = Path(sys.executable).resolve()

SYSTEM_PATHS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SYSTEM_SETTINGS = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
# For HTTPS through the proxy. Nothing else is reachable, so resolv.conf and hosts are left out.
CERTIFICATES = ("/etc/ssl", "/etc/pki", "/etc/ca-certificates")
DEVICES = ("/dev/null", "/dev/urandom")
MACHINE_FACTS = ("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu", "/dev/urandom")


class NotRunnable(Exception):
    """An executable cannot be run in the sandbox; the message says why and what to change."""


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """The access and limits of one run.

    `readable` are the program's files; choose them narrowly, since it can print what it reads. With
    `proxy_port`, the run has a socket for a proxy, which listens on that port of its own loopback interface.
    `resource_limits` maps names of the `resource` module to (soft, hard) limits; `memory_bytes` is for all
    processes together. After `wall_seconds` the run is killed even if the caller does nothing.
    """

    directory: PrivateDirectory
    readable: Sequence[Path]
    proxy_port: int | None
    uid: int | None
    resource_limits: Mapping[str, tuple[int, int]]
    memory_bytes: int
    disk_bytes: int
    wall_seconds: float

    @property
    def environment(self) -> dict[str, str]:
        """Return the program's whole environment. Two runs never share a home or a cache."""
        home = str(self.directory.cwd)
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "HOME": home,
            "XDG_CACHE_HOME": home,
            "TZ": "UTC",
            **locales.environment(self.directory.cwd),
        }

    @property
    def settings(self) -> list[str]:
        """Return the system's configuration files that the program may read."""
        return [*SYSTEM_SETTINGS, *(CERTIFICATES if self.proxy_port else ())]

    @functools.cached_property
    def covered(self) -> list[Path]:
        """Return the closed folders that keep the run's identity from files that it needs."""
        return [] if self.uid is None else closed_folders([*self.readable, self.directory.cwd.parent])

    @property
    def revealed(self) -> list[Path]:
        """Return the readable paths below a covered folder."""
        return [path for path in self.readable if any(path.absolute().is_relative_to(top) for top in self.covered)]


@dataclass(frozen=True)
class Sandbox:
    """The sandbox of this machine; `bubblewrap` is None if it is missing or does not work."""

    bubblewrap: Path | None
    mode: Mode = "required"

    @classmethod
    def for_mode(cls, mode: Mode) -> Self:
        """Return the sandbox of this machine. Missing protections are detected when a program starts."""
        found = shutil.which("bwrap")
        return cls(Path(found) if found and bubblewrap_works(Path(found)) else None, mode)

    def outer_layers(self, confinement: Confinement) -> list[str]:
        """Return the layers that are active before the confined process begins."""
        if self.bubblewrap is None:
            return []
        user_namespace = [Layer.USER_NAMESPACE] if confinement.uid is None else []
        return [Layer.BUBBLEWRAP, Layer.NETWORK_NAMESPACE, *user_namespace]

    def specification(self, command: Sequence[str], confinement: Confinement) -> dict[str, Any]:
        """Return the specification of a run for its supervisor, as JSON allows it."""
        outer = self.bubblewrap and bubblewrap_command(self.bubblewrap, confinement)
        return {
            "bubblewrap": outer,
            "confined": self.confined(command, confinement),
            "watched": str(confinement.directory.cwd),
            "memory_bytes": confinement.memory_bytes,
            "disk_bytes": confinement.disk_bytes,
            "wall_seconds": confinement.wall_seconds,
        }

    def confined(self, command: Sequence[str], confinement: Confinement) -> dict[str, Any]:
        """Return the specification for the confined process."""
        cwd = str(confinement.directory.cwd)
        machine = platform.machine()
        is_filtered = seccomp.is_supported(machine)
        program = seccomp.program(machine, inet=confinement.proxy_port is not None) if is_filtered else b""
        readable = [*SYSTEM_PATHS, *confinement.settings, *MACHINE_FACTS, *map(str, confinement.readable)]
        # Bubblewrap shows paths below closed folders by itself.
        covered = confinement.covered if self.bubblewrap is None else []
        return {
            "command": list(command),
            "environment": confinement.environment,
            "cwd": cwd,
            "layers": self.outer_layers(confinement),
            "required": REQUIRED[self.mode],
            "proxy_port": confinement.proxy_port,
            "covered": list(map(str, covered)),
            "revealed": list(map(str, confinement.revealed)),
            "readable": readable,
            "writable": [cwd, "/dev/null"],
            "uid": confinement.uid,
            "limits": confinement.resource_limits,
            "seccomp": program.hex(),
        }


def script_command(script: Path, *arguments: str) -> list[str]:
    """Return a command that runs a script without site packages and environment variables."""
    return [str(INTERPRETER), "-I", "-S", str(script), *arguments]


def bubblewrap_command(executable: Path, confinement: Confinement) -> list[str]:
    """Return bubblewrap's command line up to the program to run, which gets no capabilities.

    If the caller runs as root, the confined process switches identity, so no user namespace is needed. Only the
    working directory is writable; there is no /tmp.
    """
    readable = list(map(str, confinement.readable))
    cwd = str(confinement.directory.cwd)
    return [
        str(executable),
        *("--die-with-parent", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
        "--unshare-net",
        *(["--unshare-user"] if confinement.uid is None else ["--cap-drop", "ALL"]),
        *_system_binds(),
        *_binds([*confinement.settings, "/sys/devices/system/cpu"]),
        *("--proc", "/proc", "--perms", "0755", "--dir", "/dev"),
        *(option for device in DEVICES for option in ("--dev-bind", device, device)),
        *_parent_dirs([*readable, cwd]),
        *_binds(readable),
        *("--bind", cwd, cwd, "--remount-ro", "/"),
    ]


@functools.cache
def _system_binds() -> list[str]:
    """Return options that show the system's programs and libraries as on this machine, links included."""
    options: list[str] = []
    for path in map(Path, SYSTEM_PATHS):
        if path.is_symlink():
            options += ("--symlink", str(path.readlink()), str(path))
        elif path.exists():
            options += ("--ro-bind", str(path), str(path))
    return options


def _parent_dirs(paths: Iterable[str]) -> Iterator[str]:
    """Return options that create the parent directories of paths, open to everyone instead of only to root."""
    for parent in sorted({str(parent) for path in paths for parent in PurePosixPath(path).parents} - {"/"}):
        yield from ("--perms", "0755", "--dir", parent)


def _binds(paths: Iterable[str]) -> Iterator[str]:
    """Return options that show paths read-only; paths that do not exist are left out."""
    for path in paths:
        yield from ("--ro-bind-try", path, path)


@functools.cache
def bubblewrap_works(executable: Path) -> bool:
    """Return whether bubblewrap can create namespaces here that others can join; containers often forbid that."""
    with tempfile.TemporaryDirectory() as parent, PrivateDirectory.create(Path(parent)) as directory:
        confinement = Confinement(
            directory=directory,
            readable=[],
            proxy_port=None,
            uid=FIRST_UID if os.geteuid() == 0 else None,
            resource_limits={},
            memory_bytes=0,
            disk_bytes=0,
            wall_seconds=0,
        )
        command = script_command(NAMESPACES, *bubblewrap_command(executable, confinement))
        try:
            return subprocess.run(command, capture_output=True, timeout=10, check=False).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False


def require_runnable(executable: Path, *, readable: Sequence[Path]) -> None:
    """Raise NotRunnable if the files show that an executable cannot be started in the sandbox.

    Other problems, such as a missing library or interpreter, appear only when the program is started.
    """
    if not executable.is_absolute():
        raise NotRunnable(f"{executable} is not an absolute path")
    try:
        target = executable.resolve(strict=True)
        mode = target.stat().st_mode
    except OSError as error:
        raise NotRunnable(f"{executable}: {error.strerror}") from error
    if not stat.S_ISREG(mode) or not mode & stat.S_IXUSR:
        raise NotRunnable(f"{executable} is not an executable file")
    visible = [*_system_paths(), *(path.resolve() for path in readable)]
    if not any(target.is_relative_to(path) for path in visible):
        raise NotRunnable(f"{executable} leads to {target}, which is outside its readable paths")
    missing = next((path for path in readable if not os.access(path, os.F_OK)), None)
    if missing is not None:
        raise NotRunnable(f"{missing} is missing or not accessible, and is listed as a readable path")
    closed = closed_path([target, *readable]) if os.geteuid() == 0 else None
    if closed is not None:
        raise NotRunnable(
            f"{closed} is closed to other users, and it runs as a separate user. Run: chmod -R o+rX {closed}"
        )


@functools.cache
def _system_paths() -> list[Path]:
    return [Path(path).resolve() for path in SYSTEM_PATHS]
