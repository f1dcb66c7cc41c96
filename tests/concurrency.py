"""Concurrent actions, each on its own database connection."""

import threading
from collections.abc import Callable

from django.db import connection, transaction


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


def while_locked(
    rows: str, parameters: list[int], change: Callable[[], object], move: Callable[[], object]
) -> None:
    """Lock rows, let a move wait for them in another thread, make a change, and release the lock."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT FROM {rows} FOR UPDATE", parameters)
        waiting = threading.Thread(target=at_once, args=(1, move))
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()
        change()
    waiting.join()
