"""An account's jobs: the list, and what it can be narrowed to.

Each filter but the text is an index's (`jobs/models.py`). A text is looked for in the metadata of so many jobs at a
time, the newest that pass the other filters first, and no query of a list may take longer than a second.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.db import OperationalError, connection, transaction
from django.db.models import F, Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from billing.models import Account
from clients.models import Client
from dashboard.access import Place, account_page
from dashboard.paging import ROWS, Page
from jobs import retention
from jobs.enums import ACTIVE, TERMINAL, PublicStatus
from jobs.labels import STATUSES
from jobs.models import Build, Job
from jobs.usage import midnight
from simservice.api.errors import InvalidCursor
from simservice.api.pagination import make_cursor, read_cursor
from simservice.ids import first_id_of, moment_of

ANY = ("", "Any")
STATES = (ANY, ("active", "Not ended"), *((status.value, STATUSES[PublicStatus(status)]) for status in TERMINAL))
NOTHING_ASKED = {"status": "", "client": "", "build": "", "since": None, "until": None, "text": ""}
MOST_ACTIVE = 10_000
CHOICES = 500
LOOKED_THROUGH = 5_000
LONGEST_MS = 1_000
LISTED = (
    "account_id",
    "status",
    "created_at",
    "started_at",
    "completed_at",
    "cancel_requested_at",
    "credits_consumed",
    "error_code",
    "character",
    "other_characters",
    "metadata",
    "client__name",
    "client__account_id",
)


class Filters(forms.Form):
    """What the list is narrowed to. Two queries, for the choices."""

    status = forms.ChoiceField(required=False, choices=STATES)
    client = forms.ChoiceField(required=False)
    build = forms.ChoiceField(required=False)
    since = forms.DateField(label="From (UTC)", required=False)
    until = forms.DateField(label="To (UTC)", required=False)
    text = forms.CharField(label="Metadata holds", required=False, max_length=100)

    def __init__(self, account: Account, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("since", "until"):
            self.fields[name].widget = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")
        self.fields["text"].widget.attrs["type"] = "search"
        self.fields["client"].choices = [ANY, *clients_of(account)]  # type: ignore[attr-defined]
        self.fields["build"].choices = [ANY, *newest_builds()]  # type: ignore[attr-defined]

    @property
    def narrows(self) -> bool:
        """Whether the list is narrowed at all."""
        return any(self.cleaned_data.values())


def clients_of(account: Account) -> Iterator[tuple[str, str]]:
    """Yield an account's clients as choices, the built-in one first."""
    found = Client.objects.filter(account=account).order_by("-is_default", "name")
    return ((str(key), name) for key, name in found.values_list("pk", "name")[:CHOICES])


def newest_builds() -> Iterator[tuple[str, str]]:
    """Yield the newest builds as choices."""
    found = Build.objects.order_by("-created_at").only("git_branch", "commit", "simc_version")
    return ((str(build.pk), f"{build} ({build.simc_version})") for build in found[:CHOICES])


@dataclass(frozen=True, kw_only=True)
class Found:
    """A page of the list. `looked_back_to` is set when the search ended before the list did."""

    page: Page[Job]
    looked_back_to: datetime | None = None


class TooLong(Exception):
    """The database gave up: the filters leave too much to look through."""


@account_page()
def jobs(request: HttpRequest, place: Place) -> HttpResponse:
    """List the account's jobs, the newest first."""
    form = Filters(place.account, request.GET)
    context: dict[str, Any] = {"section": "jobs", "form": form, "since": retention.window_start()}
    if form.is_valid():
        try:
            with at_most(LONGEST_MS):
                context["found"] = find(request, place.account, form.cleaned_data)
        except TooLong:
            context["took_too_long"] = True
    return render(request, "dashboard/jobs.html", context)


@contextmanager
def at_most(milliseconds: int) -> Iterator[None]:
    """Let no statement of the block take longer. Raises TooLong."""
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(milliseconds)])
            yield
    except OperationalError as error:
        if "statement timeout" not in str(error):
            raise
        raise TooLong from None


