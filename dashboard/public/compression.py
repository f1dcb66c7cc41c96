"""Compression of public pages."""

from collections.abc import Callable
from functools import wraps

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.gzip import gzip_page


def compressed_for_visitors(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Compress a page that is the same for all visitors.

    Pages of users are not compressed, because their size would then depend on what only they may see.
    """
    compressed = gzip_page(view)

    @wraps(view)
    def wrapped(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        return (view if request.user.is_authenticated else compressed)(request, *args, **kwargs)

    return wrapped
