"""PostgreSQL and Redis from the wheels: addresses, passwords, and restarts after a crash."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import environ
import psutil
import psycopg
import pytest
import redis

import localstack.supervisor
from localstack import postgres, redis_server
from localstack.console import LocalStackError
from localstack.postgres import start_postgres
from localstack.redis_server import start_redis
from localstack.supervisor import Supervisor
from tests.localstack.conftest import eventually, processes_in
from tests.localstack.servers import PASSWORD, Start, address, folder, folder_of, modes_above, server_of, start

__all__ = ["folder", "start"]
pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a PostgreSQL for tests that only look at it, with its log beside its folder."""
    folder = tmp_path_factory.mktemp("running")
    supervisor = Supervisor()
    try:
        yield start_postgres(
            supervisor, folder / "data", log=folder / "postgres.log", password=PASSWORD, durable=False
        )
    finally:
        supervisor.stop()


def test_two_postgres_at_once_keep_to_their_folders(start: Start, folder: Path) -> None:
    first, second = start("first"), start("second")
    assert [folder_of(url) for url in (first, second)] == [str(folder / "first"), str(folder / "second")]


@pytest.mark.parametrize("name", ["x" * 100, "with space, comma & 'quote\""])
def test_any_folder_name_works(start: Start, folder: Path, name: str) -> None:
    assert folder_of(start(name)) == str(folder / name)


def test_django_accepts_the_database_url(running: str) -> None:
    database = environ.Env.db_url_config(running)
    names = {"dbname": database["NAME"], "user": database["USER"], "password": database["PASSWORD"]}
    with psycopg.connect(**names, **database["OPTIONS"]) as connection:
        assert connection.info.dbname == "simservice"


def test_a_missing_locale_is_ignored(start: Start, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "xx_YY.UTF-8")
    assert folder_of(start())
    assert os.environ["LC_ALL"] == "xx_YY.UTF-8"


