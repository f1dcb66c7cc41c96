"""What every page's template knows."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from dashboard import mails
from dashboard.navigation import SECTIONS


def site(request: HttpRequest) -> dict[str, Any]:
    """Give pages the deployment's name, and those of an account their place in it (`dashboard/access.py`)."""
    return {
        "brand": settings.SERVICE_BRAND,
        "sends_email": mails.are_sent(),
        "sections": SECTIONS,
        "place": getattr(request, "place", None),
    }
