"""Doing the same thing at the same moment, each on a database connection of its own."""

import threading
from collections.abc import Callable

from django.db import connection


def at_once(count: int, action: Callable[[], object]) -> None:
    """Run an action in several threads and return when all have ended."""

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
