"""A deployment for backup drills: PostgreSQL, Redis, a bucket and the service, which can all be destroyed."""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psycopg

from localstack import postgres
from localstack.postgres import start_postgres
from localstack.redis_server import start_redis
from localstack.supervisor import Supervisor
from tests.docs.guide_runs import BASH, blocks_of
from tests.s3_server import RCLONE, S3Server
from tests.stack import ROOT, Stack, start_stack
from tests.webhooks.receivers import Receiver

GUIDE = ROOT / "docs" / "how-to" / "back-up-and-restore.md"
PASSWORD = "for-drills-only"
REPLICATION = "local all all scram-sha-256\nlocal replication all scram-sha-256\n"


class Site:
    """A deployment in a folder. A restored one has another folder, and shares only `settings` and `backup`."""

    def __init__(self, folder: Path, *, settings: Mapping[str, str], backup: Path) -> None:
        self.folder, self.settings, self.backup = folder, settings, backup
        self.supervisor = Supervisor()
        folder.mkdir(mode=0o755)
        (folder / "s3").mkdir()
        self.bucket = S3Server(folder / "s3")
        self.database_url = self.redis_url = ""
        self.stack: Stack | None = None

    @property
    def pgdata(self) -> Path:
        return self.folder / "postgres"

    def start_servers(self) -> None:
        """Start PostgreSQL, on the data that is there, an empty Redis, and the bucket."""
        self.start_postgres()
        log = self.folder / "redis.log"
        self.redis_url = start_redis(self.supervisor, self.folder / "redis", log=log, password=PASSWORD)
        self.bucket.start()

    def start_postgres(self) -> None:
        log = self.folder / "postgres.log"
        self.database_url = start_postgres(self.supervisor, self.pgdata, log=log, password=PASSWORD)

    def allow_replication(self) -> None:
        """Let `pg_basebackup` and `pg_receivewal` connect."""
        (self.pgdata / "pg_hba.conf").write_text(REPLICATION)
        # A copy starts with the settings of its folder, and needs at least as many connections.
        self._configure("ALTER SYSTEM SET max_connections = 200", "SELECT pg_reload_conf()")

    def require_receiver(self) -> None:
        """Let commits wait for `pg_receivewal`."""
        self._configure("ALTER SYSTEM SET synchronous_standby_names = 'pg_receivewal'", "SELECT pg_reload_conf()")

    def _configure(self, *statements: str) -> None:
        with psycopg.connect(self.database_url, autocommit=True) as database:
            for statement in statements:
                database.execute(statement)

    def prepare_recovery(self) -> None:
        """Let PostgreSQL recover restored files when it starts."""
        # The local stack first starts it in single-user mode, which has no hot standby.
        with (self.pgdata / "postgresql.auto.conf").open("a") as file:
            file.write("hot_standby = off\n")
        give_to_postgres(self.pgdata)
        give_to_postgres(self.backup / "wal")

    def environment(self) -> dict[str, str]:
        """Return the settings of the service on this site."""
        urls = {"DATABASE_URL": self.database_url, "REDIS_URL": self.redis_url}
        return {**self.settings, **urls, **self.bucket.variables()}

    def start_service(self) -> Stack:
        self.stack = start_stack(self.folder / "stack", **self.environment())
        return self.stack

    def run(self, name: str) -> str:
        """Run the commands of the guide's block with this name, and return their output."""
        done = subprocess.run(
            [BASH, "-euc", block(name)], cwd=ROOT, env=self.tools(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{block(name)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def tools(self) -> dict[str, str]:
        """Return the environment of the guide's commands."""
        path = os.pathsep.join([str(postgres._wheel() / postgres.PROGRAMS), str(RCLONE.parent), os.environ["PATH"]])
        chosen = {"PATH": path, "BACKUP": str(self.backup), "PGDATA": str(self.pgdata)}
        chosen["DIRECT_URL"] = self.database_url
        return {**os.environ, **self.environment(), **self.remote(), **chosen}

    def remote(self) -> dict[str, str]:
        """Return the variables that define rclone's remote `live`."""
        bucket = self.bucket.variables()
        values = {
            "TYPE": "s3",
            "PROVIDER": "Rclone",
            "ENDPOINT": bucket["ARTIFACTS_ENDPOINT_URL"],
            "ACCESS_KEY_ID": bucket["ARTIFACTS_ACCESS_KEY_ID"],
            "SECRET_ACCESS_KEY": bucket["ARTIFACTS_SECRET_ACCESS_KEY"],
        }
        return {
            "RCLONE_CONFIG": "/dev/null",
            **{f"RCLONE_CONFIG_LIVE_{key}": value for key, value in values.items()},
        }

    def destroy(self) -> None:
        """Kill every process and remove all data."""
        self.stop()
        shutil.rmtree(self.folder)

    def stop(self) -> None:
        """Kill every process."""
        if self.stack is not None:
            self.stack.stop(signal.SIGKILL)
            self.stack = None
        for child in self.supervisor._children:
            child.send(signal.SIGKILL)
        self.supervisor.stop()
        self.bucket.stop()


def block(name: str) -> str:
    """Return the commands of the guide with this name."""
    (found,) = [each.text for each in blocks_of(GUIDE.read_text(encoding="utf-8")) if each.file == name]
    return found


def give_to_postgres(folder: Path) -> None:
    """Make PostgreSQL's user the owner of a folder, if PostgreSQL has its own user."""
    if os.geteuid() == 0:
        with suppress(KeyError):
            user = pwd.getpwnam(postgres.SYSTEM_USER).pw_name
            for path in (folder, *folder.rglob("*")):
                shutil.chown(path, user, user)


def settings_of(receiver: Receiver) -> dict[str, str]:
    """Return the settings of a deployment, which must outlive it."""
    return {
        "SECRET_KEY": secrets.token_hex(16),
        "WEBHOOK_SECRETS_KEYS": secrets.token_hex(16),
        "SIM_SLOTS": "2",
        # All artifacts are downloaded at the end.
        "PUBLIC_REQUESTS_PER_MINUTE": "1000000",
        # Short leases, so that lost jobs are noticed soon.
        "LEASE_SECONDS": "6",
        "HEARTBEAT_SECONDS": "2",
        **receiver.settings(),
    }
