"""Buttons that copy a text."""

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import Visitor
from tests.stack import Stack

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def share(stack: Stack) -> str:
    """The share page of a job."""
    return str(stack.job(stack.submit())["links"]["share"])


def test_a_share_link_is_copied(visitor: Visitor, share: str) -> None:
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visitor.open(share)
    visitor.page.get_by_role("button", name="Copy link").click()
    expect(visitor.page.get_by_role("status")).to_have_text("Copied")
    assert visitor.page.evaluate("navigator.clipboard.readText()") == share
    expect(visitor.page.get_by_role("button", name="Copy link")).to_be_visible()


@pytest.mark.parametrize("path", ["/", "/docs/operations/jobs", "/docs/guides/tutorial"])
def test_the_code_beside_a_button_is_copied(visitor: Visitor, path: str) -> None:
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visitor.open(path)
    block = visitor.page.locator(".command").first
    block.get_by_role("button").click()
    expect(visitor.page.get_by_role("status")).to_have_text("Copied")
    code = visitor.page.evaluate("navigator.clipboard.readText()")
    assert code == block.locator("pre").text_content()
    assert code.splitlines()[0].startswith(("curl", "make run"))


def test_a_link_is_copied_without_https(visitor: Visitor, share: str) -> None:
    visitor.context.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    visitor.open(share)
    button = visitor.page.get_by_role("button", name="Copy link")
    button.press("Enter")
    expect(visitor.page.get_by_role("button", name="Copied")).to_be_focused()


def test_a_browser_without_scripts_shows_the_link(browser: Browser, share: str) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto(share)
    expect(page.get_by_role("button", name="Copy link")).to_be_hidden()
    expect(page.get_by_text(share, exact=True)).to_be_visible()


def test_a_button_gets_its_label_back(visitor: Visitor) -> None:
    visitor.open("/")
    button = visitor.page.get_by_role("button", name="Copy command")
    label = button.inner_html()
    button.click()
    visitor.page.get_by_role("button", name="Copied").click()
    expect(button).to_be_visible()
    assert button.inner_html() == label
