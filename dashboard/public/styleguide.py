"""The style guide for staff: every token, and every component in its states, light and dark."""

import re
from pathlib import Path

from django.conf import settings
from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from simservice.api.methods import read_only

TOKENS = dict(
    re.findall(r"--([\w-]+): ([^;]+);", Path(settings.BASE_DIR, "static", "css", "tokens.css").read_text())
)
COLOURS = [name for name, value in TOKENS.items() if value.startswith(("#", "light-dark("))]


@read_only
def styleguide(request: HttpRequest) -> HttpResponse:
    """Show the page to staff; for everybody else, it does not exist."""
    if not admin.site.has_permission(request):
        raise Http404
    context = {
        "colours": COLOURS,
        "spaces": _sizes("s"),
        "types": _sizes("t"),
        "radii": [name for name in TOKENS if name.startswith("radius")],
        "heights": [name for name in TOKENS if name.startswith(("row", "control"))],
        "schemes": ["light", "dark"],
    }
    return render(request, "styleguide.html", context)


def _sizes(letter: str) -> list[str]:
    return [name for name in TOKENS if re.fullmatch(rf"{letter}\d", name)]
