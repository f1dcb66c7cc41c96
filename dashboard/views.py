"""What a visitor sees first, and what they are told about a form that is too old."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from simservice.api.methods import read_only


@read_only
def home(request: HttpRequest) -> HttpResponse:
    """Say what this is and where its doors are."""
    return render(request, "home.html", {"may_sign_up": settings.ALLOW_SIGNUP})


def form_too_old(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001
    """Answer a form that this browser was not given: most often, one that was opened before a new login."""
    return render(request, "form_too_old.html", status=403)
