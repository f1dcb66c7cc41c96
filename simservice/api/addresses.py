"""Addresses of requests: the one under which callers reach the service, and the one they come from."""

from ipaddress import ip_address

from django.conf import settings
from django.http import HttpRequest
from rest_framework.request import Request


def base_url(request: HttpRequest | Request) -> str:
    """Return `PUBLIC_BASE_URL`, or the host that a request came to; without a final slash."""
    return settings.PUBLIC_BASE_URL or request.build_absolute_uri("/").rstrip("/")


def client_address(request: HttpRequest | Request) -> str | None:
    """Return the IP address that a request came from, None when it is not known.

    Behind proxies it is the address that the outermost of the `TRUSTED_PROXIES` saw. Each proxy appends one to
    `X-Forwarded-For`, so addresses that the caller wrote into the header come earlier and are ignored.
    """
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "") if settings.TRUSTED_PROXIES else ""
    told = forwarded.split(",")[-settings.TRUSTED_PROXIES :][0].strip() or request.META.get("REMOTE_ADDR", "")
    try:
        # PostgreSQL accepts no zone.
        return str(ip_address(without_port(told).partition("%")[0]))
    except ValueError:
        return None


def without_port(told: str) -> str:
    """Return an address without the port that some proxies write behind it."""
    if told.startswith("["):
        return told[1:].partition("]")[0]
    return told.partition(":")[0] if told.count(":") == 1 else told
