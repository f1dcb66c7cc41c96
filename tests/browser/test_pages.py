"""Every page, light and dark, wide and narrow: accessible, within its width, free of errors, usable by keyboard."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import Visitor, visiting
from tests.browser.page_faults import faults
from tests.browser.site_data import ACCOUNT, LOGIN_PAGES, OWN, PAGES, SiteData, View, at, prepare
from tests.dashboard.signing_in import code_of
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


def test_public_pages_are_accessible_and_error_free(visitor: Visitor, checks: None) -> None:
    views = [at(name, path) for name, path in LOGIN_PAGES.items()]
    assert [fault for view in views for fault in faults(visitor, view)] == []


VIEWER = """
from django.contrib.auth.models import User
from clients.models import Membership
from billing.models import Account
user = User.objects.create_user("onlooker", password="a pair of eyes")
Membership.objects.create(user=user, account=Account.objects.get(name="demo"), role="viewer")
"""


def test_pages_of_a_viewer_with_a_second_factor_are_accessible_and_error_free(
    visitor: Visitor, site_data: SiteData, stack: Stack, checks: None
) -> None:
    stack.manage("shell", "-c", VIEWER)
    visitor.log_in("onlooker", "a pair of eyes")
    shared = {name: PAGES[name] for name in FOR_VIEWERS} | {"job": f"/jobs/{site_data.jobs['stages']}"}
    views = [at(name, f"{ACCOUNT}{path}") for name, path in shared.items()]
    views += [at("client", site_data.clients["guild-bot"])]
    views += [View("second-factor-on", turn_on_second_factor), *(at(name, path) for name, path in CODES.items())]
    views += [View("second-factor", log_in_again)]
    assert [fault for view in views for fault in faults(visitor, view)] == []


# Pages that offer an owner more
FOR_VIEWERS = ("overview", "jobs", "history", "clients", "credits", "people")
CODES = {
    "second-factor": OWN["second-factor"],
    "recovery-codes": "/accounts/2fa/recovery-codes/",
    "recovery-codes-new": "/accounts/2fa/recovery-codes/generate/",
    "second-factor-off": "/accounts/2fa/totp/deactivate/",
}


def turn_on_second_factor(visitor: Visitor) -> None:
    visitor.open("/accounts/2fa/totp/activate/")
    visitor.fill(password="a pair of eyes")
    visitor.press("Confirm")
    secret = visitor.page.locator("main li code").inner_text()
    visitor.fill(code=code_of(secret))
    visitor.press("Turn on")
    assert visitor.heading() == "Recovery codes"


def log_in_again(visitor: Visitor) -> None:
    visitor.open("/accounts/logout/")
    visitor.press("Log out")
    visitor.log_in("onlooker", "a pair of eyes")
    assert visitor.heading() == "Two-factor authentication"


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
