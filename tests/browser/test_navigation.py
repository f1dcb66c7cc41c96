"""The bar with the keyboard, its menu on narrow screens, and the chosen language of the documentation."""

import pytest
from playwright.sync_api import expect

from tests.browser.chromium import LARGE, SMALL, Visitor
from tests.stack import Stack

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(300)]
OVERVIEW = "/dashboard/demo/"


@pytest.fixture
def owner(visitor: Visitor, stack: Stack) -> Visitor:
    visitor.log_in(stack.ready["user"], stack.ready["password"])
    return visitor


@pytest.mark.parametrize("key", ["/", "Control+k", "Meta+k"])
@pytest.mark.parametrize("width", [SMALL, LARGE])
def test_a_key_opens_the_search(owner: Visitor, stack: Stack, key: str, width: int) -> None:
    job = stack.submit()
    owner.resize(width)
    owner.open(OVERVIEW)
    owner.page.keyboard.press(key)
    owner.page.keyboard.type(job)
    with owner.page.expect_navigation():
        owner.page.keyboard.press("Enter")
    assert owner.page.url.endswith(f"/jobs/{job}")


def test_a_slash_can_be_typed_into_a_field(owner: Visitor) -> None:
    owner.open(f"{OVERVIEW}jobs/new")
    profile = owner.page.locator("main [name=profile]")
    profile.focus()
    owner.page.keyboard.type("a/b")
    expect(profile).to_have_value("a/b")


def test_the_menu_opens_and_closes_with_the_keyboard(owner: Visitor) -> None:
    owner.resize(SMALL)
    owner.open(f"{OVERVIEW}credits")
    menu = owner.page.locator(".site-menu")
    menu.locator("> summary").focus()
    owner.page.keyboard.press("Enter")
    expect(menu.get_by_role("link", name="Audit log")).to_be_visible()
    owner.page.keyboard.press("Escape")
    expect(menu.get_by_role("link", name="Audit log")).to_be_hidden()
    expect(menu.locator("> summary")).to_be_focused()


@pytest.mark.parametrize("path", ["credits", "jobs", "jobs/new"])
def test_a_phone_shows_a_page_below_one_bar(owner: Visitor, path: str) -> None:
    owner.resize(SMALL)
    owner.open(OVERVIEW + path)
    assert owner.evaluate("document.querySelector('h1').getBoundingClientRect().top") < 100


def test_areas_keep_their_places_on_every_page(owner: Visitor) -> None:
    owner.resize(LARGE)
    places = set()
    for path in ("", "jobs", "history", "clients", "credits"):
        owner.open(OVERVIEW + path)
        places.add(str(owner.evaluate("[...document.querySelectorAll('.site-areas a')].map(a => a.offsetLeft)")))
    assert len(places) == 1


def test_the_documentation_remembers_the_language(visitor: Visitor) -> None:
    visitor.open("/docs/operations/jobs")
    visitor.page.locator("#getJob summary", has_text="Python").click()
    for path in ("/docs/operations/jobs", "/docs/operations/builds"):
        visitor.open(path)
        closed = visitor.page.locator('.docs-operation:not(:has([data-language="Python"][open]))')
        expect(closed).to_have_count(0)
