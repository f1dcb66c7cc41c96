"""The home page, and the page for a failed CSRF check."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from simservice.api.methods import read_only


@read_only
def home(request: HttpRequest) -> HttpResponse:
    """Show the home page."""
    return render(request, "home.html", {"may_sign_up": settings.ALLOW_SIGNUP})


def form_expired(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001
    """Show that a form failed the CSRF check, usually because it was opened before the user logged in or out."""
    return render(request, "form_expired.html", status=403)
