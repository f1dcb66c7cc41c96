"""Decorator of views that only support GET and HEAD."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from simservice.api.errors import MethodNotAllowed, error_response

View = Callable[..., HttpResponseBase]


def read_only(view: View) -> View:
    """Return a view that responds to other methods than GET and HEAD with an error.

    Exempt from CSRF protection, which would respond first with an HTML page.
    """

    @csrf_exempt
    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method in ("GET", "HEAD"):
            return view(request, *args, **kwargs)
        response = error_response(MethodNotAllowed(), request)
        response["Allow"] = "GET, HEAD"
        return response

    return wrapped
