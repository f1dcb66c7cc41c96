"""Browsers of operators."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client as Browser

Staff = Callable[..., Browser]


@pytest.fixture
def staff() -> Staff:
    """Return a function that returns the browser of a member of staff with some permissions."""

    def make(*codenames: str) -> Browser:
        user = User.objects.create_user(f"staff-{User.objects.count()}", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        browser = Browser()
        browser.force_login(user)
        return browser

    return make
