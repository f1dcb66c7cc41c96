"""A job's page in an open browser while the job waits, runs and ends."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import loading
from tests.browser.chromium import LARGE, PATIENCE_MS, SMALL, Visitor, visiting
from tests.browser.site_data import ACCOUNT
from tests.stack import LONG, Stack

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(300)]
# In pixels: of a row on phones, and of the page below its content
MAX_ROW_HEIGHT = 70
MAX_MARGIN = 200
# Records the page's content now and at every change.
NOTE = """
    window.seen = [];
    const text = (selector) => document.querySelector(selector)?.textContent ?? '';
    const note = () => window.seen.push(
        [text('.crumbs .status'), text('.timeline'), text('#live').includes('has not run yet')]
    );
    note();
    const all = {subtree: true, childList: true, characterData: true};
    new MutationObserver(note).observe(document.querySelector('#live'), all);
"""


@pytest.fixture
def owner(browser: Browser, stack: Stack) -> Iterator[Visitor]:
    """The owner of the demo account, logged in, with a small window."""
    with visiting(browser, stack.ready["url"]) as someone:
        someone.log_in(stack.ready["user"], stack.ready["password"])
        someone.resize(SMALL)
        yield someone
    assert someone.complaints == []


def polls(visitor: Visitor) -> int:
    """Return how often the page has refreshed itself."""
    return len([request for request in visitor.requests if "hx-request" in request.headers])


def wait_for_polls(visitor: Visitor, count: int) -> None:
    """Wait until the page has refreshed itself `count` more times."""
    for _ in range(count):
        with visitor.page.expect_response(lambda response: "hx-request" in response.request.headers) as polled:
            pass
        polled.value.finished()
    visitor.page.wait_for_timeout(100)


def contradictions(contents: list[Any]) -> list[Any]:
    """Return the recorded contents in which status, history and runs disagree."""
    return [
        (status, history, nothing_ran)
        for status, history, nothing_ran in contents
        if (status != "Waiting" and status != "Getting ready" and nothing_ran)
        or (status == "Running" and ("Simulation started" not in history or "Cancelled" in history))
        or (status == "Cancelled") != ("Cancelled" in history)
    ]


def test_an_open_page_updates_and_keeps_its_scroll_position(owner: Visitor, stack: Stack) -> None:
    page = owner.page
    before = stack.submit(LONG)
    job = stack.submit(LONG)
    owner.open(f"{ACCOUNT}/jobs/{job}/log")
    expect(page.locator("h1")).to_have_text("Long")
    expect(page.locator("#live")).to_contain_text("has not run yet")
    owner.evaluate(NOTE)
    stack.call("POST", f"jobs/{before}/cancel")
    expect(page.locator(".crumbs .status")).to_have_text("Running", timeout=4 * PATIENCE_MS)
    stack.pause_when_running(job)

    page.locator("#live details.menu summary").last.click()
    page.get_by_role("link", name="Open share page").focus()
    owner.evaluate("window.focused = document.activeElement; window.scrollTo(0, 300)")
    owner.evaluate("window.getSelection().selectAllChildren(document.querySelector('h1'))")
    wait_for_polls(owner, 2)
    scroll_position = owner.evaluate("window.scrollY")
    wait_for_polls(owner, 2)
    is_focused, is_open, scrolled, selected = owner.evaluate(
        "[document.activeElement === window.focused, document.querySelector('#live details.menu[open]') !== null,"
        " window.scrollY, String(window.getSelection())]"
    )
    assert (is_focused, is_open, selected.strip()) == (True, True, "Long")
    assert (scroll_position, scrolled) == (300, 300)

    stack.call("POST", f"jobs/{job}/cancel")
    expect(page.locator(".crumbs .status")).to_have_text("Cancelled", timeout=PATIENCE_MS)
    expect(page.locator("#live details.menu", has_text="Cancel job")).to_have_count(0)
    polls_before = polls(owner)
    page.wait_for_timeout(5000)
    assert polls(owner) == polls_before, "the page of an ended job does not poll"
    contents = owner.evaluate("window.seen")
    assert len({status for status, _, _ in contents}) >= 3
    assert contradictions(contents) == []


def test_a_failed_refresh_is_retried(owner: Visitor, stack: Stack) -> None:
    page = owner.page
    job = stack.submit(LONG)
    stack.pause_when_running(job)
    owner.open(f"{ACCOUNT}/jobs/{job}")
    owner.context.set_offline(True)
    expect(page.locator("#not-updated")).to_be_visible()
    assert page.locator("h1").inner_text() == "Long"
    owner.context.set_offline(False)
    owner.complaints.clear()
    stack.call("POST", f"jobs/{job}/cancel")
    expect(page.locator(".crumbs .status")).to_have_text("Cancelled", timeout=PATIENCE_MS)
    expect(page.locator("#not-updated")).to_have_count(0)


def test_the_live_overview_shows_that_its_refresh_failed(owner: Visitor) -> None:
    message = owner.page.locator("#not-updated")
    refresh = "htmx.ajax('GET', location.pathname, '#live')"
    owner.open("/admin/overview/")
    owner.page.route("**/admin/overview/", lambda route: route.fulfill(status=503))
    owner.evaluate(refresh)
    expect(message).to_have_text(re.compile(r"^Not updated since \d\d:\d\d:\d\d UTC\. Reload the page\.$"))
    owner.page.unroute("**/admin/overview/")
    owner.evaluate(refresh)
    expect(message).to_have_count(0)
    owner.complaints.clear()
    owner.context.clear_cookies()
    owner.evaluate(refresh)
    expect(message).to_be_visible()


# Enough work for the built-in simulator to be watched
COMPARED = 'mage="Compared"\nlevel=80\ntarget_error=0.1\n' + "".join(
    f"profileset.set_{number}+=trinket1=,id={number},ilevel={600 + number}\n" for number in range(1, 121)
)
NOTE_SHIFTS = """
    window.widths = new Set();
    window.announced = [];
    const milestone = document.querySelector('#milestone');
    new MutationObserver(() => window.announced.push(milestone.textContent))
        .observe(milestone, {subtree: true, childList: true, characterData: true});
    const note = () => {
        const heads = [...document.querySelectorAll('.live-ranking thead > tr > *')];
        if (heads.length) window.widths.add(heads.map((head) => head.offsetWidth).join(' '));
    };
    new MutationObserver(note).observe(document.querySelector('#live'), {subtree: true, childList: true});
