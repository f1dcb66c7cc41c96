"""The list of an account's jobs and its filters.

Each filter except the text uses an index (`jobs/models.py`). The text filter searches given titles, characters and
metadata of the newest `SEARCHED_JOBS` jobs that match the other filters. No query may take longer than
`STATEMENT_TIMEOUT_MS`.

Jobs are sorted by their submission, because each of these indexes is in the order of ids. Any other order would
read and sort all jobs of an account.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import BooleanField, Count, F, Max, Min, Q, QuerySet, TextField
from django.db.models.expressions import RawSQL
from django.db.models.functions import Cast
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from billing.models import Account
from clients.models import Client
from dashboard.access import AccountAccess, account_page
from dashboard.jobs import job_rows
from dashboard.paging import ROWS, id_in_cursor, make_page
from jobs.artifacts import retention
from jobs.enums import ACTIVE, TERMINAL, PublicStatus
from jobs.lifecycle.usage import midnight
from jobs.models import Build, Job
from jobs.results.labels import STATUSES
from simservice.ids import first_id_of, moment_of
from simservice.postgresql.connections import StatementTimeout, statement_timeout

ANY = ("", "Any")
STATES = (
    ANY,
    ("active", "Waiting or running"),
    *((status.value, STATUSES[PublicStatus(status)]) for status in TERMINAL),
)
OLDEST = "oldest"
ORDERS = (("", "Newest first"), (OLDEST, "Oldest first"))
NO_FILTERS = {"status": "", "client": "", "build": "", "since": None, "until": None, "text": "", "order": ""}
FOLDED = ("client", "build", "since", "until")
MAX_ACTIVE = 10_000
MAX_CHOICES = 500
MAX_TEXT = 100
SEARCHED_JOBS = 5_000
STATEMENT_TIMEOUT_MS = 1_000
LIST_FIELDS = (
    "account_id attempt status created_at started_at completed_at cancel_requested_at pause_requested_at paused_at "
    "credits_consumed error_code character other_characters metadata given_title summary"
).split()
# The fields that the progress and the place in the queue need
QUEUE_FIELDS = ("attempt", "priority", "updated_at")


class Filters(forms.Form):
    """The filters of the list."""

    status = forms.ChoiceField(required=False, choices=STATES)
    client = forms.ChoiceField(required=False)
    build = forms.ChoiceField(required=False)
    since = forms.DateField(label="From (UTC)", required=False)
    until = forms.DateField(label="To (UTC)", required=False)
    text = forms.CharField(
        label="Title or character",
        required=False,
        max_length=MAX_TEXT,
        widget=forms.TextInput(attrs={"type": "search"}),
    )
    order = forms.ChoiceField(required=False, choices=ORDERS)

    def __init__(self, account: Account, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("since", "until"):
            self.fields[name].widget = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")
        self.fields["client"].choices = [ANY, *clients_of(account)]  # type: ignore[attr-defined]
        builds = Build.objects.order_by("-created_at").only("git_branch", "commit", "simc_version")[:MAX_CHOICES]
        named = [(str(build.pk), f"{build} ({build.simc_version})") for build in builds]
        self.fields["build"].choices = [ANY, *named]  # type: ignore[attr-defined]

    @property
    def folded(self) -> list[forms.BoundField]:
        """Return the fields that are folded, because they are rarely used."""
        return [self[name] for name in FOLDED]

    @property
    def uses_folded(self) -> bool:
        return any(name in self.changed_data for name in FOLDED)

    @property
    def is_active(self) -> bool:
        return any(value for name, value in self.cleaned_data.items() if name != "order")


def clients_of(account: Account) -> Iterator[tuple[str, str]]:
    """Yield an account's clients as choices, the built-in one first."""
    clients = Client.objects.filter(account=account).order_by("-is_default", "name")
    return ((str(key), name) for key, name in clients.values_list("pk", "name")[:MAX_CHOICES])


@account_page()
def jobs(request: HttpRequest, access: AccountAccess) -> HttpResponse:
    """List the account's jobs."""
    form = Filters(access.account, request.GET)
    context: dict[str, Any] = {"section": "jobs", "form": form, "since": retention.window_start(access.account)}
    if form.is_valid():
        try:
            with statement_timeout(STATEMENT_TIMEOUT_MS):
                context |= _listing(request, access.account, form.cleaned_data)
        except StatementTimeout:
            context["timed_out"] = True
    return render(request, "dashboard/jobs.html", context)


