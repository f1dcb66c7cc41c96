"""Redirects that add or remove a trailing slash."""

from django.http import HttpRequest, HttpResponsePermanentRedirect
from django.urls import Resolver404, resolve
from django.utils.encoding import escape_uri_path

from simservice.web.error_pages import is_api_path


def redirect_for(request: HttpRequest) -> HttpResponsePermanentRedirect | None:
    """Return a redirect to the page with or without the trailing slash, None if there is no such page.

    Browsers repeat the method and the body (RFC 9110, 15.4.9). API paths are not redirected,
    because some clients would drop the key or the body.
    """
    path = request.path_info
    other = path.removesuffix("/") if path.endswith("/") else f"{path}/"
    if is_api_path(path) or _is_page(path) or not _is_page(other):
        return None
    address = escape_uri_path(other)
    query = request.META.get("QUERY_STRING", "")
    return HttpResponsePermanentRedirect(f"{address}?{query}" if query else address, preserve_request=True)


def _is_page(path: str) -> bool:
    """Return whether a page has this path. Only the admin's catch-all route has no name."""
    try:
        return resolve(path).url_name is not None
    except Resolver404:
        return False
