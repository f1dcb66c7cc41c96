"""The place a simulator runs in: its private directory, the layers round it, and what may be taken out of it.

Bubblewrap is used where it works. Where it is absent, Landlock, resource limits and an identity of its own (only
a worker that runs as root can give one) still hold; ``jobs.simulator.launcher`` applies those.
"""

import contextlib
import functools
import itertools
import json
import os
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
from typing import Any, BinaryIO, Literal, Self

LAUNCHER = Path(__file__).with_name("launcher.py")
INTERPRETER = Path(sys.executable).resolve()

SYSTEM_PATHS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SYSTEM_SETTINGS = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
NETWORK_SETTINGS = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
)
MACHINE_FACTS = ("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu", "/dev/urandom", "/dev/zero")

# The upper part of the range that systemd sets aside for identities that exist only while a service runs; it
# lies within the 65,536 that a container usually has.
FIRST_UID = 61184
LAST_UID = 65519

Mode = Literal["auto", "required"]


class SandboxUnavailable(Exception):
    """The deployment demands a layer that this machine cannot give."""


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


def closed_to_others(paths: Iterable[Path]) -> Path | None:
    """The first of the paths, or of the directories above them, that other users may not read or pass."""
    for path in paths:
        target = path.resolve()
        for level in (target, *target.parents, *path.absolute().parents):
            wanted = stat.S_IXOTH if level.is_dir() else stat.S_IROTH
            if level.exists() and not level.stat().st_mode & wanted:
                return level
    return None


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

    ``readable`` are the build's files; choose them narrowly, since a simulator can print what it reads.
    ``resource_limits`` maps names of the ``resource`` module to (soft, hard) limits. After ``wall_seconds`` it is
    killed, whether or not a worker sees to it.
    """

    directory: PrivateDirectory
    readable: Sequence[Path]
    network: bool
    uid: int | None
    resource_limits: Mapping[str, tuple[int, int]]
    disk_bytes: int
    wall_seconds: float

    @property
    def environment(self) -> dict[str, str]:
        """The simulator's whole environment; two runs never share a home or a cache (simulator-cli, 6)."""
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
    def closed(self) -> Path | None:
        """A place that an identity of its own could not reach by ordinary permissions."""
        if self.uid is None:
            return None
        return closed_to_others([*self.readable, self.directory.cwd.parent])


@dataclass(frozen=True)
class Sandbox:
    """How simulators are contained on this machine; ``bubblewrap`` is None where it is absent or cannot work."""

    bubblewrap: Path | None

    @classmethod
    def for_mode(cls, mode: Mode) -> Self:
        """Raises SandboxUnavailable if the mode is ``required`` and bubblewrap does not work here."""
        found = shutil.which("bwrap")
        if found and bubblewrap_works(Path(found)):
            return cls(Path(found))
        if mode == "required":
            problem = f"{found} cannot create a sandbox here" if found else "bwrap is not on the PATH"
            raise SandboxUnavailable(
                f"The sandbox is required, but {problem}. Install the package bubblewrap, and allow user"
                " namespaces (in a container, also CAP_SYS_ADMIN or a seccomp profile that permits them)."
            )
        return cls(None)

    def launch_command(self, command: Sequence[str], confinement: Confinement) -> list[str]:
        """The command line that runs a simulator's command line in confinement; see the launcher."""
        cwd = str(confinement.directory.cwd)
        settings = NETWORK_SETTINGS if confinement.network else ()
        enter = {
            "command": list(command),
            "environment": confinement.environment,
            "cwd": cwd,
            "readable": [
                *SYSTEM_PATHS,
                *SYSTEM_SETTINGS,
                *settings,
                *MACHINE_FACTS,
                *map(str, confinement.readable),
            ],
            "writable": [cwd, "/dev/null"],
            "network": confinement.network,
            "leave_network": self.bubblewrap is None and not confinement.network,
            "uid": confinement.uid,
            "closed": str(confinement.closed or ""),
            "limits": confinement.resource_limits,
        }
        inner = launcher_command("enter", enter)
        if self.bubblewrap is not None:
            inner = [*bubblewrap_command(self.bubblewrap, confinement), "--", *inner]
        supervise = {
            "command": inner,
            "environment": confinement.environment,
            "watched": cwd,
            "disk_bytes": confinement.disk_bytes,
            "wall_seconds": confinement.wall_seconds,
        }
        return launcher_command("supervise", supervise)


def launcher_command(stage: str, specification: Mapping[str, Any]) -> list[str]:
    """Run one stage of the launcher without site packages and without heed to the environment."""
    return [str(INTERPRETER), "-I", "-S", str(LAUNCHER), stage, json.dumps(specification)]


def bubblewrap_command(executable: Path, confinement: Confinement) -> list[str]:
    """Bubblewrap's command line up to the program to run.

    A worker that runs as root gives the simulator an identity inside, so it needs no user namespace but the
    rights to change identity. Nothing but the working directory is writable, not even a /tmp in memory, since
    no limit would cover that.
    """
    settings = NETWORK_SETTINGS if confinement.network else ()
    readable = [*map(str, confinement.readable), sys.base_prefix, str(LAUNCHER)]
    cwd = str(confinement.directory.cwd)
    return [
        str(executable),
        *("--die-with-parent", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
        *([] if confinement.network else ["--unshare-net"]),
        *(["--unshare-user"] if confinement.uid is None else capabilities(confinement)),
        *system_binds(),
        *binds([*SYSTEM_SETTINGS, *settings, "/sys/devices/system/cpu"]),
        *("--proc", "/proc", "--dev", "/dev"),
        *open_parents([*readable, cwd]),
        *binds(readable),
        *("--bind", cwd, cwd, "--remount-ro", "/dev", "--remount-ro", "/"),
    ]


def capabilities(confinement: Confinement) -> Iterator[str]:
    """Options that leave the launcher, inside, the rights it needs to change identity."""
    yield from ("--cap-drop", "ALL")
    names = ["CAP_SETUID", "CAP_SETGID"]
    if confinement.closed:
        names.append("CAP_DAC_READ_SEARCH")
    for name in names:
        yield from ("--cap-add", name)


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
    """Whether bubblewrap can make such a sandbox here, found out by making one; containers often forbid it."""
    with tempfile.TemporaryDirectory() as parent, PrivateDirectory.create(Path(parent)) as directory:
        confinement = Confinement(
            directory=directory,
            readable=[],
            network=False,
            uid=FIRST_UID if os.geteuid() == 0 else None,
            resource_limits={},
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
