"""Base URL of the service and IP addresses of clients."""

from ipaddress import IPv4Address, ip_address, ip_network
from typing import TYPE_CHECKING

from django.conf import settings
from django.http import HttpRequest

if TYPE_CHECKING:
    from rest_framework.request import Request  # workers do not load the API framework


# Addresses for community scripts (`jobs/api/compatible.py`)
COMPATIBLE_PREFIXES = ("/api/job/", "/reports/", "/simbot/")


def is_compatible_path(path: str) -> bool:
    """Return whether a path is an address for community scripts and the deployment has these."""
    return settings.COMPATIBLE_ADDRESSES and (path == "/sim" or path.startswith(COMPATIBLE_PREFIXES))


def base_url(request: "HttpRequest | Request") -> str:
    """Return `PUBLIC_BASE_URL` or the host of the request, without a trailing slash."""
    return settings.PUBLIC_BASE_URL or request.build_absolute_uri("/").rstrip("/")


def api_url(request: "HttpRequest | Request") -> str:
    """Return the URL that the paths of the API follow, without a trailing slash."""
    return f"{base_url(request)}/v1/{settings.API_RESOURCE}"


def client_address(request: "HttpRequest | Request") -> str | None:
    """Return the IP address of the client, None if unknown.

    Behind proxies, it is the address that the outermost of the `TRUSTED_PROXIES` received the request from. Each
    proxy appends an address to `X-Forwarded-For`; earlier addresses come from the client and are ignored.
    """
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "") if settings.TRUSTED_PROXIES else ""
    address = forwarded.split(",")[-settings.TRUSTED_PROXIES :][0].strip() or request.META.get("REMOTE_ADDR", "")
    try:
        # PostgreSQL does not accept an IPv6 zone.
        return str(ip_address(_without_port(address).partition("%")[0]))
    except ValueError:
        return None


def network_of(address: str) -> str:
    """Return the IPv4 address, or the /64 network of an IPv6 address, which usually belongs to one subscriber."""
    parsed = ip_address(address)
    ipv4 = parsed if isinstance(parsed, IPv4Address) else parsed.ipv4_mapped
    return str(ipv4 or ip_network((int(parsed) >> 64 << 64, 64)))


def _without_port(address: str) -> str:
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address
