"""The web server's worker with low limits for tests."""

import resource

from simservice.web import connections, gunicorn_worker
from simservice.web.gunicorn_worker import Worker

__all__ = ["Worker"]

HEAD_SECONDS, REQUEST_SECONDS = 1.0, 2.0
CONNECTIONS = 40
SPOOLED_BYTES = 1 << 20
SEND_SECONDS = 1.0

connections.HEAD_SECONDS, connections.REQUEST_SECONDS = HEAD_SECONDS, REQUEST_SECONDS
gunicorn_worker.MAX_SPOOLED_BYTES = SPOOLED_BYTES
gunicorn_worker.SEND_SECONDS = SEND_SECONDS
_, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (gunicorn_worker.OTHER_DESCRIPTORS + 2 * CONNECTIONS, hard_limit))
