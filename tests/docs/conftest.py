"""One stack for guides and examples. Commands of operators change builds, so they have a stack of their own."""

from collections.abc import Iterator

import pytest

from tests.stack import Stack, running_stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("stack")) as started:
        yield started


@pytest.fixture(scope="session")
def values(stack: Stack) -> dict[str, str]:
    """The values that a reader fills in."""
    return {"http://127.0.0.1:8000": stack.ready["url"], "sk_…": stack.ready["apiKey"]}
