"""PostgreSQL servers for tests of the local stack."""

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
import pytest

from localstack.postgres import start_postgres
from localstack.supervisor import Supervisor

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


def address(folder: Path, *, password: str = PASSWORD) -> str:
    """Return the address of the server whose socket is in `folder`."""
    return f"postgresql://postgres:{quote(password, safe='')}@/simservice?host={folder}"


def modes_above(path: Path) -> dict[Path, int]:
    return {level: level.stat().st_mode for level in path.parents}
