"""Concurrent actions, each on its own database connection."""

import threading
from collections.abc import Callable

from django.db import connection


def at_once(count: int, action: Callable[[], object]) -> None:
    """Run an action in several threads and wait for all."""

    def run() -> None:
        try:
            action()
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
