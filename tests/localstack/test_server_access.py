"""PostgreSQL under another system user: who can reach it, and what it can read."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from localstack import postgres
from localstack.console import LocalStackError
from tests.localstack.servers import Start, address, as_root, folder, modes_above, server_of, start

__all__ = ["folder", "start"]


# Python changes its user after all imports, because its own folder may be closed to others.
BECOME_NOBODY = """
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


def run_as_nobody(script: str, *arguments: object) -> str:
    """Run a script as an unprivileged user and return its output."""
    command = [sys.executable, "-c", BECOME_NOBODY + script, *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


@as_root
def test_another_user_cannot_reach_the_socket(start: Start, folder: Path) -> None:
    assert "Permission denied" in run_as_nobody("attempt(url)", start(), folder / "data")


@as_root
def test_another_user_in_the_folder_cannot_use_the_socket(start: Start, folder: Path) -> None:
    start()
    (folder / "data").chmod(0o711)
    script = f"attempt({address(Path('/proc/self/fd'))!r} + f'/{{opened}}')"
    assert "Permission denied" in run_as_nobody(script, "", folder / "data")


@as_root
def test_another_user_at_the_socket_needs_the_password(start: Start, folder: Path) -> None:
    start()
    (folder / "data").chmod(0o711)
    (folder / "data" / ".s.PGSQL.5432").chmod(0o777)
    script = "attempt(f'postgresql://postgres@/simservice?host=/proc/self/fd/{opened}')"
    assert "no password supplied" in run_as_nobody(script, "", folder / "data")
    known = f"attempt({address(Path('/proc/self/fd'))!r} + f'/{{opened}}')"
    assert run_as_nobody(known, "", folder / "data") == "connected\n"


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
        output = run_as_nobody(script, "", name)
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