def find(request: HttpRequest, account: Account, asked: dict[str, Any]) -> Found:
    """Return the page that a request asks for. Raises Http404 for a place in the list that was not given out."""
    rows = narrowed(account, asked)
    after = request.GET.get("after", "")
    if after:
        rows = rows.filter(pk__lt=read_place(after, account_id=account.pk))
    ids, looked_at = search(rows, asked["text"]) if asked["text"] else (newest_ids(rows, ROWS + 1), None)
    ends_at = ids[ROWS - 1] if len(ids) > ROWS else looked_at
    kept = {name: value for name, value in request.GET.items() if name != "after" and value}
    following = ends_at and urlencode({**kept, "after": make_cursor(account_id=account.pk, last_id=ends_at)})
    page = Page(
        rows=listed(ids[:ROWS]),
        first=f"?{urlencode(kept)}" if after else "",
        following=f"?{following}" if following else "",
    )
    return Found(page=page, looked_back_to=moment_of(looked_at) if looked_at else None)


def read_place(after: str, *, account_id: int) -> int:
    """Return the id that a place in the list names. Raises Http404."""
    try:
        return read_cursor(after, account_id=account_id)
    except InvalidCursor:
        raise Http404 from None


def narrowed(account: Account, asked: dict[str, Any]) -> QuerySet[Job]:
    """Return the account's kept jobs that pass every filter but the text."""
    passing = Q(pk__gte=first_id_of(retention.window_start()))
    today = timezone.now().date()
    if asked["since"]:
        passing &= Q(pk__gte=first_id_of(midnight(min(asked["since"], today + timedelta(days=1)))))
    if asked["until"] and asked["until"] < today:
        passing &= Q(pk__lt=first_id_of(midnight(asked["until"] + timedelta(days=1))))
    if asked["status"] == "active":
        # Bounded, or the planner looks for them among all of the account's jobs, from the newest on.
        unfinished = Job.objects.filter(account=account, status__in=ACTIVE).order_by("status", "-pk")
        passing &= Q(pk__in=unfinished.values("pk")[:MOST_ACTIVE])
    elif asked["status"]:
        passing &= Q(status=asked["status"])
    if asked["client"]:
        passing &= Q(client=int(asked["client"]))
    if asked["build"]:
        passing &= Q(build=UUID(asked["build"]))
    return Job.objects.filter(passing, account=account)


def newest(account: Account, *, count: int) -> list[Job]:
    """Return the account's newest jobs with what a list shows of them. Two queries."""
    return listed(newest_ids(narrowed(account, NOTHING_ASKED), count))


def newest_ids(rows: QuerySet[Job], count: int) -> list[int]:
    """Return the ids of the newest rows. One query, on indexes alone where only those are asked."""
    return list(rows.order_by("-pk").values_list("pk", flat=True)[:count])


def search(rows: QuerySet[Job], text: str) -> tuple[list[int], int | None]:
    """Return the ids of the newest rows with a text in their metadata, one more than a page holds.

    With them comes the last job looked at, when those found leave room on the page and there are more jobs. Two
    queries.
    """
    newest = rows.order_by("-pk").values("pk")
    # As the text stands in JSON.
    written = json.dumps(text, ensure_ascii=False)[1:-1]
    looked_at = Job.objects.filter(pk__in=newest[:LOOKED_THROUGH])
    matching = looked_at.annotate(written=Cast("metadata", TextField())).filter(written__icontains=written)
    found = newest_ids(matching, ROWS + 1)
    last = None if len(found) > ROWS else newest[LOOKED_THROUGH - 1 : LOOKED_THROUGH].first()
    return found, last and last["pk"]


def listed(ids: Sequence[int]) -> list[Job]:
    """Return jobs with what a list shows of them. At most a query."""
    shown = Job.objects.filter(pk__in=ids).select_related("client").only(*LISTED)
    measured = shown.annotate(mean=F("summary__mainActor__mean"), partial=F("summary__partial"))
    return list(measured.order_by("-pk")) if ids else []
