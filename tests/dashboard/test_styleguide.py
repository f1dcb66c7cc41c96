import re

import pytest
from django.contrib.auth.models import User
from django.test import Client as HttpClient
from pytest_django import Settings

from dashboard.public.styleguide import COLOURS, TOKENS
from tests.factories import make_account, make_member
from tests.stylesheets import FOLDER, rules_of, styled

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff(settings: Settings) -> HttpClient:
    settings.ADMIN_REQUIRES_MFA = False
    http = HttpClient()
    http.force_login(User.objects.create_superuser("operator"))
    return http


def test_every_token_and_component_is_shown(staff: HttpClient) -> None:
    page = staff.get("/styleguide").content.decode()
    shown = set(" ".join(re.findall(r'class="([^"]*)"', page)).split())
    components = {
        one.name
        for path in (FOLDER / "components").glob("*.css")
        for selectors, _ in rules_of(path.read_text())
        for selector in selectors
        for one in styled(path.name, selector)
    }
    # Only whole pages are narrow, and classes differ only in their colours.
    assert {name for name in components - shown if not name.startswith("class-")} == {"narrow"}
    fonts_and_shadows = {"sans", "mono", "shadow", "shadow-menu"}
    assert {name for name in TOKENS if f"<code>{name}</code>" not in page} == fonts_and_shadows
    assert len(COLOURS) > 40
    assert page.count("styles-half styles-") == 2


def test_the_page_does_not_exist_for_others(settings: Settings) -> None:
    settings.ADMIN_REQUIRES_MFA = False
    http = HttpClient()
    assert http.get("/styleguide").status_code == 404
    http.force_login(make_member(make_account()).user)
    assert http.get("/styleguide").status_code == 404


def test_staff_without_a_second_factor_do_not_see_it(staff: HttpClient, settings: Settings) -> None:
    assert staff.get("/styleguide").status_code == 200
    settings.ADMIN_REQUIRES_MFA = True
    assert staff.get("/styleguide").status_code == 404
