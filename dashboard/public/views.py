"""The home page, and the page for a failed CSRF check."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dashboard.public import example
from simservice.api.addresses import api_url
from simservice.api.methods import read_only

# How many of the example's upgrades the home page shows
UPGRADES = 3


@read_only
def home(request: HttpRequest) -> HttpResponse:
    """Show the home page."""
    context = {
        "may_sign_up": settings.ALLOW_SIGNUP,
        "welcome_credits": settings.SIGNUP_CREDITS,
        "upgrades": example.best_upgrades(UPGRADES),
        "address": api_url(request),
    }
    return render(request, "home.html", context)


def form_expired(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001
    """Show that a form failed the CSRF check, usually because it was opened before the user logged in or out."""
    return render(request, "form_expired.html", status=403)
