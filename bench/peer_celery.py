"""No-ops through Celery: `python -m bench.peer_celery REDIS_URL COUNT` prints JSON.

The messages are sent before the worker starts. The measurement begins with the first task, so it excludes the
start.
"""

import json
import os
import sys
import threading
import time

from celery import Celery

QUEUE = "noop"
CONCURRENCY = 4


class Count:
    """Counts tasks; prints the rate and ends the process after the last one."""

    def __init__(self, count: int) -> None:
        self._lock, self._left, self._count = threading.Lock(), count, count
        self._started = self._own = 0.0

    def done(self) -> None:
        with self._lock:
            if self._left == self._count:
                self._started, self._own = time.perf_counter(), time.process_time()
            self._left -= 1
            if not self._left:
                self._finish()

    def _finish(self) -> None:
        elapsed, own = time.perf_counter() - self._started, time.process_time() - self._own
        result = {"rate": self._count / elapsed, "cpuMs": own / self._count * 1000}
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()
        os._exit(0)


def main(url: str, count: int) -> None:
    app = Celery("peer", broker=url)
    app.conf.update(task_ignore_result=True, task_default_queue=QUEUE, worker_hijack_root_logger=False)
    counted = Count(count)

    @app.task(name="noop")
    def noop() -> None:
        counted.done()

    for _ in range(count):
        noop.delay()
    options = ["--pool", "threads", "--concurrency", str(CONCURRENCY), "--queues", QUEUE, "--loglevel", "WARNING"]
    app.worker_main(["--quiet", "worker", "--without-gossip", "--without-mingle", *options])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