def test_an_incomplete_data_folder_is_created_again(
    start: Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            start()
    assert folder_of(start()) == str(folder / "data")


def run_elsewhere(folder: Path, *, linked: bool = True) -> subprocess.Popen[str]:
    """Start PostgreSQL in `folder` under a supervisor in another process; unless `linked`, it outlives that."""
    script = f"""
from pathlib import Path
from localstack import postgres, supervisor
if not {linked}:
    supervisor._prctl = lambda *_: None
folder = Path({str(folder)!r})
running = supervisor.Supervisor()
log = folder / "postgres.log"
print(postgres.start_postgres(running, folder / "data", log=log, password={PASSWORD!r}), flush=True)
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


def test_committed_data_survives_kill(start: Start, folder: Path) -> None:
    killed = run_elsewhere(folder)
    with psycopg.connect(address(folder / "data")) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    kill_everything(killed, folder)
    with psycopg.connect(start()) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_lock_files_naming_a_live_process_are_ignored(start: Start, folder: Path) -> None:
    start("other")
    living = (folder / "other" / "postmaster.pid").read_text().split()[0]
    kill_everything(run_elsewhere(folder), folder / "data")
    for lock in ("postmaster.pid", ".s.PGSQL.5432.lock"):
        (folder / "data" / lock).write_text(f"{living}\n{folder}/data\n0\n5432\n")
    assert folder_of(start())


def test_a_server_that_outlived_its_supervisor_is_replaced(start: Start, folder: Path) -> None:
    killed = run_elsewhere(folder, linked=False)
    old = processes_in(folder)
    killed.kill()
    killed.wait()
    assert folder_of(start())
    assert set(old) & set(processes_in(folder)) == set()


def test_no_folder_above_the_data_changes_its_mode(start: Start, folder: Path) -> None:
    before = modes_above(folder / "data")
    start()
    assert modes_above(folder / "data") == before
    assert folder.stat().st_mode & 0o077 == 0


def test_the_socket_is_in_a_private_folder(running: str) -> None:
    owner, data = server_of(running).uids().real, Path(folder_of(running))
    for path in (data, data / ".s.PGSQL.5432"):
        assert (path.stat().st_mode & 0o777, path.stat().st_uid) == (0o700, owner)


def test_postgres_listens_on_no_tcp_port(running: str) -> None:
    assert [each for each in server_of(running).net_connections("all") if each.family != socket.AF_UNIX] == []


@pytest.mark.parametrize("password", ["", "wrong"])
def test_postgres_requires_its_password(running: str, password: str) -> None:
    data = Path(folder_of(running))
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(address(data, password=password))


def test_a_data_folder_without_password_is_secured(start: Start, supervisor: Supervisor, folder: Path) -> None:
    with psycopg.connect(start()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        connection.execute("ALTER ROLE postgres PASSWORD NULL")
    supervisor.stop()
    (folder / "data" / "pg_hba.conf").write_text("local all all trust\n")
    (folder / "data").chmod(0o750)
    with psycopg.connect(start()) as connection:
        assert (folder / "data").stat().st_mode & 0o777 == 0o700
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(address(folder / "data", password=""))


def test_a_new_password_replaces_the_old_one(supervisor: Supervisor, folder: Path) -> None:
    for password in ("first", "second"):
        start_postgres(supervisor, folder / "data", log=folder / "log", password=password, durable=False)
        supervisor.stop()
    start_postgres(supervisor, folder / "data", log=folder / "log", password="second", durable=False)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(address(folder / "data", password="first"))


def test_logs_and_commands_do_not_contain_the_password(running: str) -> None:
    data = Path(folder_of(running))
    with psycopg.connect(running):
        assert not any(PASSWORD in " ".join(process.cmdline()) for process in processes_in(data))
    assert PASSWORD not in (data.parent / "postgres.log").read_text()


def test_a_failed_change_of_password_does_not_print_it(
    start: Start, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    start()
    supervisor.stop()
    monkeypatch.setattr(postgres, "SUPERUSER", "nobody_of_that_name")
    with pytest.raises(LocalStackError, match="nobody_of_that_name") as failure:
        start()
    assert "secret" not in str(failure.value)


def test_a_link_in_place_of_the_configuration_is_not_followed(
    start: Start, supervisor: Supervisor, folder: Path
) -> None:
    start()
    supervisor.stop()
    (folder / "own").write_text("ours")
    (folder / "data" / "pg_hba.conf").unlink()
    (folder / "data" / "pg_hba.conf").symlink_to(folder / "own")
    start()
    assert (folder / "own").read_text() == "ours"


@pytest.fixture
def redis_url(supervisor: Supervisor, folder: Path) -> str:
    return start_redis(supervisor, folder / "redis", log=folder / "redis.log", password="secret")


def test_redis_requires_its_password(redis_url: str) -> None:
    with (
        redis.Redis.from_url(redis_url.replace("secret", "wrong")) as client,
        pytest.raises(redis.AuthenticationError),
    ):
        client.ping()


def test_a_restarted_redis_is_empty_at_the_same_address(
    supervisor: Supervisor, redis_url: str, folder: Path
) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set("hint", "gone")
        processes_in(folder / "redis")[0].terminate()  # SIGTERM would save the data if Redis stored any
        supervisor.watch(3.5)
        assert eventually(lambda: processes_in(folder / "redis"))
        assert client.get("hint") is None


def test_another_program_on_its_port_receives_no_password(
    supervisor: Supervisor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0)
        monkeypatch.setattr(redis_server, "free_port", lambda: other.getsockname()[1])
        monkeypatch.setattr(localstack.supervisor, "START_SECONDS", 1)
        with pytest.raises(LocalStackError, match="Address already in use"):
            start_redis(supervisor, folder / "redis", log=folder / "redis.log", password="secret")
        with pytest.raises(BlockingIOError):
            other.accept()


def test_two_redis_at_once_have_different_ports(supervisor: Supervisor, redis_url: str, folder: Path) -> None:
    other = start_redis(supervisor, folder / "other", log=folder / "other.log", password="secret")
    assert other != redis_url


def test_only_the_owner_can_read_the_redis_password(redis_url: str, folder: Path) -> None:
    assert (folder / "redis" / "redis.conf").stat().st_mode & 0o077 == 0
    assert not any("secret" in " ".join(process.cmdline()) for process in processes_in(folder / "redis"))