"""


MEASURE = """
    (() => {
        const rows = [...document.querySelectorAll('.live-ranking tbody tr')].map((row) => row.offsetHeight);
        const root = document.documentElement, last = document.querySelector('#live').getBoundingClientRect();
        const below = root.scrollHeight - Math.max(last.bottom + window.scrollY, root.clientHeight);
        const body = document.querySelector('.live-ranking tbody');
        body.hidden = true;
        const after = document.querySelector('footer').getBoundingClientRect().top + window.scrollY;
        body.hidden = false;
        return [rows, below, after - window.innerHeight];
    })()
"""


def assert_rows_are_low(visitor: Visitor, *, height: int) -> None:
    """Assert that no row is higher, and that the page ends after its content.

    Its footer is below what the window shows first, even before there are rows.
    """
    heights, below, place = visitor.evaluate(MEASURE)
    assert 0 < max(heights) <= height
    assert below < MAX_MARGIN
    assert place >= 0
    assert not visitor.is_too_wide()


def test_a_ranking_grows_without_disturbing_its_reader(owner: Visitor, stack: Stack) -> None:
    page = owner.page
    job = stack.submit(COMPARED)
    owner.open(f"{ACCOUNT}/jobs/{job}")
    owner.evaluate(NOTE_SHIFTS)
    rows = page.locator(".live-ranking tbody tr")
    expect(rows).not_to_have_count(0, timeout=4 * PATIENCE_MS)
    assert_rows_are_low(owner, height=MAX_ROW_HEIGHT)
    shift = loading.figures(owner).shift
    finished = page.locator(".live-figures div:nth-child(2) strong")
    expect(finished).not_to_have_text(re.compile("^[0-9]$"), timeout=4 * PATIENCE_MS)

    before = int(finished.inner_text())
    owner.evaluate("window.getSelection().selectAllChildren(document.querySelector('.live-ranking tbody bdi'))")
    selected = owner.evaluate("String(window.getSelection())")
    wait_for_polls(owner, 3)
    assert int(finished.inner_text()) > before
    assert owner.evaluate("String(window.getSelection())") == selected != ""

    owner.evaluate("window.getSelection().removeAllRanges()")
    ranked = rows.all_inner_texts()
    wait_for_polls(owner, 3)
    assert rows.all_inner_texts() != ranked
    assert_rows_are_low(owner, height=MAX_ROW_HEIGHT)
    assert loading.figures(owner).shift - shift < loading.LARGEST_SHIFT
    assert len(owner.evaluate("[...window.widths]")) == 1
    assert len(owner.evaluate("window.announced")) <= 5
    for width in (768, LARGE):
        owner.resize(width)
        assert_rows_are_low(owner, height=MAX_ROW_HEIGHT)
    stack.call("POST", f"jobs/{job}/cancel")
    expect(page.locator("#milestone")).to_have_text("Cancelled")
