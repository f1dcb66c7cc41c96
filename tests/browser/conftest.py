"""Fixtures of browser tests: one stack, its data, and visitors."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests import npm
from tests.browser import axe, chromium
from tests.browser.chromium import Visitor, running, visiting
from tests.stack import Stack, running_stack


@pytest.fixture(scope="session")
def program() -> str:
    """The browser; without one, tests are skipped."""
    path = chromium.find()
    if path is None:
        pytest.skip(f"There is no Chromium. {chromium.INSTALL_HINT}")
    return path


@pytest.fixture(scope="session")
def stack(
    program: str, webhook_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """A stack with one slot that can send webhooks to the receiver."""
    with running_stack(tmp_path_factory.mktemp("stack"), SIM_SLOTS="1", **webhook_settings) as started:
        yield started


# Per module, because Django runs no queries in this thread while a browser is open.
@pytest.fixture(scope="module")
def browser(program: str) -> Iterator[Browser]:
    with running(program) as opened:
        yield opened


@pytest.fixture
def visitor(browser: Browser, stack: Stack) -> Iterator[Visitor]:
    """A visitor who is not logged in; pages must not cause errors."""
    with visiting(browser, stack.ready["url"]) as someone:
        yield someone
    assert someone.complaints == []


@pytest.fixture(scope="session")
def checks() -> None:
    """Skip the test without axe-core."""
    try:
        axe.source()
    except npm.Missing as missing:
        pytest.skip(str(missing))
