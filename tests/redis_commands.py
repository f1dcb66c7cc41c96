"""The Redis commands that this process sends. The server's own statistics include those of other test processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis import Redis
from redis.client import Pipeline


@contextmanager
def redis_commands() -> Iterator[list[str]]:
    """Collect the names of the commands sent within a block. The commands of a pipeline are one item."""
    sent: list[str] = []
    execute: Any = Redis.execute_command
    execute_pipeline: Any = Pipeline.execute

    def record(client: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(arguments[0])
        return execute(client, *arguments, **options)

    def record_pipeline(pipeline: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(" ".join(command[0][0] for command in pipeline.command_stack))
        return execute_pipeline(pipeline, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Redis, "execute_command", record)
        patch.setattr(Pipeline, "execute", record_pipeline)
        yield sent
