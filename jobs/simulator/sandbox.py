"""The place a simulator runs in: its private directory, the layers around it, and what may be taken out of it.

Bubblewrap is used where it works. The other layers are applied by `jobs.simulator.enter`, inside bubblewrap or
without it: namespaces, Landlock, an identity of its own (only a worker that runs as root can give one), limits and
seccomp.
"""

import contextlib
import functools
import itertools
import json
import os
import platform
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

from jobs.simulator import seccomp
from jobs.simulator.layers import DEMANDED, Mode

LAUNCHER = Path(__file__).with_name("launcher.py")
ENTER = Path(__file__).with_name("enter.py")
INTERPRETER = Path(sys.executable).resolve()

SYSTEM_PATHS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SYSTEM_SETTINGS = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
# For HTTPS through the exit. There is nothing else to reach, so neither resolv.conf nor hosts is shown.
CERTIFICATES = ("/etc/ssl", "/etc/pki", "/etc/ca-certificates")
DEVICES = ("/dev/null", "/dev/urandom")
MACHINE_FACTS = ("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu", "/dev/urandom")

# The upper part of the range that systemd sets aside for identities that exist only while a service runs; it
# lies within the 65,536 that a container usually has.
FIRST_UID = 61184
LAST_UID = 65519


class SandboxUnavailable(Exception):
    """The deployment demands a protection that this machine cannot give; the text says which."""


class NotRunnable(Exception):
    """An executable cannot be run in the sandbox; the text says why and what to change."""


class UnsafeProduct(Exception):
    """What the simulator left under a report's name is not a plain file of a sane size."""


# The private directory


