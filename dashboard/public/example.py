"""An example result for visitors: minisim's result of `frost_mage_gear.simc`. No row stores it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dashboard import results
from jobs.enums import Status
from jobs.models import Job
from jobs.results.details import details_in
from simservice.api.methods import read_only


def _document(name: str) -> dict[str, Any]:
    """Return a JSON document beside this file."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name(name).read_text())
    return found


SUMMARY = _document("example.json")
DETAILS = details_in(_document("example_details.json"))


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """A profileset of the example. `change` and `width`, that of its bar, are in percent."""

    name: str
    change: float
    width: str


def best_upgrades(count: int) -> Sequence[Upgrade]:
    """Return the example's best profilesets, best first. The best one has the full width."""
    actor = SUMMARY["mainActor"]
    best = sorted(actor["profilesets"]["results"], key=lambda entry: -entry["mean"])[:count]
    gains = [entry["mean"] - actor["mean"] for entry in best]
    return [
        Upgrade(name=entry["name"], change=gain / actor["mean"] * 100, width=f"{gain / gains[0] * 100:.1f}%")
        for entry, gain in zip(best, gains, strict=True)
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
