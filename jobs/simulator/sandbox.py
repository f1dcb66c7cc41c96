"""The sandbox of a simulator: its private directory, the layers around it, and the files that can be read from it.

Bubblewrap is used where it works. With or without it, `jobs.simulator.enter` applies the other layers: namespaces,
Landlock, a separate identity (only a worker that runs as root can assign one), limits and seccomp.
"""

import contextlib
import errno
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
# For HTTPS through the exit. Nothing else is reachable, so resolv.conf and hosts are left out.
CERTIFICATES = ("/etc/ssl", "/etc/pki", "/etc/ca-certificates")
DEVICES = ("/dev/null", "/dev/urandom")
MACHINE_FACTS = ("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu", "/dev/urandom")

# The upper part of systemd's range for dynamic users, within the 65,536 ids that a container usually has.
FIRST_UID = 61184
LAST_UID = 65519


class SandboxUnavailable(Exception):
    """The deployment requires a protection that this machine cannot give; the message names it."""


class NotRunnable(Exception):
    """An executable cannot be run in the sandbox; the message says why and what to change."""


class UnsafeProduct(Exception):
    """A report's file is not a plain file of an acceptable size; the message says why, with the subject "it"."""


# The private directory


@dataclass(frozen=True)
class PrivateDirectory:
    """A directory for one run: the simulator's own directory is two levels down, the logs are out of its reach.

    The parent of the simulator's working directory is empty because simulators search it for input files
    (simulator-cli, 1.5 and 6).
    """

    root: Path

    @classmethod
    def create(cls, parent: Path) -> Self:
        """Create a private directory below an existing directory."""
        directory = cls(Path(tempfile.mkdtemp(prefix="run-", dir=parent)))
        directory.cwd.mkdir(parents=True)
        directory.cwd.chmod(0o700)
        for level in (directory.root, directory.cwd.parent):
            level.chmod(0o711)
        return directory

    @property
    def cwd(self) -> Path:
        """The simulator's working directory, the only one that it can write to."""
        return self.root / "work" / "run"

    def log(self, stream: str) -> Path:
        """Return the path of the log of `stdout` or `stderr`."""
        return self.root / f"{stream}.log"

    def hand_over(self, uid: int) -> None:
        """Give the working directory and its files to another user."""
        for path in (self.cwd, *self.cwd.iterdir()):
            os.chown(path, uid, uid, follow_symlinks=False)

    def take_back(self) -> None:
        """Take the working directory back. Call only when none of the simulator's processes is alive."""
        os.chown(self.cwd, os.geteuid(), os.getegid())
        self.cwd.chmod(0o700)

    def remove(self) -> None:
        """Remove everything. Call only when no simulator is alive in it."""
        with contextlib.suppress(FileNotFoundError):
            remove_tree(self.root)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def remove_tree(top: Path) -> None:
    """Remove a directory that a hostile program filled; nothing may change it meanwhile.

    Subdirectories are moved to the top before they are removed, so no path is too deep or too long. Links are
    removed, never followed.
    """
    moved = (top / f"{secrets.token_hex(8)}-{number}" for number in itertools.count())
    while directories := remove_files(top):
        for directory in directories:
            for inner in remove_files(directory):
                inner.rename(next(moved))
            directory.rmdir()
    top.rmdir()


def remove_files(directory: Path) -> list[Path]:
    """Remove everything except directories from a directory; return the remaining directories."""
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
    """Open a file that the simulator wrote; return None if it does not exist.

    Raises UnsafeProduct for anything but a plain file of at most `max_bytes` bytes with one name: a link
    would lead out of the directory, and opening a FIFO would block forever.
    """
    if name in ("", ".", "..") or "/" in name:
        raise UnsafeProduct("it does not have a plain file name")
    try:
        descriptor = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnsafeProduct("it is a symbolic link") from error
        raise UnsafeProduct(f"it cannot be opened: {error.strerror}") from error
    try:
        require_plain(os.fstat(descriptor), max_bytes=max_bytes)
    except UnsafeProduct:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def require_plain(found: os.stat_result, *, max_bytes: int) -> None:
    """Raise UnsafeProduct unless this is a regular file with one name and of a permitted size."""
    if not stat.S_ISREG(found.st_mode):
        raise UnsafeProduct("it is not a regular file")
    if found.st_nlink != 1:
        raise UnsafeProduct("it has more than one hard link")
    if found.st_size > max_bytes:
        size, limit = megabytes(found.st_size), megabytes(max_bytes)
        raise UnsafeProduct(f"it is {size} in size; the limit is {limit}")


