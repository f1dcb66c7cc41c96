"""PostgreSQL and Redis from the wheels: addresses, restarts after a crash, and access of other users."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import environ
import psutil
import psycopg
import pytest
import redis

from localstack import postgres
from localstack.console import LocalStackError
from localstack.postgres import start_postgres
from localstack.redis_server import start_redis
from localstack.supervisor import Supervisor
from tests.localstack.conftest import eventually, processes_in

Start = Callable[..., str]


PASSWORD = "it's / a secret"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that is closed to others, like a home directory."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def start(folder: Path, supervisor: Supervisor) -> Start:
    """Return a function that starts PostgreSQL on a folder until the end of the test."""

    def start(name: str = "data") -> str:
        return start_postgres(
            supervisor, folder / name, log=folder / "postgres.log", password=PASSWORD, durable=False
        )

    return start


def server_of(url: str) -> psutil.Process:
    """Return the server process at `url`."""
    with psycopg.connect(url) as connection:
        assert connection.info.dbname == "simservice"
        server = psutil.Process(connection.info.backend_pid).parent()
    assert server is not None
    return server


def folder_of(url: str) -> str:
    return str(server_of(url).cwd())


def test_two_postgres_at_once_keep_to_their_folders(start: Start, folder: Path) -> None:
    first, second = start("first"), start("second")
    assert [folder_of(url) for url in (first, second)] == [str(folder / "first"), str(folder / "second")]


@pytest.mark.parametrize("name", ["x" * 100, "with space, comma & 'quote\""])
def test_any_folder_name_works(start: Start, folder: Path, name: str) -> None:
    assert folder_of(start(name)) == str(folder / name)


def test_django_accepts_the_database_url(start: Start, folder: Path) -> None:
    database = environ.Env.db_url_config(start())
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


def address(folder: Path, *, password: str = PASSWORD) -> str:
    """Return the address of the server whose socket is in `folder`."""
    return f"postgresql://postgres:{quote(password, safe='')}@/simservice?host={folder}"


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


def modes_above(path: Path) -> dict[Path, int]:
    return {level: level.stat().st_mode for level in path.parents}


def test_no_folder_above_the_data_changes_its_mode(start: Start, folder: Path) -> None:
    before = modes_above(folder / "data")
    start()
    assert modes_above(folder / "data") == before
    assert folder.stat().st_mode & 0o077 == 0


def test_the_socket_is_in_a_private_folder(start: Start, folder: Path) -> None:
    owner = server_of(start()).uids().real
    for path in (folder / "data", folder / "data" / ".s.PGSQL.5432"):
        assert (path.stat().st_mode & 0o777, path.stat().st_uid) == (0o700, owner)


def test_postgres_listens_on_no_tcp_port(start: Start) -> None:
    assert [each for each in server_of(start()).net_connections("all") if each.family != socket.AF_UNIX] == []


@pytest.mark.parametrize("password", ["", "wrong"])
def test_postgres_requires_its_password(start: Start, folder: Path, password: str) -> None:
    start()
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(address(folder / "data", password=password))


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


def test_logs_and_commands_do_not_contain_the_password(start: Start, folder: Path) -> None:
    with psycopg.connect(start()):
        assert not any(PASSWORD in " ".join(process.cmdline()) for process in processes_in(folder))
    assert PASSWORD not in (folder / "postgres.log").read_text()


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


# Python changes its user after all imports, because its own folder may be closed to others.
AS_NOBODY = """
import encodings.idna, os, pwd, sys
from pathlib import Path
import psycopg
from localstack import postgres
from localstack.supervisor import Supervisor
nobody = pwd.getpwnam("nobody")
url, folder = sys.argv[1], Path(sys.argv[2])
opened = os.open(folder, os.O_PATH)
programs = postgres._programs_for(postgres._system_user())
os.setgroups([])
os.setgid(nobody.pw_gid)
os.setuid(nobody.pw_uid)
def attempt(url):
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError as error:
        print(error)
    else:
        print("connected")
