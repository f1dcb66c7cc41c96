"""The address under which callers reach the service."""

from django.conf import settings
from django.http import HttpRequest
from rest_framework.request import Request


def base_url(request: HttpRequest | Request) -> str:
    """Return `PUBLIC_BASE_URL`, or the host that a request came to; without a final slash."""
    return settings.PUBLIC_BASE_URL or request.build_absolute_uri("/").rstrip("/")
