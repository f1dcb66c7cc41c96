"""The disturbances of `bench/pressure.py`: what happens to PostgreSQL and the workers while jobs run.

Each function disturbs a running stack for some time, and returns when the disturbance is over.
"""

import random
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import psutil
import psycopg

from bench import processes
from bench.lab import LocalStack

# Longer than the time after which the stack's supervisor restarts a program without a delay
KILL_SECONDS = 15.0
END_BACKENDS_SECONDS = 5.0
READERS = 3
READ_EVERY_SECONDS = 1.0
CONNECT_EVERY_SECONDS = 0.1
# The service's sessions set this name.
OF_SERVICE = (
    "SELECT pid FROM pg_stat_activity WHERE application_name = 'simservice' AND backend_type = 'client backend'"
)
READ = "SELECT count(*) FROM jobs_job JOIN jobs_jobevent ON job_id = jobs_job.id"


@dataclass(frozen=True, kw_only=True)
class Site:
    """A stack under load, its database, and the duration of the disturbance."""

    stack: LocalStack
    database_url: str
    seconds: float

    def connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        """Return a connection that is not the service's."""
        return psycopg.connect(self.database_url, application_name="pressure", autocommit=True)

    def programs(self, name: str) -> list[psutil.Process]:
        """Return the processes of a program, its own first; none while it is being restarted."""
        return processes.programs(self.stack.supervisor).get(name, [])

    def rounds(self, every: float) -> Iterator[None]:
        """Yield at once and then every so many seconds, until the disturbance is over."""
        end = time.monotonic() + self.seconds
        while (left := end - time.monotonic()) > 0:
            yield
            time.sleep(max(0.0, min(every, left, end - time.monotonic())))


def nothing(site: Site) -> None:
    """Only the load changes."""
    time.sleep(site.seconds)


def restart_postgres(site: Site) -> None:
    """Stop PostgreSQL, which disconnects everybody; its supervisor starts it again."""
    site.programs("postgres")[0].send_signal(signal.SIGINT)
    time.sleep(site.seconds)


def kill_backends(site: Site) -> None:
    """Kill a backend of the service, after which PostgreSQL recovers from a crash. Then end all, repeatedly."""
    with site.connect() as connection:
        backends = [int(str(pid)) for (pid,) in connection.execute(OF_SERVICE)]
    psutil.Process(random.choice(backends)).kill()  # noqa: S311 - not secret
    for _ in site.rounds(END_BACKENDS_SECONDS):
        with suppress(psycopg.OperationalError), site.connect() as connection:
            connection.execute(f"SELECT pg_terminate_backend(pid) FROM ({OF_SERVICE}) AS ours")  # noqa: S608


def exhaust_connections(site: Site) -> None:
    """Take every connection that PostgreSQL allows, and each one that becomes free."""
    with ExitStack() as taken:
        for _ in site.rounds(CONNECT_EVERY_SECONDS):
            with suppress(psycopg.OperationalError):
                while True:
                    taken.enter_context(site.connect())


def crash_worker(site: Site) -> None:
    """Kill the worker that runs simulations, once."""
    _kill(site, "sim")
    time.sleep(site.seconds)


def kill_workers(site: Site) -> None:
    """Kill the worker that runs simulations and another one, again and again."""
    for _ in site.rounds(KILL_SECONDS):
        _kill(site, "sim")
        _kill(site, random.choice(("webhooks", "control", "beat")))  # noqa: S311 - not secret


def _kill(site: Site, name: str) -> None:
    for program in site.programs(name)[:1]:
        program.kill()


def leave_transaction_idle(site: Site) -> None:
    """Read the jobs in a transaction with an id, and leave it open."""
    with site.connect() as connection:
        connection.execute("SET idle_in_transaction_session_timeout = 0")
        with connection.transaction():
            connection.execute(f"SELECT pg_current_xact_id(), ({READ})")
            time.sleep(site.seconds)


def read_for_long(site: Site) -> None:
    """Let three transactions read at a time, each for up to half of the disturbance. They end one after another."""
    length, end = site.seconds / 2, time.monotonic() + site.seconds

    def read(number: int) -> None:
        until = time.monotonic() + length * (number + 1) / READERS
        while time.monotonic() < end:
            _read(site, seconds=min(until, end) - time.monotonic())
            until += length

    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(read, range(READERS)))


def _read(site: Site, *, seconds: float) -> None:
    """Read in one transaction, whose snapshot keeps dead rows from being removed."""
    end = time.monotonic() + seconds
    with site.connect() as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        while (left := end - time.monotonic()) > 0:
            connection.execute(READ)
            connection.execute("SELECT pg_sleep(%s)", [min(left, READ_EVERY_SECONDS)])


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A disturbance, with the load during it as a multiple of the usual one."""

    title: str
    disturb: Callable[[Site], None]
    load: float = 1.0
    # Seconds for which the usual load is submitted at once
    burst_seconds: float = 0.0
    # The duration as a multiple of the others'
    length: float = 1.0

    def due_rate(self, usual: float, *, seconds: float) -> float:
        """Return the jobs per second that are due during a disturbance of `seconds`, given the usual rate."""
        return usual * (self.load + self.burst_seconds / seconds)


SCENARIOS = {
    "restart": Scenario(title="PostgreSQL restarted", disturb=restart_postgres),
    "backends": Scenario(title="backends killed", disturb=kill_backends),
    "connections": Scenario(title="connections exhausted", disturb=exhaust_connections),
    "crash": Scenario(title="worker crashed", disturb=crash_worker),
    "kills": Scenario(title="workers killed repeatedly", disturb=kill_workers),
    "idle": Scenario(title="transaction left idle", disturb=leave_transaction_idle),
    "readers": Scenario(title="overlapping long readers", disturb=read_for_long, length=2),
    "sustained": Scenario(title="sustained load", disturb=nothing, load=1.75),
    "burst": Scenario(title="burst", disturb=nothing, burst_seconds=25),
}
