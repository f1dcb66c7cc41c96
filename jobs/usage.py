"""What an account has used: counted by the day as jobs end, so that a month is read from a few rows."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.db import connection
from django.db.models import Count, Q, Sum
from django.utils import timezone

from billing.models import Account
from jobs.models import ACTIVE, HELD, WAITING, DailyUsage, Job

COUNT = """
    INSERT INTO jobs_dailyusage (account_id, client_id, build_id, day, jobs, runs, sim_ms, credits)
    SELECT account_id, client_id, build_id, (completed_at AT TIME ZONE 'UTC')::date, 1,
        (sim_duration_ms IS NOT NULL)::int, coalesce(sim_duration_ms, 0), credits_consumed
    FROM jobs_job WHERE id = %s
    ON CONFLICT (account_id, day, client_id, build_id) DO UPDATE SET
        jobs = jobs_dailyusage.jobs + 1,
        runs = jobs_dailyusage.runs + excluded.runs,
        sim_ms = jobs_dailyusage.sim_ms + excluded.sim_ms,
        credits = jobs_dailyusage.credits + excluded.credits
"""


@dataclass(frozen=True, kw_only=True)
class Period:
    """A calendar month (UTC), and what ran in it. Times in seconds."""

    start: datetime
    end: datetime
    sims_run: int
    average_runtime_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Day:
    """The jobs that ended on one day (UTC), and the credits they used."""

    day: date
    jobs: int
    credits: int


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """An account's unfinished jobs."""

    active: int
    waiting: int
    held: int


def record(job: Job) -> None:
    """Count a job that has just ended into its day (UTC). Call in the transaction that ends it. One query."""
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [job.pk])


def this_month(account: Account) -> Period:
    """Return what ran in the current month. One query."""
    today = timezone.now().astimezone(UTC).date()
    first = today.replace(day=1)
    following = (first + timedelta(days=32)).replace(day=1)
    used = DailyUsage.objects.filter(account=account, day__gte=first, day__lt=following).aggregate(
        runs=Sum("runs", default=0), sim_ms=Sum("sim_ms", default=0)
    )
    average = used["sim_ms"] / used["runs"] / 1000 if used["runs"] else None
    return Period(
        start=midnight(first), end=midnight(following), sims_run=used["runs"], average_runtime_seconds=average
    )


def last_days(account: Account, *, count: int) -> list[Day]:
    """Return the last `count` days, today last, also those on which nothing ended. One query."""
    today = timezone.now().astimezone(UTC).date()
    first = today - timedelta(days=count - 1)
    counted = DailyUsage.objects.filter(account=account, day__gte=first).values("day")
    found = {row["day"]: row for row in counted.annotate(ended=Sum("jobs"), used=Sum("credits"))}
    days = (first + timedelta(days=number) for number in range(count))
    nothing = {"ended": 0, "used": 0}
    return [
        Day(day=day, jobs=row["ended"], credits=row["used"])
        for day, row in ((day, found.get(day, nothing)) for day in days)
    ]


def midnight(day: date) -> datetime:
    """Return the start of a day (UTC)."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def snapshot(account: Account) -> Snapshot:
    """Return how many of the account's jobs wait and run. One query on a partial index."""
    unfinished = Job.objects.filter(account=account, status__in=ACTIVE)
    counts = unfinished.aggregate(
        active=Count("pk"),
        waiting=Count("pk", filter=Q(status__in=WAITING)),
        held=Count("pk", filter=Q(status__in=HELD)),
    )
    return Snapshot(**counts)
