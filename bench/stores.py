"""PostgreSQL and Redis for benchmarks that need no other programs, and Django on them in this process."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from localstack.postgres import start_postgres
from localstack.redis_server import start_redis
from localstack.supervisor import Supervisor

PASSWORD = "bench"  # noqa: S105 - a temporary server


@dataclass(frozen=True, kw_only=True)
class Stores:
    """The running servers, children of this process, and the environment of programs that use them."""

    supervisor: Supervisor
    folder: Path
    environment: dict[str, str]

    @property
    def database_url(self) -> str:
        return self.environment["DATABASE_URL"]

    @property
    def redis_url(self) -> str:
        return self.environment["REDIS_URL"]


@contextmanager
def running_stores() -> Iterator[Stores]:
    """Run both servers in a temporary folder during the block. PostgreSQL writes to disk before it responds."""
    supervisor = Supervisor()
    with tempfile.TemporaryDirectory(prefix="simservice-bench-") as name:
        folder = Path(name)
        try:
            environment = _start(supervisor, folder)
            yield Stores(supervisor=supervisor, folder=folder, environment=environment)
        finally:
            supervisor.stop()


def _start(supervisor: Supervisor, folder: Path) -> dict[str, str]:
    postgres, redis = folder / "postgres", folder / "redis"
    return {
        **os.environ,
        "DATABASE_URL": start_postgres(supervisor, postgres, log=folder / "postgres.log", password=PASSWORD),
        "REDIS_URL": start_redis(supervisor, redis, log=folder / "redis.log", password=PASSWORD),
        "DATA_DIR": str(folder / "files"),
        "SECRET_KEY": "bench",
        "LOG_LEVEL": "WARNING",
        "DJANGO_SETTINGS_MODULE": "simservice.settings",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
    }


@contextmanager
def django_on_stores(**settings: str) -> Iterator[Stores]:
    """Run both servers, and set up Django in this process with a migrated database. Once per process."""
    with running_stores() as stores:
        os.environ |= stores.environment | settings
        import django
        from django.core.management import call_command
        from django.db import connections

        django.setup()
        call_command("migrate", verbosity=0)
        try:
            yield stores
        finally:
            connections.close_all()
