"""From an addon's export to a comparison: a newcomer's results in a browser, and those who get the link."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import PATIENCE_MS, Visitor, visiting
from tests.browser.newcomers import sign_up
from tests.stack import Stack

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(600)]
# As the addon writes it, with candidates for one slot; precise enough to be watched.
EXPORT = """# Explorer - Frost - 2026-11-20 21:04 - EU/Somewhere
mage="Explorer"
level=80
race=gnome
spec=frost
head=hood,id=212072,ilevel=639
trinket1=,id=219314,ilevel=639
target_error=0.14
""" + "".join(
    f'profileset."Trinket: {600 + step}"+=trinket1=,id=219314,ilevel={600 + step}\n' for step in range(30)
)
LONGEST_MS = 8 * PATIENCE_MS


@pytest.fixture
def friend(browser: Browser, stack: Stack) -> Iterator[Visitor]:
    """A second visitor, who has only a link."""
    with visiting(browser, stack.ready["url"]) as someone:
        yield someone
    assert someone.complaints == []


def test_a_newcomer_compares_two_runs(visitor: Visitor, friend: Visitor, stack: Stack) -> None:
    sign_up(visitor, stack, email="explorer@example.com")
    submit(visitor)
    watch_ranking(visitor)
    first = finished(visitor)
    open_as_friend(friend, first)
    run_again(visitor, first)
    second = finished(visitor)
    assert second != first
    compare(visitor)
    compare_as_friend(friend, first, second)


def submit(visitor: Visitor) -> None:
    visitor.follow("Simulate")
    visitor.fill(profile=EXPORT)
    visitor.press("Submit job")
    expect(visitor.page.locator("h1")).to_have_text("Explorer")


def watch_ranking(visitor: Visitor) -> None:
    """Wait until the ranking of the running job has rows, and then more rows."""
    rows = visitor.page.locator(".live-ranking tbody tr:not(.reserved)")
    expect(rows).not_to_have_count(0, timeout=LONGEST_MS)
    expect(rows).not_to_have_count(rows.count(), timeout=LONGEST_MS)


def finished(visitor: Visitor) -> str:
    """Wait until the job of this page has a result; return the address of its share page."""
    page = visitor.page
    expect(page.locator("#live .status")).to_have_text("Completed", timeout=LONGEST_MS)
    expect(page.locator("#ranking tbody tr")).to_have_count(21)
    share = page.locator("a", has_text="Open share page").get_attribute("href")
    assert share
    return share


def open_as_friend(friend: Visitor, share: str) -> None:
    """Open a share page without an account: it has the whole result, and asks for a login to run it again."""
    assert friend.open(share) == 200
    expect(friend.page.locator("#ranking tbody tr")).to_have_count(21)
    friend.follow("Show all 30")
    expect(friend.page.locator("#ranking tbody tr")).to_have_count(31)
    for part in (
        "Damage breakdown of Explorer (profile without variants)",
        "Damage over time",
        "Buff uptimes",
        "Gear",
    ):
        expect(friend.page.get_by_role("heading", name=part, exact=True)).to_be_visible()
    friend.follow("Run this again")
    assert friend.heading() == "Log in"


def run_again(visitor: Visitor, share: str) -> None:
    """Run a share page's job again with better gear."""
    visitor.open(share)
    visitor.follow("Run this again")
    profile = visitor.page.locator("[name=profile]").input_value()
    assert profile.strip() == EXPORT.strip()
    visitor.fill(profile=profile.replace("hood,id=212072,ilevel=639", "hood,id=212072,ilevel=678"))
    visitor.press("Submit job")


def compare(visitor: Visitor) -> None:
    """Compare the job of this page with the other one: the page says what changed."""
    visitor.follow("Compare")
    visitor.page.get_by_role("checkbox").check()
    visitor.press("Compare")
    require_changes(visitor)


def compare_as_friend(friend: Visitor, first: str, second: str) -> None:
    """Compare two share pages without an account."""
    friend.open(second)
    friend.page.get_by_label("Share link or its last part").fill(first)
    friend.press("Compare")
    require_changes(friend)


def require_changes(visitor: Visitor) -> None:
    """Assert that a comparison shows both jobs, the changed item and the changed line."""
    main = visitor.page.locator("main")
    expect(main.locator(".headline .reading")).to_have_count(2)
    expect(main.locator("section:has(#gear) tbody tr")).to_have_count(1)
    expect(main.locator("section:has(#gear)")).to_contain_text("678")
    expect(main.locator("section:has(#profile)")).to_contain_text("head=hood,id=212072,ilevel=678")
