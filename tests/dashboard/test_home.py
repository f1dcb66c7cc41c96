"""The home page and the example result."""

import re
from pathlib import Path

import pytest
from django.conf import settings as deployed
from django.test import Client as HttpClient
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.public.views import best_upgrades
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
    assert "New accounts get 115,200 free credits." in home()


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


@pytest.mark.parametrize("path", ["/", "/example"])
def test_a_public_page_is_small_and_queries_nothing(
    path: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        page = HttpClient().get(path).content
    files = {Path(deployed.BASE_DIR, "static", name) for name in STATIC.findall(page.decode())}
    assert files
    assert len(page) + sum(len(joined(file)) for file in files) < MAX_PAGE_BYTES


def test_the_example_leads_from_the_home_page_to_a_whole_result() -> None:
    best = best_upgrades()
    assert best[0]["name"] == "Both trinkets"
    page = HttpClient().get("/example")
    assert 'href="/example"' in home()
    for expected in ("Talents: Thermal Void", "Rimebound cowl", "31,300", "Frostbolt"):
        assert expected in text_of(page), expected
    for upgrade in best:
        assert upgrade["name"] in home()
        assert f"+{upgrade['change']:.2f}" in text_of(page)
