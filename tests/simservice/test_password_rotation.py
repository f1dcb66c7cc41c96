"""Rotation of the passwords of PostgreSQL and Redis with the guide's commands, and of a bucket's keys."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from django.core.files.base import ContentFile
from psycopg import sql
from redis import Redis
from redis.backoff import ConstantBackoff
from redis.exceptions import AuthenticationError, RedisError
from redis.retry import Retry

from localstack.redis_server import start_redis
from localstack.supervisor import Supervisor
from simservice.storages.s3 import BucketStorage
from simservice.telemetry.known_errors import explain
from tests.docs.guide_runs import BASH, ROOT, blocks_of
from tests.s3_server import RCLONE, S3Server

GUIDE = (ROOT / "docs" / "how-to" / "rotate-secrets.md").read_text(encoding="utf-8")
BLOCKS = {block.file: block.text for block in blocks_of(GUIDE)}
DATABASE, ROLES = "rotation", ("simservice_2", "simservice")


@pytest.fixture
def superuser() -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
    """A superuser's connection to a server where the role `simservice` owns a database."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute("CREATE ROLE simservice LOGIN PASSWORD 'the old password'")
        connection.execute(f"CREATE DATABASE {DATABASE} OWNER simservice")
        yield connection
        connection.execute(f"DROP DATABASE {DATABASE} (FORCE)")
        for role in ROLES:
            connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(role)))


def connect(role: str, password: str) -> "psycopg.Connection[tuple[object, ...]]":
    """Connect to the database like the service."""
    address = os.environ["DATABASE_URL"]
    return psycopg.connect(address, dbname=DATABASE, user=role, password=password, autocommit=True)


@pytest.mark.direct("PgBouncer connects with one role")
def test_two_roles_share_a_database_during_a_rotation(
    superuser: "psycopg.Connection[tuple[object, ...]]",
) -> None:
    with connect("simservice", "the old password") as old:
        old.execute("CREATE TABLE jobs (id int)")
        superuser.execute(BLOCKS["database-add"])
        with connect("simservice_2", "the new password") as new:
            new.execute("ALTER TABLE jobs ADD status text")
            new.execute("CREATE TABLE later (id int)")
            # Both work until every process has restarted.
            old.execute("ALTER TABLE later ADD status text")
            superuser.execute(BLOCKS["database-remove"])
            new.execute("INSERT INTO later VALUES (1, 'new')")
            assert new.execute("SELECT tableowner FROM pg_tables WHERE tablename = 'later'").fetchall() == [
                ("simservice",)
            ]
        with pytest.raises(psycopg.OperationalError):
            old.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        connect("simservice", "the old password")


@pytest.fixture
def redis_port(tmp_path: Path) -> Iterator[int]:
    """The port of a Redis server of its own, which starts again with its configuration file when it ends."""
    supervisor = Supervisor()
    address = start_redis(supervisor, tmp_path / "redis", log=tmp_path / "log", password="the-old-password")
    with watching(supervisor):
        yield urlsplit(address).port or 0
    supervisor.stop()


@contextmanager
def watching(supervisor: Supervisor) -> Iterator[None]:
    """Restart programs that end during the block."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            supervisor.watch(0.1)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def run(name: str, port: int) -> None:
    """Run a block of the guide."""
    own = {"OLD_PASSWORD": "the-old-password", "NEW_PASSWORD": "the-new-password"}
    server = {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(port)}
    path = os.pathsep.join([str(RCLONE.parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, **own, **server}
    subprocess.run([BASH, "-euo", "pipefail", "-c", BLOCKS[name]], env=environment, check=True)


def client(port: int, password: str) -> Redis:
    return Redis(port=port, password=password, retry=Retry(ConstantBackoff(0.1), 100))


def test_redis_accepts_both_passwords_during_a_rotation(redis_port: int) -> None:
    with client(redis_port, "the-old-password") as old, client(redis_port, "the-new-password") as new:
        assert old.ping()
        run("redis-add", redis_port)
        assert new.ping()
        assert old.ping()
        run("redis-remove", redis_port)
        assert new.ping()
        # The change outlives a restart.
        first = str(new.info()["run_id"])
        with suppress(RedisError):
            Redis(port=redis_port, password="the-new-password").shutdown()
        assert new.info()["run_id"] != first
    with client(redis_port, "the-old-password") as old, pytest.raises(AuthenticationError):
        old.ping()


def test_a_bucket_accepts_both_keys_during_a_rotation(tmp_path: Path) -> None:
    server = S3Server(tmp_path, "--auth-key", "second,another")
    server.start()
    first, second = (
        BucketStorage(**server.storages(**keys)["default"]["OPTIONS"])
        for keys in ({}, {"access_key_id": "second", "secret_access_key": "another"})
    )
    first.save("a", ContentFile(b"text"))
    assert second.open("a").read() == b"text"
    server.stop()
    server.keys = "second,another"
    server.start()
    assert second.open("a").read() == b"text"
    with pytest.raises(OSError, match="GetObject") as raised:
        first.open("a")
    cause = explain(raised.value)
    assert cause is not None
    assert cause.advice == "Check `ARTIFACTS_ACCESS_KEY_ID`."
    server.stop()
