"""The Redis commands that this process sends. The server's own statistics include those of other test processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis import Redis


@contextmanager
def redis_commands() -> Iterator[list[str]]:
    """Collect the names of the commands sent within a block."""
    sent: list[str] = []
    execute: Any = Redis.execute_command

    def record(client: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(arguments[0])
        return execute(client, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Redis, "execute_command", record)
        yield sent