"""


def as_nobody(script: str, *arguments: object) -> str:
    """Run a script as an unprivileged user and return its output."""
    command = [sys.executable, "-c", AS_NOBODY + script, *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


@as_root
def test_another_user_cannot_reach_the_socket(start: Start, folder: Path) -> None:
    assert "Permission denied" in as_nobody("attempt(url)", start(), folder / "data")


@as_root
def test_another_user_in_the_folder_cannot_use_the_socket(start: Start, folder: Path) -> None:
    start()
    (folder / "data").chmod(0o711)
    script = f"attempt({address(Path('/proc/self/fd'))!r} + f'/{{opened}}')"
    assert "Permission denied" in as_nobody(script, "", folder / "data")


@as_root
def test_another_user_at_the_socket_needs_the_password(start: Start, folder: Path) -> None:
    start()
    (folder / "data").chmod(0o711)
    (folder / "data" / ".s.PGSQL.5432").chmod(0o777)
    script = "attempt(f'postgresql://postgres@/simservice?host=/proc/self/fd/{opened}')"
    assert "no password supplied" in as_nobody(script, "", folder / "data")
    known = f"attempt({address(Path('/proc/self/fd'))!r} + f'/{{opened}}')"
    assert as_nobody(known, "", folder / "data") == "connected\n"


def test_the_server_inherits_no_environment_variables(tmp_path: Path) -> None:
    server = postgres._Server(folder=tmp_path, programs=tmp_path, user=None, durable=False)
    assert set(server.environment) == {"PATH", "LC_ALL"}


@as_root
def test_the_server_is_not_in_roots_group(start: Start) -> None:
    assert server_of(start()).gids().real != 0


@as_root
def test_an_ordinary_user_runs_the_server_as_itself() -> None:
    script = """
postgres._programs_for = lambda user: programs
running = Supervisor()
try:
    url = postgres.start_postgres(running, folder / "data", log=folder / "log", password="secret", durable=False)
    attempt(url)
    print((folder / "data").owner(), oct((folder / "data").stat().st_mode))
    attempt(url.replace("secret", "wrong"))
finally:
    running.stop()
"""
    with tempfile.TemporaryDirectory() as name:
        shutil.chown(name, "nobody")
        output = as_nobody(script, "", name)
    assert output.startswith("connected\nnobody 0o40700\n")
    assert "password authentication failed" in output


@pytest.fixture
def closed_wheel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install PostgreSQL in a folder that is closed to its user."""
    wheel = folder / "wheel"
    for part in (postgres.PROGRAMS.parent, postgres.LIBRARIES):
        shutil.copytree(postgres._wheel() / part, wheel / part)
    monkeypatch.setattr(postgres, "_wheel", lambda: wheel)
    return wheel


@as_root
def test_programs_in_a_closed_folder_are_copied_and_run(start: Start, closed_wheel: Path, folder: Path) -> None:
    before = modes_above(closed_wheel / postgres.PROGRAMS / "postgres")
    server = server_of(start())
    assert not Path(server.exe()).is_relative_to(folder)
    assert modes_above(closed_wheel / postgres.PROGRAMS / "postgres") == before


@as_root
def test_programs_that_cannot_be_run_are_reported(
    start: Start, closed_wheel: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with pytest.raises(
        LocalStackError, match=rf"who cannot run programs in {closed_wheel / postgres.PROGRAMS} or {folder}/"
    ):
        start()
    assert not (folder / "data").exists()


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
        supervisor.watch(1.6)
        assert eventually(lambda: processes_in(folder / "redis"))
        assert client.get("hint") is None


def test_two_redis_at_once_have_different_ports(supervisor: Supervisor, redis_url: str, folder: Path) -> None:
    other = start_redis(supervisor, folder / "other", log=folder / "other.log", password="secret")
    assert other != redis_url


def test_only_the_owner_can_read_the_redis_password(redis_url: str, folder: Path) -> None:
    assert (folder / "redis" / "redis.conf").stat().st_mode & 0o077 == 0
    assert not any("secret" in " ".join(process.cmdline()) for process in processes_in(folder / "redis"))