def megabytes(count: int) -> str:
    """Return a number of bytes in MB of 1024² bytes, rounded up to a tenth."""
    tenths = -(-count * 10 // (1 << 20))
    return f"{tenths / 10:,.1f}".removesuffix(".0") + " MB"


# The identity


@dataclass(frozen=True)
class LeasedUser:
    """An unprivileged user id, also used as group id, that no other live run on this machine has."""

    uid: int
    lock: socket.socket

    @classmethod
    def lease(cls) -> Self | None:
        """Reserve an id; return None if the worker is an ordinary user, who cannot switch to another user.

        A name in the abstract socket namespace is the lock: the kernel frees it when its holder ends. The search
        starts at random, so containers that share a kernel but not this namespace rarely collide.
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
        """Release the id. Call only when no process runs under it."""
        self.lock.close()


def is_closed(path: Path) -> bool:
    """Return whether other users cannot enter a folder, or cannot read a file."""
    wanted = stat.S_IXOTH if path.is_dir() else stat.S_IROTH
    return path.exists() and not path.stat().st_mode & wanted


def closed_folders(paths: Iterable[Path]) -> list[Path]:
    """Return the highest folder above each path that other users cannot enter."""
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
    """Return how many threads count against this user's RLIMIT_NPROC now."""
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid == os.geteuid():
                count += sum(1 for _ in (process / "task").iterdir())
    return count


# The layers


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """The access and limits of one run.

    `readable` are the build's files; choose them narrowly, since a simulator can print what it reads. With
    `exit_port`, the run gets a socket for a proxy that listens on that port of its own loopback interface.
    `resource_limits` maps names of the `resource` module to (soft, hard) limits; `memory_bytes` is for all
    processes together. After `wall_seconds` the run is killed even if the worker does nothing.
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

    @functools.cached_property
    def covered(self) -> list[Path]:
        """Return the closed folders that would block the run's identity from files that it needs."""
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
        """Return the sandbox of this machine. Missing protections are detected only when a program runs."""
        found = shutil.which("bwrap")
        return cls(Path(found) if found and bubblewrap_works(Path(found)) else None, mode)

    def outer_layers(self, confinement: Confinement) -> list[str]:
        """Return the layers that are active before the second stage begins."""
        if self.bubblewrap is None:
            return []
        return ["bubblewrap", "network_namespace", *(["user_namespace"] if confinement.uid is None else [])]

    def launch_command(self, command: Sequence[str], confinement: Confinement) -> list[str]:
        """Return the command line that runs a simulator in the sandbox; see `launcher.py`."""
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
        """Return the specification for the launcher's second stage."""
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
    """Return a command that runs a script and ignores site packages and the environment."""
    return [str(INTERPRETER), "-I", "-S", str(script), json.dumps(specification)]


def bubblewrap_command(executable: Path, confinement: Confinement) -> list[str]:
    """Return bubblewrap's command line up to the program to run.

    If the worker runs as root, the second stage switches identity inside, so bubblewrap keeps the rights for that
    and needs no user namespace. Only the working directory is writable; there is not even a /tmp in memory.
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


# The second stage needs these to change identity and to drop all capabilities.
CAPABILITIES = (
    "--cap-drop",
    "ALL",
    "--cap-add",
    "CAP_SETUID",
    "--cap-add",
    "CAP_SETGID",
    "--cap-add",
    "CAP_SETPCAP",
)


def system_binds() -> Iterator[str]:
    """Return options that show the system's programs and libraries as they are here, links included."""
    for path in map(Path, SYSTEM_PATHS):
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.exists():
            yield from ("--ro-bind", str(path), str(path))


def open_parents(paths: Iterable[str]) -> Iterator[str]:
    """Return options that open the directories above paths to everyone; bubblewrap would open them only to root."""
    parents = {parent for path in map(Path, paths) for parent in path.parents}
    for parent in sorted(parents):
        yield from ("--perms", "0755", "--dir", str(parent))


def binds(paths: Iterable[str]) -> Iterator[str]:
    """Return options that show paths read-only; paths that do not exist are left out."""
    for path in paths:
        yield from ("--ro-bind-try", path, path)


@functools.cache
def bubblewrap_works(executable: Path) -> bool:
    """Return whether bubblewrap works here, by creating a sandbox; containers often forbid that."""
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
    """Raise NotRunnable if the files show that an executable cannot be started in the sandbox.

    Other problems, such as a missing library or interpreter, appear only when the simulator is started.
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
    missing = next((path for path in readable if not os.access(path, os.F_OK)), None)
    if missing is not None:
        raise NotRunnable(f"{missing} is missing or not accessible, and the build may need it")
    closed = closed_path([target, *readable]) if os.geteuid() == 0 else None
    if closed is not None:
        raise NotRunnable(
            f"{closed} is closed to other users, and simulators run as a separate user. Run: chmod -R o+rX {closed}"
        )
