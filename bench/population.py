"""Databases of chosen sizes, for measurements of growth. Needs Django."""

from dataclasses import dataclass, replace
from datetime import timedelta

from django.db import connection
from django.utils import timezone

from bench import fill
from billing import ledger
from billing.models import Account, Plan
from clients.accounts import default_client
from clients.audit import SYSTEM
from clients.keys import create_key
from clients.models import DEFAULT_CLIENT, Client
from jobs.models import Job
from webhooks import endpoints
from webhooks.models import Endpoint, Event

NO_LIMIT = 1_000_000_000
PLAN = {
    "name": "growth",
    "submissions_per_minute": NO_LIMIT,
    "submission_bytes_per_minute": NO_LIMIT,
    "reads_per_minute": NO_LIMIT,
    "max_active_jobs": NO_LIMIT,
}
DUE_EVENTS_EACH = 4
BODY = b'{"kind":"job.terminal","version":"v1","payload":{}}'
# Small enough that no waiting job is past its queue limit of one day.
SECONDS_APART = 0.05


@dataclass(frozen=True, kw_only=True)
class Population:
    """Numbers of waiting jobs, ended jobs, accounts, and webhook endpoints with due events."""

    waiting: int
    stored: int
    accounts: int
    endpoints: int

    def times(self, dimension: str, factor: int) -> "Population":
        """Return a population with one of the numbers multiplied."""
        return replace(self, **{dimension: getattr(self, dimension) * factor})

    def create(self) -> "Caller":
        """Replace the database's jobs and events, add accounts and endpoints, and return the first account."""
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE jobs_job, webhooks_event CASCADE")
        _open_accounts(self.accounts)
        _make_endpoints(self.endpoints)
        jobs = self.stored + self.waiting
        fill.insert(
            fill.Series(last=jobs, waiting=self.waiting, accounts=self.accounts, seconds_apart=SECONDS_APART)
        )
        fill.analyze()
        return Caller.of(Account.objects.order_by("pk")[0])


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The largest account's key, and the id of one of its waiting jobs."""

    key: str
    waiting_id: int

    @classmethod
    def of(cls, account: Account) -> "Caller":
        ledger.correct(account, 10**9, reason="bench")
        waiting = Job.objects.filter(account=account, completed_at=None)
        return cls(
            key=create_key(default_client(account), by=SYSTEM)[1],
            waiting_id=waiting.values_list("pk", flat=True)[0],
        )


def _open_accounts(count: int) -> None:
    """Add accounts with their default clients until there are `count`."""
    plan, _ = Plan.objects.get_or_create(defaults=PLAN, name=PLAN["name"])
    first = Account.objects.count()
    accounts = Account.objects.bulk_create(
        [Account(name=f"growth-{number}", plan=plan) for number in range(first, count)]
    )
    Client.objects.bulk_create(
        [Client(account=account, name=DEFAULT_CLIENT, is_default=True) for account in accounts]
    )


def _make_endpoints(count: int) -> None:
    """Add clients with endpoints until there are `count`, and due events for all of them."""
    accounts, first = list(Account.objects.order_by("pk")), Endpoint.objects.count()
    clients = Client.objects.bulk_create(
        [Client(account=accounts[number % len(accounts)], name=f"hook-{number}") for number in range(first, count)]
    )
    secret = endpoints.encrypt_secret(endpoints.new_secret())
    Endpoint.objects.bulk_create(
        [Endpoint(client=client, url="https://localhost/hook", secret=secret) for client in clients]
    )
    due = {"created_at": timezone.now(), "next_attempt_at": timezone.now() - timedelta(seconds=1), "body": BODY}
    clients_with_events = Endpoint.objects.values_list("client_id", flat=True)
    Event.objects.bulk_create(
        [Event(client_id=pk, **due) for pk in clients_with_events for _ in range(DUE_EVENTS_EACH)]
    )
