"""A new user's steps from sign-up to a shared job, in a browser."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress

import pytest
from playwright.sync_api import Browser, Error, expect

from tests.browser.chromium import PATIENCE_MS, Visitor, visiting
from tests.browser.newcomers import sign_up
from tests.stack import Stack
from tests.webhooks.receivers import Receiver

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(300)]
# A few seconds of work.
PROFILE = 'mage="Walker"\nlevel=80\niterations=12000\n' + "".join(
    f'profileset."Trinket {number}"+=intellect={8000 + number * 90}\n' for number in range(12)
)
KEY, SECRET = re.compile(r"sk_\w{46}"), re.compile(r"whsec_[\w-]{43}")


@pytest.fixture
def friend(browser: Browser, stack: Stack) -> Iterator[Visitor]:
    """A second visitor, who has only a link."""
    with visiting(browser, stack.ready["url"]) as someone:
        yield someone
    assert someone.complaints == []


def test_a_new_user_gets_from_sign_up_to_a_shared_job(
    visitor: Visitor, friend: Visitor, stack: Stack, receiver: Receiver
) -> None:
    earlier = len(receiver.received)
    sign_up(visitor, stack, email="walker@example.com")
    make_client_and_key(visitor)
    enable_webhook(visitor, receiver)
    job = submit_and_watch(visitor)
    check_delivery(visitor, receiver, job=job, earlier=earlier)
    visitor.open(job)
    share = visitor.page.locator("a", has_text="Open share page").get_attribute("href")
    assert share
    assert friend.open(share) == 200
    expect(friend.page.locator("h1")).to_have_text("Walker")
    expect(friend.page.locator(".ranking tbody tr")).to_have_count(13)
    assert friend.context.cookies() == []
    friend.open(job)
    assert friend.heading() == "Log in"


def make_client_and_key(visitor: Visitor) -> None:
    visitor.follow("Developers")
    visitor.fill(name="walker-bot")
    visitor.press("Create client")
    visitor.fill(name="laptop")
    visitor.press("Create key")
    require_shown_once(visitor, KEY)
    expect(visitor.page.locator("table tbody tr")).to_have_count(1)


def require_shown_once(visitor: Visitor, form: re.Pattern[str]) -> str:
    """Return the secret on this page; assert that reload, back and forward do not show it again."""
    page = visitor.page
    shown_at, secret = page.url, page.locator("#secret").inner_text()
    assert form.fullmatch(secret)
    page.reload()
    assert "already" in visitor.heading()
    assert secret not in page.content()
    for move in (page.go_back, page.go_forward):
        # The browser has no copy of a form's response; it asks to submit the form again.
        with suppress(Error):
            move()
        expect(page.locator("body")).not_to_contain_text(secret)
    visitor.open(shown_at)
    assert secret not in page.content() + str(visitor.context.storage_state())
    return secret


def enable_webhook(visitor: Visitor, receiver: Receiver) -> None:
    """Enable a webhook; assert that a rejected address has a reason and each secret is shown once."""
    visitor.follow("Set up webhook")
    visitor.fill(url="https://127.0.0.1/hook")
    visitor.press("Enable webhook")
    expect(visitor.page.locator(".error")).to_contain_text("127.0.0.1 is not a public address")
    visitor.fill(url=receiver.url())
    visitor.press("Enable webhook")
    first = require_shown_once(visitor, SECRET)
    visitor.follow("Rotate secret")
    visitor.page.get_by_label("Overlap").select_option("1 hour")
    visitor.press("Rotate secret")
    assert require_shown_once(visitor, SECRET) != first
    visitor.follow("Webhook")
    expect(visitor.page.locator(".facts")).to_contain_text("Deliveries are also signed with the old secret until")


def submit_and_watch(visitor: Visitor) -> str:
    """Submit a job and watch its page update until the job has ended; return its address."""
    page = visitor.page
    visitor.follow("Simulate")
    visitor.fill(profile=PROFILE)
    page.get_by_text("Developer options").click()
    page.get_by_label("Client", exact=True).select_option("walker-bot")
    page.get_by_label("HTML report").check()
    page.get_by_label("Notify the client's webhook").check()
    visitor.press("Submit job")
    visitor.evaluate("document.documentElement.dataset.same = 'yes'")
    expect(page.locator("#live .percent")).not_to_have_text("0 %")
    assert page.locator("html[data-same]").count() == 1, "only a part of the page is updated"
    expect(page.locator("h1")).to_have_text("Walker")
    expect(page.locator("#live .status")).to_have_text("Completed", timeout=4 * PATIENCE_MS)
    expect(page.locator(".ranking tbody tr")).to_have_count(13)
    polls = [request for request in visitor.requests if "hx-request" in request.headers]
    assert len(polls) >= 2
    assert page.locator("[hx-get]").count() == 0, "the page of an ended job does not poll"
    address = page.url
    visitor.follow("Run log")
    expect(page.locator(".timeline")).to_contain_text("Completed")
    return address


def check_delivery(visitor: Visitor, receiver: Receiver, *, job: str, earlier: int) -> None:
    """Assert that the receiver got the job's event and a test event, and that pages list their attempts.

    `before` is the number of requests from other tests.
    """
    visitor.follow("walker-bot")
    visitor.follow("View webhook and events")
    visitor.press("Send test event")
    assert visitor.heading() == "Test event"
    visitor.eventually("200 after")
    expect(visitor.page.locator(".excerpt")).to_have_text('{"thanks": true}')
    visitor.follow("Webhook")
    expect(visitor.page.locator(".events tbody tr")).to_have_count(2)
    visitor.follow("Walker")
    received = receiver.received[earlier:]
    bodies = [json.loads(delivery.body)["payload"]["id"] for delivery in received]
    assert sorted(bodies) == ["0" * 18, job.rpartition("/")[2]]
    assert all(delivery.headers["X-Service-Signature"].count("v1=") == 2 for delivery in received)
