"""Content security policy: what pages can load."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

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
