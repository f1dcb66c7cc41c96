"""Pytest plugin that starts PostgreSQL and Redis for a test run and sets their addresses.

Loaded with `-p`, so that it runs before Django reads its settings. Only the first process starts servers; each
worker of pytest-xdist has its own Redis database, data folder and (through pytest-django) PostgreSQL database, a
copy of one that is migrated while the workers collect the tests.
Existing values of `DATABASE_URL` and `REDIS_URL` are used; tests delete all data in that Redis database.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from localstack.console import LocalStackError
from localstack.postgres import start_postgres
from localstack.redis_server import start_redis
from localstack.supervisor import Supervisor
from tests.pgbouncer import DIRECT, POOLED, start_pgbouncer

# The variable with the path of the lock that is held while the database of the run is migrated
TEMPLATE_LOCK = "TEMPLATE_LOCK"
# A database of its own, because only one without connections can be copied, and tests connect to that of the run.
MIGRATED_DATABASE = "migrated"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:
        _separate_worker(int(worker.removeprefix("gw")))
    else:
        _start_services(early_config)
    return (yield)


def _start_services(config: pytest.Config) -> None:
    """Start the servers that the environment does not name; they end with the run or this process."""
    folder = Path(tempfile.mkdtemp(prefix="simservice-tests-"))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    supervisor = Supervisor()
    config.add_cleanup(supervisor.stop)
    os.environ.setdefault("SECRET_KEY", "for tests only")
    os.environ.setdefault("SANDBOX", "auto")
    os.environ.setdefault("COMPATIBLE_ADDRESSES", "true")
    # Never use a real bucket.
    for name in [name for name in os.environ if name.startswith("ARTIFACTS_")]:
        del os.environ[name]
    os.environ["DATA_DIR"] = str(folder / "files")
    os.environ["STACK_TEMPLATE"] = str(folder / "stack")
    try:
        if not os.environ.get("REDIS_URL"):
            os.environ["REDIS_URL"] = start_redis(
                supervisor, folder / "redis", log=folder / "redis.log", password="for-tests-only"
            )
        if not os.environ.get("DATABASE_URL"):
            os.environ["DATABASE_URL"] = start_postgres(
                supervisor,
                folder / "postgres",
                log=folder / "postgres.log",
                password="for-tests-only",
                durable=False,
            )
            if getattr(config.known_args_namespace, "numprocesses", None):
                _migrate_template(config, folder / "template.lock")
        if os.environ.get("PGBOUNCER"):
            direct = os.environ["DATABASE_URL"]
            log = folder / "pgbouncer.log"
            pooled = start_pgbouncer(supervisor, folder / "pgbouncer", database_url=direct, log=log)
            os.environ.update({DIRECT: direct, POOLED: pooled, "DATABASE_URL": pooled})
    except LocalStackError as error:
        raise pytest.UsageError(str(error)) from error


def _migrate_template(config: pytest.Config, lock: Path) -> None:
    """Start to migrate the database that the workers copy; the lock is held until this has ended."""
    os.environ[TEMPLATE_LOCK] = str(lock)
    url = os.environ["DATABASE_URL"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {MIGRATED_DATABASE}")
    migrated = urlsplit(url)._replace(path=f"/{MIGRATED_DATABASE}").geturl()
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        migration = subprocess.Popen(
            [sys.executable, "manage.py", "migrate", "--verbosity=0"],
            cwd=Path(__file__).resolve().parent.parent,
            env=os.environ | {"DATABASE_URL": migrated},
            pass_fds=[held.fileno()],
        )

    def end() -> None:
        migration.wait()

    config.add_cleanup(end)


def wait_for_template() -> str | None:
    """Return the name of the migrated database, once it is complete; None if this run has none."""
    if TEMPLATE_LOCK not in os.environ:
        return None
    with Path(os.environ[TEMPLATE_LOCK]).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
    return MIGRATED_DATABASE


def _separate_worker(number: int) -> None:
    """Select the worker's own Redis database and data folder; the first process uses database 0."""
    os.environ["REDIS_URL"] = urlsplit(os.environ["REDIS_URL"])._replace(path=f"/{number + 1}").geturl()
    os.environ["DATA_DIR"] = str(Path(os.environ["DATA_DIR"]) / str(number))
