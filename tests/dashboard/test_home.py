"""The home page and the example result."""

import re
from copy import deepcopy
from pathlib import Path

import pytest
from django.conf import settings as deployed
from django.db import OperationalError
from django.test import Client as HttpClient
from pytest_django import DjangoAssertNumQueries, Settings

from billing.models import Plan
from clients import accounts
from dashboard.public import views
from dashboard.public.views import SUMMARY, best_upgrades
from simservice.web.static_files import joined
from tests.dashboard.browsing import browser_of, text_of
from tests.factories import make_member

pytestmark = pytest.mark.django_db
STATIC = re.compile(r'(?:href|src)="/static/([^"]+)"')
MAX_PAGE_BYTES = 150_000


def home(http: HttpClient | None = None) -> str:
    """Return the HTML of the home page, by default for a visitor."""
    return str((http or HttpClient()).get("/").content.decode())


def test_a_visitor_can_sign_up_and_sees_the_welcome_credits() -> None:
    assert '<a class="button primary" href="/accounts/signup/">Sign up</a>' in home()
    assert "New accounts get 115,200 free credits: about 60 min of simulation." in home()


def test_the_welcome_credits_are_priced_by_the_sign_up_plan(settings: Settings) -> None:
    Plan.objects.update_or_create(name=settings.SIGNUP_PLAN, defaults={"credits_per_second": 64})
    assert "115,200 free credits: about 30 min of simulation." in home()


def test_the_home_page_does_without_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise OperationalError

    monkeypatch.setattr(accounts, "welcome_seconds", fail)
    assert "New accounts get 115,200 free credits." in home()


def test_the_home_page_explains_how_a_player_gets_a_result() -> None:
    text = text_of(HttpClient().get("/"))
    for expected in ("How it works", "type /simc and copy the text", "You see the price before you start"):
        assert expected in text, expected


def test_the_home_page_shows_clear_upgrades_with_their_margins() -> None:
    best, *_ = best_upgrades()
    assert (best["name"], best["change"], best["width"]) == ("Both trinkets", "+2.53 % ± 0.08", "100.0%")


def test_the_home_page_shows_no_unclear_upgrades(monkeypatch: pytest.MonkeyPatch) -> None:
    summary = deepcopy(SUMMARY)
    for profileset in summary["mainActor"]["profilesets"]["results"][1:]:
        profileset["mean"] = summary["mainActor"]["mean"] + 1
    monkeypatch.setattr(views, "SUMMARY", summary)
    assert [upgrade["name"] for upgrade in best_upgrades()] == ["Both trinkets"]


def test_without_welcome_credits_the_home_page_promises_none(settings: Settings) -> None:
    settings.SIGNUP_CREDITS = 0
    assert "free credits" not in home()


def test_a_closed_sign_up_is_not_offered(settings: Settings) -> None:
    settings.ALLOW_SIGNUP = False
    page = home()
    assert "/accounts/signup/" not in page
    assert "free credits" not in page
    assert "/accounts/login/" in page


def test_a_user_is_led_to_the_dashboard() -> None:
    page = home(browser_of(make_member()))
    assert "Go to the dashboard" in page
    assert "Sign up" not in page


def test_the_home_page_names_the_brand_and_the_address_of_the_api(settings: Settings) -> None:
    settings.SERVICE_BRAND, settings.PUBLIC_BASE_URL = "Sims & <Co>", "https://sim.example.org"
    page = home()
    assert "Sims &amp; &lt;Co&gt; runs SimulationCraft for you." in page
    assert f'curl "https://sim.example.org/v1/{settings.API_RESOURCE}/jobs?channel=latest"' in page


@pytest.mark.parametrize(("path", "queries"), [("/", 1), ("/example", 0)])
def test_a_public_page_is_small_and_queries_at_most_the_price(
    path: str, queries: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(queries):
        page = HttpClient().get(path).content
    files = {Path(deployed.BASE_DIR, "static", name) for name in STATIC.findall(page.decode())}
    assert files
    assert len(page) + sum(len(joined(file)) for file in files) < MAX_PAGE_BYTES


def test_the_example_leads_from_the_home_page_to_a_whole_result() -> None:
    best = best_upgrades()
    assert best[0]["name"] == "Both trinkets"
    page = HttpClient().get("/example")
    assert 'href="/example"' in home()
    for expected in ("Talents: Thermal Void", "Rimebound Cowl", "31,300", "Frostbolt"):
        assert expected in text_of(page), expected
    for upgrade in best:
        assert upgrade["name"] in home()
        assert upgrade["change"] in text_of(page)
