"""Slots that help with sharded jobs."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from jobs.execution import helper
from jobs.models import Job
from jobs.queue import claims


@contextmanager
def helping(count: int) -> Iterator[None]:
    """Run slots that only help with shards, in threads of this process."""
    done = threading.Event()

    def repeat(worker: str) -> None:
        try:
            while not done.is_set():
                claimed = claims.claim_work(worker)
                assert not isinstance(claimed, Job), "a waiting job was claimed"
                if claimed is None:
                    time.sleep(0.02)
                else:
                    helper.execute(claimed)
        finally:
            connection.close()

    threads = [threading.Thread(target=repeat, args=[f"helper-{number}"]) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
