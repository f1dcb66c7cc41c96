"""Values for the placeholders in guides. Operators' commands change builds, so their tests have their own stack."""

import pytest

from tests.stack import Stack


@pytest.fixture(scope="session")
def values(stack: Stack) -> dict[str, str]:
    """The values that a reader fills in."""
    return {"http://127.0.0.1:8000": stack.ready["url"], "sk_…": stack.ready["apiKey"]}
