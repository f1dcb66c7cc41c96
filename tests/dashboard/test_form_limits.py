"""The forms that a logged-in user can submit in a minute are limited on every page."""

import pytest
from django.test import Client as HttpClient
from pytest_django import Settings

from tests.conftest import Api
from tests.factories import make_member

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "page",
    [
        "/dashboard/{}/clients",
        "/accounts/profile/",
        "/accounts/data/",
        "/accounts/delete/",
        "/dashboard/",
        "/admin/",
    ],
)
def test_forms_are_limited_for_each_user(page: str, settings: Settings) -> None:
    settings.FORMS_PER_MINUTE = 2
    owner, other = make_member(), make_member()
    http = HttpClient()
    http.force_login(owner.user)
    statuses = [http.post(page.format(owner.account.name)).status_code for _ in range(3)]
    assert 429 not in statuses[:2]
    assert statuses[2] == 429
    assert http.get(f"/dashboard/{owner.account.name}/clients").status_code == 200
    http.force_login(other.user)
    assert http.post(page.format(other.account.name)).status_code != 429


def test_requests_with_a_key_are_not_forms(api: Api, settings: Settings) -> None:
    settings.FORMS_PER_MINUTE = 1
    assert [api.post("jobs/1/cancel").status_code for _ in range(3)] == [404] * 3
