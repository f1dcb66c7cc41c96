"""The bar, the lists of sections, the footer, and which pages search engines may list."""

import re

import pytest
from django.contrib.sessions.models import Session
from django.test import Client as HttpClient
from pytest_django import Settings

from clients.models import Membership
from dashboard.context import AREAS
from tests.dashboard.browsing import browser_of
from tests.dashboard.summaries import make_completed_job
from tests.factories import make_client, make_member

pytestmark = pytest.mark.django_db
LIST = re.compile(r'<nav class="site-side" aria-label="([^"]+)">(.*?)</nav>', re.DOTALL)
OWN_PAGES = {
    "/accounts/profile/": "Login and security",
    "/accounts/email/": "Login and security",
    "/accounts/password/set/": "Login and security",
    "/accounts/2fa/": "Login and security",
    "/accounts/sessions/": "Login and security",
    "/accounts/data/": "Your data",
    "/accounts/delete/": "Login and security",
}


def page(http: HttpClient, path: str) -> str:
    response = http.get(path, follow=True)
    assert response.status_code == 200, path
    return str(response.content.decode())


def bar(text: str) -> str:
    return text.partition("<header")[2].partition("</header>")[0]


def area(text: str) -> list[str]:
    """Return the area of the bar that is marked as the current one."""
    areas = bar(text).partition('<nav class="site-areas"')[2].partition("</nav>")[0]
    return re.findall(r'aria-current="true">([^<]+)</a>', areas)


def listed(text: str) -> tuple[str, list[str], list[str]]:
    """Return the name of the list beside the page, its entries, and its current ones."""
    ((name, entries),) = LIST.findall(text)
    return name, re.findall(r">([^<]+)</a>", entries), re.findall(r'aria-current="page">([^<]+)</a>', entries)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", []),
        ("jobs", ["Results"]),
        ("jobs/new", ["Simulate"]),
        ("history", ["Characters"]),
        ("compare", ["Results"]),
        ("clients", ["Developers"]),
        ("clients/{client}", ["Developers"]),
        ("clients/{client}/webhook", ["Developers"]),
        ("credits", ["Settings"]),
        ("usage", ["Settings"]),
        ("people", ["Settings"]),
        ("audit", ["Settings"]),
        ("data", ["Settings"]),
    ],
)
def test_every_page_of_an_account_marks_its_area(owner: Membership, path: str, expected: list[str]) -> None:
    path = path.format(client=make_client(owner.account).pk)
    assert area(page(browser_of(owner), f"/dashboard/{owner.account}/{path}")) == expected


def test_the_page_of_a_job_belongs_to_the_results(owner: Membership) -> None:
    job = make_completed_job(account=owner.account)
    assert area(page(browser_of(owner), f"/dashboard/{owner.account}/jobs/{job.pk}")) == ["Results"]


@pytest.mark.parametrize(("path", "section"), OWN_PAGES.items())
def test_pages_of_the_user_keep_the_bar_and_the_list(owner: Membership, path: str, section: str) -> None:
    text = page(browser_of(owner), path)
    assert area(text) == ["Settings"]
    assert f'href="/dashboard/{owner.account}/jobs"' in bar(text)
    name, _, current = listed(text)
    assert (name, current) == ("Settings", [section])


def test_confirming_ones_identity_keeps_the_bar_and_the_list(owner: Membership) -> None:
    owner.user.set_password("long enough, and rare")
    owner.user.save()
    text = page(browser_of(owner), "/accounts/reauthenticate/")
    assert area(text) == ["Settings"]


@pytest.mark.parametrize(
    ("role", "hidden"),
    [("viewer", {"Simulate", "Audit log", "Data"}), ("member", {"Audit log", "Data"}), ("owner", set())],
)
def test_links_need_the_role_of_their_page(role: str, hidden: set[str]) -> None:
    member = make_member(role=role)
    text = page(browser_of(member), f"/dashboard/{member.account}/credits")
    labels = {section.label for one in AREAS for section in one.sections}
    assert {label for label in labels if f">{label}</a>" not in text} == hidden


def test_users_without_an_account_have_their_own_pages(owner: Membership) -> None:
    http = browser_of(owner)
    owner.delete()
    _, entries, _ = listed(page(http, "/accounts/profile/"))
    assert entries == list(dict.fromkeys(OWN_PAGES.values()))


def test_pages_of_the_user_keep_the_account_that_was_opened_last(owner: Membership) -> None:
    other = Membership.objects.create(user=owner.user, account=make_member().account, role="member")
    http = browser_of(owner)
    for one in (owner, other):
        page(http, f"/dashboard/{one.account}/")
        assert f'action="/dashboard/{one.account}/search"' in bar(page(http, "/accounts/profile/"))
        assert http.get("/dashboard/").headers["Location"] == f"/dashboard/{one.account}/"


def test_an_account_that_was_left_is_no_longer_in_the_bar(owner: Membership) -> None:
    other = Membership.objects.create(user=owner.user, account=make_member().account, role="member")
    http = browser_of(owner)
    page(http, f"/dashboard/{other.account}/")
    other.delete()
    assert str(other.account) not in page(http, "/accounts/profile/")


def test_visitors_can_log_in_and_sign_up(settings: Settings) -> None:
    assert {"/accounts/login/", "/accounts/signup/"} < set(
        re.findall('href="([^"]+)"', bar(page(HttpClient(), "/")))
    )
    settings.ALLOW_SIGNUP = False
    assert "/accounts/signup/" not in bar(page(HttpClient(), "/"))


def test_a_share_page_shows_nothing_about_its_reader(owner: Membership) -> None:
    text = page(browser_of(owner), f"/share/{make_completed_job().share_token}")
    assert str(owner.account) not in text
    assert owner.user.email not in text


@pytest.mark.parametrize(
    "path", ["/", "/example", "/docs", "/docs/errors", "/docs/guides", "/docs/guides/tutorial"]
)
def test_search_engines_may_list_public_pages(path: str) -> None:
    assert 'name="robots"' not in page(HttpClient(), path)


def test_search_engines_may_not_list_other_pages(owner: Membership) -> None:
    shared = f"/share/{make_completed_job().share_token}"
    for path in (shared, "/accounts/login/", f"/dashboard/{owner.account}/", "/accounts/profile/"):
        assert '<meta name="robots" content="noindex">' in page(browser_of(owner), path)


def test_an_operator_can_add_links_to_the_footer(settings: Settings) -> None:
    settings.FOOTER_LINKS = [("Terms & more", 'https://sim.example/terms?a="b"')]
    footer = page(HttpClient(), "/").partition("<footer")[2]
    assert '<a href="https://sim.example/terms?a=&quot;b&quot;">Terms &amp; more</a>' in footer


def test_every_page_announces_maintenance(owner: Membership, settings: Settings) -> None:
    paths = ("/", "/docs", "/accounts/profile/", f"/dashboard/{owner.account}/")
    http = browser_of(owner)
    assert [path for path in paths if "Maintenance in progress" in page(http, path)] == []
    settings.MAINTENANCE_SECONDS = 60
    assert [path for path in paths if "Maintenance in progress" not in page(http, path)] == []


def test_a_user_with_one_account_changes_no_session(owner: Membership) -> None:
    http = browser_of(owner)
    before = Session.objects.get().session_data
    page(http, f"/dashboard/{owner.account}/")
    assert Session.objects.get().session_data == before
