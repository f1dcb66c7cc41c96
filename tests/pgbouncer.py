"""PgBouncer in transaction mode between the tests and PostgreSQL: `make pgbouncer`.

With the environment variable `PGBOUNCER=1`, `tests.services` starts it. Tests and the processes that they start
then connect through it. Tests with the marker `direct` do not; the marker gives the reason. Connections stay open
between tests, because the tests of some modules share a transaction.
"""

import io
import os
import shutil
from collections.abc import Iterator
from configparser import RawConfigParser
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import psycopg
from django.db import connections

from localstack.postgres import SYSTEM_USER
from localstack.redis_server import free_port
from localstack.supervisor import Program, Supervisor

POOLED = "PGBOUNCER_URL"
DIRECT = "DIRECT_DATABASE_URL"
CONFIGURATION = Path(__file__).resolve().parent.parent / "deploy" / "pgbouncer.ini"


def start_pgbouncer(supervisor: Supervisor, folder: Path, *, database_url: str, log: Path) -> str:
    """Start PgBouncer in a new folder, and return its URL. Raises LocalStackError if it cannot be started."""
    url, port = urlsplit(database_url), free_port()
    folder.mkdir(mode=0o755)
    # PgBouncer's user must be able to reach its configuration and PostgreSQL's socket.
    folder.parent.chmod(0o711)
    path = folder / "pgbouncer.ini"
    path.write_text(_configuration(urlsplit(database_url), port))
    program = Program(
        name="pgbouncer",
        command=[shutil.which("pgbouncer") or "/usr/sbin/pgbouncer", str(path)],
        folder=folder,
        log=log,
        environment=os.environ,
        # PgBouncer refuses to run as root, and only this user can reach PostgreSQL's socket.
        user=SYSTEM_USER if os.geteuid() == 0 else None,
        stops_last=True,
    )
    pooled = f"postgresql://{url.username}:{url.password}@127.0.0.1:{port}{url.path}"
    supervisor.start_server(program, lambda: psycopg.connect(pooled).close(), not_yet=psycopg.OperationalError)
    return pooled


def _configuration(url: SplitResult, port: int) -> str:
    """Return the configuration of a deployment, for this PostgreSQL, all its databases and any password."""
    read = RawConfigParser()
    read.read(CONFIGURATION)
    query = read["databases"]["simservice"].partition("connect_query=")[2]
    password = unquote(url.password or "")
    server = f"host={url.hostname} port={url.port}" if url.hostname else f"host={parse_qs(url.query)['host'][0]}"
    read["databases"] = {"*": f"{server} user={url.username} password={password} connect_query={query}"}
    own = {"listen_addr": "127.0.0.1", "listen_port": str(port), "auth_type": "any", "default_pool_size": "40"}
    read["pgbouncer"].update(own)
    del read["pgbouncer"]["auth_file"]
    text = io.StringIO()
    read.write(text)
    return text.getvalue()


@contextmanager
def connected(*, directly: bool) -> Iterator[None]:
    """Connect this process, and those that it starts, in the block: directly or through PgBouncer, if it runs."""
    before, settings = os.environ["DATABASE_URL"], connections.settings["default"]
    chosen = os.environ.get(DIRECT if directly else POOLED, before)
    if chosen == before:
        yield
        return
    _connect(chosen, settings)
    try:
        yield
    finally:
        _connect(before, settings)


def _connect(url: str, settings: dict[str, Any]) -> None:
    connections.close_all()
    parts = urlsplit(url)
    host = parts.hostname or parse_qs(parts.query)["host"][0]
    settings.update(HOST=host, PORT=parts.port or "")
    settings["OPTIONS"]["host"] = host
    os.environ["DATABASE_URL"] = url