def _listing(request: HttpRequest, account: Account, filters: dict[str, Any]) -> dict[str, Any]:
    """Return the requested page of the list. Raises Http404 for an invalid cursor.

    `searched_to` is set if there are further jobs that the text search did not reach.
    """
    rows = filtered(account, filters)
    after = id_in_cursor(request, account_id=account.pk)
    is_oldest = filters["order"] == OLDEST
    if after is not None:
        rows = rows.filter(pk__gt=after) if is_oldest else rows.filter(pk__lt=after)
    searched_to = None
    if filters["text"]:
        ids, searched_to = _search(rows, filters["text"], is_oldest=is_oldest)
    else:
        # An index-only scan if the index covers the filters
        ids = list(rows.values_list("pk", flat=True)[: ROWS + 1])
    last_id = ids[ROWS - 1] if len(ids) > ROWS else searched_to
    jobs = job_rows.described(_listed(ids[:ROWS], is_oldest=is_oldest)) if ids else []
    page = make_page(request, jobs, account_id=account.pk, last_id=last_id)
    is_changing = any(not job.is_terminal for job in jobs)
    return {
        "page": page,
        "is_changing": is_changing,
        "searched_to": moment_of(searched_to) if searched_to else None,
    }


def filtered(account: Account, filters: dict[str, Any]) -> QuerySet[Job]:
    """Return the account's retained jobs that match every filter except the text, in the requested order."""
    condition = Q(pk__gte=first_id_of(retention.window_start(account)))
    today = timezone.now().date()
    if filters["since"]:
        condition &= Q(pk__gte=first_id_of(midnight(min(filters["since"], today + timedelta(days=1)))))
    if filters["until"] and filters["until"] < today:
        condition &= Q(pk__lt=first_id_of(midnight(filters["until"] + timedelta(days=1))))
    if filters["status"] == "active":
        # Without the limit, the planner scans all of the account's jobs, newest first.
        active = Job.objects.filter(account=account, status__in=ACTIVE).order_by("status", "-pk")
        condition &= Q(pk__in=active.values("pk")[:MAX_ACTIVE])
    elif filters["status"]:
        condition &= Q(status=filters["status"])
    if filters["client"]:
        condition &= Q(client=int(filters["client"]))
    if filters["build"]:
        condition &= Q(build=UUID(filters["build"]))
    if filters["order"] == OLDEST:
        # As in `jobs/results/listing.py`, so that PostgreSQL does not read the jobs of other accounts by id.
        own = RawSQL("jobs_job.account_id = ANY (ARRAY[%s])", [account.pk], output_field=BooleanField())
        return Job.objects.filter(own, condition).order_by("-account_id", "pk")
    return Job.objects.filter(condition, account=account).order_by("-pk")


def newest_ended(account: Account, *, count: int) -> list[Job]:
    """Return the account's newest ended jobs as rows of a list."""
    ended = filtered(account, NO_FILTERS).filter(completed_at__isnull=False)
    return job_rows.described(_listed(ended.values("pk")[:count]))


def unfinished(account: Account, *, count: int) -> list[Job]:
    """Return the account's newest unfinished jobs with the fields of a list."""
    active = filtered(account, NO_FILTERS | {"status": "active"}).values("pk")[:count]
    return list(_listed(active).only(*LIST_FIELDS, *QUEUE_FIELDS))


def _search(rows: QuerySet[Job], text: str, *, is_oldest: bool = False) -> tuple[list[int], int | None]:
    """Return up to `ROWS + 1` ids of the first rows that contain a text, and the last id searched.

    The text can be in the given title, the character or the metadata. The last id searched is None if the matches
    fill more than a page or all rows were searched.
    """
    # The text as it is encoded in JSON.
    encoded = json.dumps(text, ensure_ascii=False)[1:-1]
    searched = rows.annotate(encoded=Cast("metadata", TextField()))[:SEARCHED_JOBS]
    # An aggregate reads the slice only; a filter on `pk__in` would make the planner read the jobs of all accounts.
    matches = Q(encoded__icontains=encoded) | Q(given_title__icontains=text) | Q(character__icontains=text)
    found = searched.aggregate(
        ids=ArrayAgg("pk", filter=matches, order_by="pk" if is_oldest else "-pk"),
        count=Count("pk"),
        last=Max("pk") if is_oldest else Min("pk"),
    )
    ids = (found["ids"] or [])[: ROWS + 1]
    return ids, None if len(ids) > ROWS or found["count"] < SEARCHED_JOBS else found["last"]


def _listed(ids: Sequence[int] | QuerySet[Job, Any], *, is_oldest: bool = False) -> QuerySet[Job]:
    """Return a query of jobs with the fields of a list."""
    jobs = Job.objects.filter(pk__in=ids).only(*LIST_FIELDS)
    return jobs.annotate(mean=F("summary__mainActor__mean")).order_by("pk" if is_oldest else "-pk")
