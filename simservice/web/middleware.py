"""Middleware for every response: content security policy, caching, and the check of the Host header."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.middleware.common import CommonMiddleware

from simservice.telemetry.tracing import INTERNAL_PATHS

# Pages load only this service's own files, and contain no inline scripts or styles.
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        # The QR code for two-factor authentication is a data URL.
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        # A job's HTML report, which has its own, stricter policy.
        "frame-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)


class ContentSecurityPolicyMiddleware:
    """Adds the policy to every response that has no policy."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response


class NoStoreMiddleware:
    """Forbids caches to store a response, unless its view sets Cache-Control."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Cache-Control", "no-store")
        return response


class HostMiddleware(CommonMiddleware):
    """Rejects requests whose Host is not in `ALLOWED_HOSTS`.

    Orchestrators and Prometheus request internal paths by IP address. Their responses do not depend on the host.
    """

    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        """Raise DisallowedHost if the host is wrong."""
        return None if request.path_info in INTERNAL_PATHS else super().process_request(request)