@dataclass(frozen=True)
class PrivateDirectory:
    """A directory for one run: the simulator's own two levels down, the logs beside it, out of its reach.

    The parent of the simulator's working directory is empty because simulators search it for input files
    (simulator-cli, 1.5 and 6).
    """

    root: Path

    @classmethod
    def create(cls, parent: Path) -> Self:
        """Make one below an existing directory."""
        directory = cls(Path(tempfile.mkdtemp(prefix="run-", dir=parent)))
        directory.cwd.mkdir(parents=True)
        directory.cwd.chmod(0o700)
        for level in (directory.root, directory.cwd.parent):
            level.chmod(0o711)
        return directory

    @property
    def cwd(self) -> Path:
        """The simulator's working directory, the only one it may write to."""
        return self.root / "work" / "run"

    def log(self, stream: str) -> Path:
        """The log of ``stdout`` or ``stderr``."""
        return self.root / f"{stream}.log"

    def hand_over(self, uid: int) -> None:
        """Give the working directory and the files put into it to another user."""
        for path in (self.cwd, *self.cwd.iterdir()):
            os.chown(path, uid, uid, follow_symlinks=False)

    def take_back(self) -> None:
        """Own the working directory again; call it when nothing of the simulator is left alive."""
        os.chown(self.cwd, os.geteuid(), os.getegid())
        self.cwd.chmod(0o700)

    def remove(self) -> None:
        """Remove everything; no simulator may be alive in it."""
        with contextlib.suppress(FileNotFoundError):
            remove_tree(self.root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def remove_tree(top: Path) -> None:
    """Remove a directory whose content a hostile program made; nothing may change it meanwhile.

    Subdirectories are moved up to the top before their own turn, so that no depth is too deep and no path too
    long. Links are removed, never followed.
    """
    moved = (top / f"{secrets.token_hex(8)}-{number}" for number in itertools.count())
    while directories := remove_files(top):
        for directory in directories:
            for inner in remove_files(directory):
                inner.rename(next(moved))
            directory.rmdir()
    top.rmdir()


def remove_files(directory: Path) -> list[Path]:
    """Remove all that is not a directory from a directory; the directories that remain."""
    directory.chmod(0o700)
    remaining = []
    for entry in list(os.scandir(directory)):
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            path.chmod(0o700)
            remaining.append(path)
        else:
            path.unlink()
    return remaining


def open_product(directory: Path, name: str, *, max_bytes: int) -> BinaryIO | None:
    """Open a file that the simulator wrote; None if there is none of that name.

    Raises UnsafeProduct for anything but a plain file of at most ``max_bytes`` bytes with one name: a link
    would lead out of the directory, and opening a FIFO would wait for ever.
    """
    if name in ("", ".", "..") or "/" in name:
        raise UnsafeProduct(f"{name!r} is not a plain file name")
    try:
        descriptor = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnsafeProduct(f"{name} cannot be opened: {error.strerror}") from error
    try:
        require_plain(os.fstat(descriptor), name, max_bytes=max_bytes)
    except UnsafeProduct:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def require_plain(found: os.stat_result, name: str, *, max_bytes: int) -> None:
    """Raise UnsafeProduct unless this is a regular file with one name and of a permitted size."""
    if not stat.S_ISREG(found.st_mode):
        raise UnsafeProduct(f"{name} is not a regular file")
    if found.st_nlink != 1:
        raise UnsafeProduct(f"{name} is a second name of another file")
    if found.st_size > max_bytes:
        raise UnsafeProduct(f"{name} has {found.st_size} bytes, more than {max_bytes}")


# The identity


@dataclass(frozen=True)
class LeasedUser:
    """An unprivileged user id, also used as group id, that no other run on this machine has at the time."""

    uid: int
    lock: socket.socket

    @classmethod
    def lease(cls) -> Self | None:
        """None where the worker is an ordinary user, who cannot run anything as somebody else.

        A name in the abstract socket space is the lock: the kernel frees it with its holder. The search starts
        anywhere, so that containers which share a kernel but no such space rarely meet.
        """
        if os.geteuid() != 0:
            return None
        count = LAST_UID - FIRST_UID + 1
        start = secrets.randbelow(count)
        for step in range(count):
            uid = FIRST_UID + (start + step) % count
            lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                lock.bind(f"\0simulator-uid-{uid}")
            except OSError:
                lock.close()
                continue
            return cls(uid, lock)
        raise SandboxUnavailable(f"all user ids from {FIRST_UID} to {LAST_UID} are in use")

    def release(self) -> None:
        """Let others have the id; call it when nothing runs under it any more."""
        self.lock.close()


def is_closed(path: Path) -> bool:
    """Return whether other users may not pass a folder, or not read a file."""
    wanted = stat.S_IXOTH if path.is_dir() else stat.S_IROTH
    return path.exists() and not path.stat().st_mode & wanted


def closed_folders(paths: Iterable[Path]) -> list[Path]:
    """Return the highest folder above each path that other users may not pass."""
    highest = set()
    for path in paths:
        for named in {path.absolute(), path.resolve()}:
            closed = [level for level in named.parents if is_closed(level)]
            highest.update(closed[-1:])
    return sorted(highest)


def closed_path(paths: Iterable[Path]) -> Path | None:
    """Return the first of the paths that is itself closed to other users, or None."""
    return next((path for path in paths if is_closed(path)), None)


def tasks_of_this_user() -> int:
    """Threads that count against this user's RLIMIT_NPROC now."""
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid == os.geteuid():
                count += sum(1 for _ in (process / "task").iterdir())
    return count


# The layers


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """What one run may have.

    `readable` are the build's files; choose them narrowly, since a simulator can print what it reads. With
    `exit_port`, the run gets a listening socket on that port of its own loopback interface, for a proxy to serve.
    `resource_limits` maps names of the `resource` module to (soft, hard) limits; `memory_bytes` is for all
    processes together. After `wall_seconds` the run is killed, whether or not a worker sees to it.
    """

    directory: PrivateDirectory
    readable: Sequence[Path]
    exit_port: int | None
    uid: int | None
    resource_limits: Mapping[str, tuple[int, int]]
    memory_bytes: int
    disk_bytes: int
    wall_seconds: float

    @property
    def environment(self) -> dict[str, str]:
        """Return the simulator's whole environment; two runs never share a home or a cache (simulator-cli, 6)."""
        home = str(self.directory.cwd)
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "HOME": home,
            "XDG_CACHE_HOME": home,
            "TZ": "UTC",
        }

    @property
    def settings(self) -> list[str]:
        """Return the system's settings that the simulator may read."""
        return [*SYSTEM_SETTINGS, *(CERTIFICATES if self.exit_port else ())]

    @property
    def covered(self) -> list[Path]:
        """Return the folders that keep an identity of its own from what it must reach."""
        return [] if self.uid is None else closed_folders([*self.readable, self.directory.cwd.parent])

    @property
    def revealed(self) -> list[Path]:
        """Return the readable paths that lie below a covered folder."""
        return [path for path in self.readable if any(path.absolute().is_relative_to(top) for top in self.covered)]


@dataclass(frozen=True)
class Sandbox:
    """How simulators are contained on this machine; `bubblewrap` is None where it is absent or cannot work."""

    bubblewrap: Path | None
    mode: Mode = "required"

    @classmethod
    def for_mode(cls, mode: Mode) -> Self:
        """Return the sandbox of this machine. Whether it gives what the mode demands shows when something runs."""
        found = shutil.which("bwrap")
        return cls(Path(found) if found and bubblewrap_works(Path(found)) else None, mode)

    def outer_layers(self, confinement: Confinement) -> list[str]:
        """Return the layers that hold before the second stage begins."""
        if self.bubblewrap is None:
            return []
        return ["bubblewrap", "network_namespace", *(["user_namespace"] if confinement.uid is None else [])]

    def launch_command(self, command: Sequence[str], confinement: Confinement) -> list[str]:
        """Return the command line that runs a simulator's command line in confinement; see the launcher."""
        inner = script_command(ENTER, self.second_stage(command, confinement))
        if self.bubblewrap is not None:
            inner = [*bubblewrap_command(self.bubblewrap, confinement), "--", *inner]
        first_stage = {
            "command": inner,
            "environment": confinement.environment,
            "watched": str(confinement.directory.cwd),
            "memory_bytes": confinement.memory_bytes,
            "disk_bytes": confinement.disk_bytes,
            "wall_seconds": confinement.wall_seconds,
        }
        return script_command(LAUNCHER, first_stage)

    def second_stage(self, command: Sequence[str], confinement: Confinement) -> dict[str, Any]:
        """Return what the second stage of the launcher must know."""
        cwd = str(confinement.directory.cwd)
        machine = platform.machine()
        is_filtered = seccomp.is_supported(machine)
        program = seccomp.program(machine, inet=confinement.exit_port is not None) if is_filtered else b""
        readable = [*SYSTEM_PATHS, *confinement.settings, *MACHINE_FACTS, *map(str, confinement.readable)]
        # Bubblewrap shows paths below closed folders by itself.
        covered = confinement.covered if self.bubblewrap is None else []
        return {
            "command": list(command),
            "environment": confinement.environment,
            "cwd": cwd,
            "layers": self.outer_layers(confinement),
            "demanded": DEMANDED[self.mode],
            "exit_port": confinement.exit_port,
            "covered": list(map(str, covered)),
            "revealed": list(map(str, confinement.revealed)),
            "readable": readable,
            "writable": [cwd, "/dev/null"],
            "uid": confinement.uid,
            "limits": confinement.resource_limits,
            "seccomp": program.hex(),
        }


