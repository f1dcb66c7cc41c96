"""A pytest plugin: PostgreSQL, Redis and the settings that name them, for one run of the tests.

Loaded with `-p`, so that it comes before Django's settings are read. Only the first process starts servers;
the workers of pytest-xdist inherit its environment and take a Redis database and a data folder each, as
pytest-django gives each a PostgreSQL database. `DATABASE_URL` and `REDIS_URL` from outside are used as they
are, and what their Redis database holds is lost.
"""

import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from localstack.console import LocalStackError
from localstack.postgres import start_postgres
from localstack.redis_server import start_redis
from localstack.supervisor import Supervisor


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:
        _take_a_share(int(worker.removeprefix("gw")))
    else:
        _start_services(early_config)
    return (yield)


def _start_services(config: pytest.Config) -> None:
    """Starts what the environment does not name; all of it ends with the run, or with this process."""
    folder = Path(tempfile.mkdtemp(prefix="simservice-tests-"))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    supervisor = Supervisor()
    config.add_cleanup(supervisor.stop)
    os.environ.setdefault("SECRET_KEY", "for tests only")
    os.environ.setdefault("SANDBOX", "auto")
    # A bucket from outside is somebody's own.
    for name in [name for name in os.environ if name.startswith("ARTIFACTS_")]:
        del os.environ[name]
    os.environ["DATA_DIR"] = str(folder / "files")
    try:
        if not os.environ.get("DATABASE_URL"):
            os.environ["DATABASE_URL"] = start_postgres(
                supervisor,
                folder / "postgres",
                log=folder / "postgres.log",
                password="for-tests-only",
                durable=False,
            )
        if not os.environ.get("REDIS_URL"):
            os.environ["REDIS_URL"] = start_redis(
                supervisor, folder / "redis", log=folder / "redis.log", password="for-tests-only"
            )
    except LocalStackError as error:
        raise pytest.UsageError(str(error)) from error


def _take_a_share(number: int) -> None:
    """The worker's own part of Redis and of the data folder; database 0 stays with the first process."""
    os.environ["REDIS_URL"] = urlsplit(os.environ["REDIS_URL"])._replace(path=f"/{number + 1}").geturl()
    os.environ["DATA_DIR"] = str(Path(os.environ["DATA_DIR"]) / str(number))
