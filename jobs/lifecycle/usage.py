"""Usage of accounts, summed by day when jobs end, so a month is read from a few rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum
from django.utils import timezone

from billing.models import Account
from jobs.enums import ACTIVE, Status
from jobs.models import DailyUsage, Job
from simservice.postgresql.statements import load

SQL = load(__file__)
# The fields that identify a group, and those that its label needs
GROUPS = {
    "day": ("day",),
    "client": ("client_id", "client__name"),
    "build": ("build_id", "build__git_branch", "build__commit"),
}
MAX_GROUPS = 100
ROW_BATCH = 2000


@dataclass(frozen=True, kw_only=True)
class UsagePeriod:
    """The simulations of a calendar month (UTC). Durations are in seconds."""

    start: datetime
    end: datetime
    sims_run: int
    average_runtime_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Day:
    """The number of jobs that ended on one day (UTC), and their credits."""

    day: date
    jobs: int
    credits: int


@dataclass(frozen=True, kw_only=True)
class UsageTotals:
    """The totals of a day, a client or a build. Times are simulator milliseconds."""

    label: str
    jobs: int
    sim_ms: int
    credits: int

    @property
    def seconds(self) -> float:
        return self.sim_ms / 1000


@dataclass(frozen=True, kw_only=True)
class ActiveJobs:
    """The number of an account's unfinished jobs by public status."""

    active: int
    waiting: int
    running: int


def this_month(account: Account) -> UsagePeriod:
    """Return the simulations of the current month. One query."""
    today = timezone.now().astimezone(UTC).date()
    first = today.replace(day=1)
    following = next_month(first)
    sums = _of_month(account, first).aggregate(runs=Sum("runs", default=0), sim_ms=Sum("sim_ms", default=0))
    average = sums["sim_ms"] / sums["runs"] / 1000 if sums["runs"] else None
    return UsagePeriod(
        start=midnight(first), end=midnight(following), sims_run=sums["runs"], average_runtime_seconds=average
    )


def last_days(account: Account, *, count: int) -> list[Day]:
    """Return the last `count` days, today last, including days on which no job ended. One query."""
    today = timezone.now().astimezone(UTC).date()
    first = today - timedelta(days=count - 1)
    recent = DailyUsage.objects.filter(account=account, day__gte=first).values("day")
    rows = {row["day"]: row for row in recent.annotate(ended=Sum("jobs"), used=Sum("credits"))}
    days = (first + timedelta(days=number) for number in range(count))
    nothing = {"ended": 0, "used": 0}
    return [
        Day(day=day, jobs=row["ended"], credits=row["used"])
        for day, row in ((day, rows.get(day, nothing)) for day in days)
    ]


def midnight(day: date) -> datetime:
    """Return the start of a day (UTC)."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def snapshot(account: Account) -> ActiveJobs:
    """Return how many of the account's jobs are waiting and running. One query on a partial index."""
    unfinished = Job.objects.filter(account=account, status__in=ACTIVE)
    counts = unfinished.aggregate(
        active=Count("pk"),
        running=Count("pk", filter=Q(status=Status.RUNNING)),
    )
    return ActiveJobs(**counts, waiting=counts["active"] - counts["running"])


def by_group(account: Account, month: date, group: str) -> list[UsageTotals]:
    """Return the usage of a month by `day`, `client` or `build`, at most MAX_GROUPS rows. One query.

    Days are in order; clients and builds are sorted by credits, highest first.
    """
    fields = GROUPS[group]
    summed = (
        _of_month(account, month).values_list(*fields).annotate(Sum("jobs"), Sum("sim_ms"), spent=Sum("credits"))
    )
    ordered = summed.order_by(*(["day"] if group == "day" else ["-spent", fields[0]]))
    return [
        UsageTotals(label=_label_of(group, row[: len(fields)]), jobs=row[-3], sim_ms=row[-2], credits=row[-1])
        for row in ordered[:MAX_GROUPS]
    ]


def days_of(account: Account, month: date) -> list[UsageTotals]:
    """Return the usage of each day of a month up to today, including days on which no job ended. One query."""
    today = timezone.now().astimezone(UTC).date()
    end = min(next_month(month), today + timedelta(days=1))
    known = {row.label: row for row in by_group(account, month, "day")}
    days = (f"{month + timedelta(days=number):%Y-%m-%d}" for number in range((end - month).days))
    return [known.get(day) or UsageTotals(label=day, jobs=0, sim_ms=0, credits=0) for day in days]


def total(account: Account, month: date) -> UsageTotals:
    """Return the totals of a month. One query."""
    summed = {name: Sum(name, default=0) for name in ("jobs", "sim_ms", "credits")}
    sums = _of_month(account, month).aggregate(**{f"all_{name}": each for name, each in summed.items()})
    return UsageTotals(label="All", jobs=sums["all_jobs"], sim_ms=sums["all_sim_ms"], credits=sums["all_credits"])


def _label_of(group: str, fields: Sequence[Any]) -> str:
    """Return the label of a group on pages; `fields` are those in GROUPS."""
    if group == "day":
        return f"{fields[0]:%Y-%m-%d}"
    if group == "client":
        return str(fields[1])
    return f"{fields[1]} {fields[2][:12]}" if fields[0] else "None (ended before a build was chosen)"


def each_row(account: Account, month: date) -> Iterator[DailyUsage]:
    """Yield the rows of a month in the order of days, read in batches."""
    rows = _of_month(account, month).select_related("client", "build")
    last: tuple[date, int] | None = None
    while True:
        later = Q() if last is None else Q(day__gt=last[0]) | Q(day=last[0], pk__gt=last[1])
        batch = list(rows.filter(later).order_by("day", "pk")[:ROW_BATCH])
        yield from batch
        if len(batch) < ROW_BATCH:
            return
        last = (batch[-1].day, batch[-1].pk)


def _of_month(account: Account, month: date) -> QuerySet[DailyUsage]:
    """Return the rows of the calendar month whose first day is `month`."""
    return DailyUsage.objects.filter(account=account, day__gte=month, day__lt=next_month(month))


def previous_month(month: date) -> date:
    """Return the first day of the month before `month`, which is the first day of a month."""
    return (month - timedelta(days=1)).replace(day=1)


def next_month(month: date) -> date:
    """Return the first day of the month after `month`, which is the first day of a month."""
    return (month + timedelta(days=32)).replace(day=1)
