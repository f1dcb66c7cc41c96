"""The history of a character on an account's page: results over time by build."""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dashboard.access import AccountAccess, account_page
from dashboard.jobs.history_chart import chart_of
from dashboard.paging import Page, id_in_cursor
from jobs.models import CHARACTER_LENGTH, Job
from jobs.results import history as histories
from simservice.api.pagination import make_cursor

POINTS = 200


@account_page()
def history(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """Show the newest results of a character, by default the latest job's. Raises Http404 for an invalid cursor."""
    before = id_in_cursor(request, account_id=access.account.pk)
    # PostgreSQL accepts no null characters.
    asked = request.GET.get("character", "").replace("\0", "")[:CHARACTER_LENGTH]
    character = asked or histories.latest_character(access.account)
    found = histories.history_of(access.account, character, before=before, limit=POINTS)
    context = {
        "section": "history",
        "character": character,
        "characters": histories.characters_of(access.account),
        "max_characters": histories.MAX_CHARACTERS,
        "points": found.points[::-1],
        "chart": chart_of(found.points),
        "page": _page(access, character, before=before, last_id=found.last_id),
    }
    return render(request, "dashboard/history.html", context)


def _page(access: AccountAccess, character: str, *, before: int | None, last_id: int | None) -> Page[Job]:
    """Return the links to the newest and to earlier jobs of a character, even if the request does not name it."""
    first = "?" + urlencode({"character": character})
    cursor = "" if last_id is None else make_cursor(account_id=access.account.pk, last_id=last_id)
    following = f"{first}&{urlencode({'after': cursor})}" if cursor else ""
    return Page(rows=(), first=first if before is not None else "", following=following)
