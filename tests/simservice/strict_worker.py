"""The web server's worker with low limits for tests."""

import resource
from typing import Any

from simservice.web import connections, gunicorn_worker

# On a busy machine, storing the bodies of four requests takes more than two seconds.
HEAD_SECONDS, REQUEST_SECONDS = 1.0, 5.0
CONNECTIONS = 40
SPOOLED_BYTES = 1 << 20
SEND_SECONDS = 1.0

connections.HEAD_SECONDS, connections.REQUEST_SECONDS = HEAD_SECONDS, REQUEST_SECONDS
gunicorn_worker.MAX_SPOOLED_BYTES = SPOOLED_BYTES
gunicorn_worker.SEND_SECONDS = SEND_SECONDS


class Worker(gunicorn_worker.Worker):
    """A worker that can open few files."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        most = gunicorn_worker.OTHER_DESCRIPTORS + 2 * CONNECTIONS
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        super().__init__(*args, **kwargs)
