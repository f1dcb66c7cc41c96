"""What every page's template knows."""

from django.conf import settings
from django.http import HttpRequest


def brand(request: HttpRequest) -> dict[str, str]:  # noqa: ARG001
    """Give pages the deployment's name."""
    return {"brand": settings.SERVICE_BRAND}
