"""One stack for all tests in the browser, what there is to see in it, and visitors."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser import chromium
from tests.browser.chromium import Visitor, running, visiting
from tests.stack import Stack, running_stack
from tests.webhooks.receivers import Receiver, make_authority, receiving


@pytest.fixture(scope="session")
def program() -> str:
    """The browser. Without one, these tests are skipped."""
    path = chromium.find()
    if path is None:
        pytest.skip(f"There is no Chromium. {chromium.HOW}")
    return path


@pytest.fixture(scope="session")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with receiving(make_authority(tmp_path_factory.mktemp("authority"))) as running_receiver:
        yield running_receiver


@pytest.fixture(scope="session")
def stack(program: str, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose webhooks may go to the receiver."""
    chosen = {
        "SIM_SLOTS": "1",
        "WEBHOOK_ALLOWED_ADDRESSES": receiver.address,
        "WEBHOOK_CA_FILE": str(receiver.ca_file),
    }
    with running_stack(tmp_path_factory.mktemp("stack"), **chosen) as started:
        yield started


# Of the module, not of the session: while it is open, its thread takes no queries of Django's.
@pytest.fixture(scope="module")
def browser(program: str) -> Iterator[Browser]:
    with running(program) as opened:
        yield opened


@pytest.fixture
def visitor(browser: Browser, stack: Stack) -> Iterator[Visitor]:
    """A stranger, who must have nothing to complain of in the end."""
    with visiting(browser, stack.ready["url"]) as someone:
        yield someone
    assert someone.complaints == []
