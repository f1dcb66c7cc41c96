"""Response headers: what a page can load, and what caches can store."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

# Pages load nothing but our own files, and contain no script or style.
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        # The square code of a second factor is in the page that shows it.
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        # A job's HTML report, which has a stricter policy of its own.
        "frame-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)


class ContentSecurityPolicyMiddleware:
    """Adds the policy to every response that has none of its own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response


class NoStoreMiddleware:
    """Keep every response out of caches unless its view says otherwise.

    A view without its own caching header is therefore safe.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Cache-Control", "no-store")
        return response
