"""The home page, the example result, and the page for a failed CSRF check.

Only the home page reads the database, for the price of simulation, and does without it during an outage.

The example is minisim's result of `frost_mage_gear.simc`.
"""

import json
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from clients import accounts
from dashboard import results
from jobs.enums import Status
from jobs.models import Job
from jobs.results.details import details_in
from jobs.results.labels import duration
from jobs.results.verdicts import GAIN, percent_with_margin, variants_of
from simservice.api.addresses import api_url
from simservice.api.methods import read_only
from simservice.postgresql.connections import DATABASE_UNAVAILABLE

SUMMARY = json.loads(Path(__file__).with_name("example.json").read_text())
DETAILS = details_in(json.loads(Path(__file__).with_name("example_details.json").read_text()))
# How many of the example's upgrades the home page shows
UPGRADES = 3


@read_only
def home(request: HttpRequest) -> HttpResponse:
    context = {
        "may_sign_up": settings.ALLOW_SIGNUP,
        "welcome_credits": settings.SIGNUP_CREDITS,
        "welcome_time": _welcome_time(),
        "upgrades": best_upgrades(),
        "address": api_url(request),
    }
    return render(request, "home.html", context)


def _welcome_time() -> str:
    """Return how long a new account can simulate, empty if there is no sign-up or the database does not respond."""
    if not settings.ALLOW_SIGNUP or not settings.SIGNUP_CREDITS:
        return ""
    try:
        return duration(accounts.welcome_seconds())
    except DATABASE_UNAVAILABLE:
        return ""


def best_upgrades() -> list[dict[str, str]]:
    """Return the best variants of the example that are clearly better, best first. The first has the full width."""
    compared = variants_of(SUMMARY)
    if compared is None:
        return []
    best = [entry for entry in compared.entries if compared.kind_of(entry) == GAIN][:UPGRADES]
    changes = [compared.change(entry.mean) for entry in best]
    return [
        {
            "name": entry.name,
            "change": percent_with_margin(change, compared.margin_of(entry)),
            "width": f"{change / changes[0] * 100:.1f}%",
        }
        for entry, change in zip(best, changes, strict=True)
    ]


@read_only
def example(request: HttpRequest) -> HttpResponse:
    """Show the example with the templates of real results."""
    job = Job(status=Status.COMPLETED, summary=SUMMARY)
    context = {
        "result": results.result_of(job, results.Options.of(request.GET), details=DETAILS),
        "may_sign_up": settings.ALLOW_SIGNUP,
    }
    return render(request, "example.html", context)


def form_expired(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001
    """Show that a form failed the CSRF check, usually because it was opened before the user logged in or out."""
    return render(request, "form_expired.html", status=403)
