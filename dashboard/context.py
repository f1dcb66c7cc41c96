"""Template variables of every page."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from dashboard.navigation import SECTIONS
from simservice.web import mail


def site(request: HttpRequest) -> dict[str, Any]:
    """Return the deployment's name, the navigation, and `access` on an account's pages (`dashboard/access.py`)."""
    return {
        "brand": settings.SERVICE_BRAND,
        "sends_email": mail.is_enabled(),
        "sections": SECTIONS,
        "access": getattr(request, "access", None),
    }