def script_command(script: Path, specification: Mapping[str, Any]) -> list[str]:
    """Return a command that runs a script without site packages and without heed to the environment."""
    return [str(INTERPRETER), "-I", "-S", str(script), json.dumps(specification)]


def bubblewrap_command(executable: Path, confinement: Confinement) -> list[str]:
    """Return bubblewrap's command line up to the program to run.

    A worker that runs as root gives the simulator an identity inside, so it needs no user namespace but the
    rights to change identity. Nothing but the working directory is writable, not even a /tmp in memory.
    """
    readable = [*map(str, confinement.readable), sys.base_prefix, str(ENTER)]
    cwd = str(confinement.directory.cwd)
    return [
        str(executable),
        *("--die-with-parent", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
        "--unshare-net",
        *(["--unshare-user"] if confinement.uid is None else CAPABILITIES),
        *system_binds(),
        *binds([*confinement.settings, "/sys/devices/system/cpu"]),
        *("--proc", "/proc", "--perms", "0755", "--dir", "/dev"),
        *(option for device in DEVICES for option in ("--dev-bind", device, device)),
        *open_parents([*readable, cwd]),
        *binds(readable),
        *("--bind", cwd, cwd, "--remount-ro", "/"),
    ]


# What the second stage needs inside to change identity and to drop all of it.
CAPABILITIES = (
    *("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"),
)


def system_binds() -> Iterator[str]:
    """Options that show the system's programs and libraries as they lie here, links as links."""
    for path in map(Path, SYSTEM_PATHS):
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.exists():
            yield from ("--ro-bind", str(path), str(path))


def open_parents(paths: Iterable[str]) -> Iterator[str]:
    """Options that make the directories above paths passable; bubblewrap would make them for root alone."""
    parents = {parent for path in map(Path, paths) for parent in path.parents}
    for parent in sorted(parents):
        yield from ("--perms", "0755", "--dir", str(parent))


def binds(paths: Iterable[str]) -> Iterator[str]:
    """Options that show paths read-only; what does not exist is left out."""
    for path in paths:
        yield from ("--ro-bind-try", path, path)


@functools.cache
def bubblewrap_works(executable: Path) -> bool:
    """Return whether bubblewrap can make such a sandbox here, by making one; containers often forbid it."""
    with tempfile.TemporaryDirectory() as parent, PrivateDirectory.create(Path(parent)) as directory:
        confinement = Confinement(
            directory=directory,
            readable=[],
            exit_port=None,
            uid=FIRST_UID if os.geteuid() == 0 else None,
            resource_limits={},
            memory_bytes=0,
            disk_bytes=0,
            wall_seconds=0,
        )
        command = [*bubblewrap_command(executable, confinement), "--", str(INTERPRETER), "-I", "-S", "-c", ""]
        try:
            return subprocess.run(command, capture_output=True, timeout=10, check=False).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False


def require_runnable(executable: Path, *, readable: Sequence[Path]) -> None:
    """Raise NotRunnable unless an executable can be started in the sandbox, as far as its files tell.

    What only a run can tell (a missing library or interpreter) shows when the simulator is started.
    """
    if not executable.is_absolute():
        raise NotRunnable(f"{executable}: give the executable's absolute path")
    try:
        target = executable.resolve(strict=True)
    except OSError as error:
        raise NotRunnable(f"{executable}: {error.strerror}") from error
    if not target.is_file() or not target.stat().st_mode & stat.S_IXUSR:
        raise NotRunnable(f"{executable} is not an executable file")
    visible = [path.resolve() for path in (*map(Path, SYSTEM_PATHS), *readable)]
    if not any(target.is_relative_to(path) for path in visible):
        raise NotRunnable(f"{executable} leads to {target}, which is outside of what the build may read")
    closed = closed_path([target, *readable]) if os.geteuid() == 0 else None
    if closed is not None:
        raise NotRunnable(
            f"{closed} is closed to other users, and simulators run under an identity of their own. "
            f"Run: chmod -R o+rX {closed}"
        )
