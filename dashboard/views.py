"""What a visitor sees first, and what they are told about a form that is too old."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from simservice.api.methods import read_only


@read_only
def home(request: HttpRequest) -> HttpResponse:
    """Say what this is and where its doors are."""
    return render(request, "home.html")


def form_too_old(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001
    """Answer a form that this browser was not given: most often, one that was opened before a new login."""
    return render(request, "form_too_old.html", status=403)
