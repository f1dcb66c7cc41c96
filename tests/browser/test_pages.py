"""Every page, light and dark, wide and narrow: accessible, within its width, free of errors, usable by keyboard."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser import other_views
from tests.browser.chromium import Visitor, visiting
from tests.browser.page_faults import faults
from tests.browser.site_data import SiteData, prepare
from tests.stack import Stack
from tests.webhooks.receivers import Receiver

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(600)]
MAX_STOPS = 200


@pytest.fixture(scope="module")
def owner(browser: Browser, stack: Stack) -> Iterator[Visitor]:
    """The owner of the demo account, logged in."""
    with visiting(browser, stack.ready["url"]) as someone:
        someone.log_in(stack.ready["user"], stack.ready["password"])
        someone.forget_files()
        yield someone


@pytest.fixture(scope="module")
def site_data(owner: Visitor, stack: Stack, receiver: Receiver) -> Iterator[SiteData]:
    prepared = prepare(stack, owner, receiver)
    yield prepared
    for name in ("waiting", "running"):
        stack.call("POST", f"jobs/{prepared.jobs[name]}/cancel")


def test_every_page_of_an_owner_is_accessible_and_error_free(
    owner: Visitor, site_data: SiteData, checks: None
) -> None:
    assert [fault for view in site_data.views() for fault in faults(owner, view)] == []


def test_pages_of_a_viewer_and_of_visitors_are_accessible_and_error_free(
    browser: Browser, visitor: Visitor, site_data: SiteData, stack: Stack, checks: None
) -> None:
    other_views.make_viewer(stack)
    visitor.log_in(other_views.VIEWER, other_views.PASSWORD)
    assert [fault for view in other_views.of_a_viewer(site_data) for fault in faults(visitor, view)] == []
    with visiting(browser, visitor.site) as stranger:
        assert [fault for view in other_views.of_visitors(stack) for fault in faults(stranger, view)] == []


def test_error_pages_are_accessible_and_error_free(
    browser: Browser, stack: Stack, tmp_path: Path, checks: None
) -> None:
    with (
        other_views.failing_site(stack, tmp_path / "web.log") as (site, views),
        visiting(browser, site) as stranger,
    ):
        shown = {}
        for view in views:
            assert faults(stranger, view) == []
            assert stranger.page.locator(".site-maintenance").is_visible()
            shown[view.name] = stranger.heading()
    assert list(shown.values())[1:] == ["Internal error", "Temporarily unavailable", "Too many requests"]


KEYBOARD_PAGES = ("overview", "job-new", "job-stages", "webhook-guild-bot", "people", "share-stages")


def test_everything_can_be_reached_with_the_keyboard(owner: Visitor, site_data: SiteData) -> None:
    for view in site_data.views():
        if view.name in KEYBOARD_PAGES:
            view.reach(owner)
            expected = owner.evaluate(FOCUSABLE)
            reached, unseen = walk(owner)
            assert sorted(set(expected) - set(reached)) == [], view.name
            assert unseen == [], view.name
            assert reached == sorted(reached), f"{view.name}: focus does not follow the order of the page"


def walk(visitor: Visitor) -> tuple[list[int], list[str]]:
    """Press Tab through a page; return the positions of focused elements, and those without a visible focus."""
    reached: list[int] = []
    invisible = []
    for _ in range(MAX_STOPS):
        visitor.page.keyboard.press("Tab")
        position, is_visible, name = visitor.evaluate(FOCUSED)
        if position < 0:
            break
        if position not in reached:
            reached.append(position)
            invisible += [] if is_visible else [name]
    return reached, invisible


# The positions of all interactive elements in document order.
FOCUSABLE = """
    window.everything = [...document.querySelectorAll('*')];
    everything.filter(one => one.matches(
        'a[href], button, input:not([type=hidden]), select, textarea, summary, iframe, [tabindex="0"]'
    ) && one.checkVisibility({visibilityProperty: true})).map(one => everything.indexOf(one))
"""
FOCUSED = """
    (() => {
        const one = document.activeElement, style = getComputedStyle(one), box = one.getBoundingClientRect();
        const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
        const place = one === document.body ? -1 : everything.indexOf(one);
        return [place, outlined && box.width > 0 && box.right > 0, one.outerHTML.slice(0, 200)];
    })()
"""
