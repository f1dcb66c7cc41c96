"""The forms that a user can submit in a minute are limited on every page of an account."""

import pytest
from django.test import Client as HttpClient
from pytest_django import Settings

from tests.factories import make_member

pytestmark = pytest.mark.django_db


def test_forms_are_limited_for_each_user(settings: Settings) -> None:
    settings.FORMS_PER_MINUTE = 2
    owner, other = make_member(), make_member()
    http = HttpClient()
    http.force_login(owner.user)
    address = f"/dashboard/{owner.account.name}/clients"
    statuses = [http.post(address, {"name": f"bot-{number}"}).status_code for number in range(3)]
    assert statuses == [302, 302, 429]
    http.force_login(other.user)
    assert http.post(f"/dashboard/{other.account.name}/clients", {"name": "bot"}).status_code == 302
