"""Claims: due events that a delivery worker may send now, fairly and within the limits of each client.

A claimed event has a lease, and its attempt is recorded before the request is made. Locks are always taken in the
same order: endpoints by client, then events, then deliveries.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from cryptography.fernet import InvalidToken
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count
from django.db.models.functions import Now

from simservice.postgresql.statements import load
from webhooks import endpoints
from webhooks.models import Delivery, Endpoint, Event

logger = logging.getLogger(__name__)

# Three times the timeout of a request.
LEASE_SECONDS = 30
# A client can use the throughput of this period at once.
BURST = timedelta(seconds=1)

SQL = load(__file__)


@dataclass(frozen=True, kw_only=True)
class SlotPool:
    """Slots for requests to one kind of endpoint, and how many of them a client or an account can use."""

    slots: int
    per_client: int
    # An account can have any number of clients.
    per_account: int
    # Whether the slots are for endpoints whose last attempt failed.
    failing: bool


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A claimed delivery with all data that its request needs."""

    delivery_id: int
    event_id: int
    client_id: int
    account_id: int
    # None for a test event
    job_id: int | None
    # The public ids, `evt_…` and `dlv_…`.
    event: str
    delivery: str
    url: str
    # None if they cannot be decrypted.
    secrets: Sequence[str] | None = field(repr=False)
    body: bytes
    # Attempts that failed before this one.
    failures: int
    # By the database's clock
    claimed_at: datetime
    trace_parent: str

    @property
    def log_ids(self) -> dict[str, object]:
        """Return the ids in log lines about this delivery."""
        job = {} if self.job_id is None else {"job_id": self.job_id}
        return {"event_id": self.event, "account_id": self.account_id, **job}


@dataclass(frozen=True, kw_only=True, eq=False)
class _LockedEndpoint:
    """A locked endpoint with due events, and the database's time when it was read."""

    endpoint: Endpoint
    account_id: int
    now: datetime

    @property
    def free_at(self) -> datetime:
        """Return the time at which the client's throughput is available."""
        return max(self.endpoint.busy_until or self.now, self.now)


# For each client with requests in flight: its account, and the number of these requests.
_InFlight = Mapping[int, tuple[int, int]]


@transaction.atomic
def claim_deliveries(pool: SlotPool, *, room: int) -> list[Attempt]:
    """Claim up to `room` due events for a pool, in turn between clients and within their limits."""
    locked = _lock_endpoints(pool, room=room)
    if not locked:
        return []
    # Counted again under the locks, to include claims made in between.
    shares = distribute(_allowances(locked, pool, _in_flight()), room=room)
    return start_attempts(list(zip(locked, shares, strict=True)))


def _lock_endpoints(pool: SlotPool, *, room: int) -> list[_LockedEndpoint]:
    """Lock up to `room` endpoints of a pool that have due events and are below their limits, by `candidates`."""
    limits = {"failing": pool.failing, "per_client": pool.per_client, "per_account": pool.per_account}
    rows: Iterable[Any] = Endpoint.objects.raw(
        SQL["candidates"], {**limits, "spare": BURST - send_interval(), "room": room}
    )
    return [_LockedEndpoint(endpoint=row, account_id=row.account_id, now=row.read_at) for row in rows]


def send_interval() -> timedelta:
    """Return the time that one event uses of its client's throughput."""
    return timedelta(microseconds=1_000_000 // settings.WEBHOOK_PER_SECOND)


def _in_flight() -> dict[int, tuple[int, int]]:
    """Return the account and the number of requests in flight of each client that has any."""
    rows = Event.objects.filter(state=Event.State.SENDING).values_list("client_id", "client__account_id")
    return {client: (account, count) for client, account, count in rows.annotate(count=Count("id")).order_by()}


def _allowances(locked: Iterable[_LockedEndpoint], pool: SlotPool, busy: _InFlight) -> list[int]:
    """Return how many events each locked endpoint may send now, by the limits of its client and account."""
    of_accounts = Counter[int]()
    for account, count in busy.values():
        of_accounts[account] += count
    allowed = []
    for one in locked:
        _, of_client = busy.get(one.endpoint.pk, (0, 0))
        by_throughput = (one.now + BURST - one.free_at) // send_interval()
        by_account = pool.per_account - of_accounts[one.account_id]
        free = max(0, min(pool.per_client - of_client, by_account, by_throughput))
        of_accounts[one.account_id] += free
        allowed.append(free)
    return allowed


def distribute(allowed: Sequence[int], *, room: int) -> list[int]:
    """Divide the room in turns of one each, until it is used up or each has the number it is allowed."""
    shares = [0] * len(allowed)
    for turn in range(max(allowed, default=0)):
        for number, free in enumerate(allowed):
            if turn < free and room > 0:
                shares[number] += 1
                room -= 1
    return shares


def start_attempts(shares: Sequence[tuple[_LockedEndpoint, int]]) -> list[Attempt]:
    """Mark the next due events of locked endpoints as being sent, and insert an attempt for each."""
    claimed = _next_due(shares)
    Event.objects.filter(pk__in=[event.pk for _, event in claimed]).update(
        state=Event.State.SENDING,
        next_attempt_at=None,
        lease_expires_at=Now() + timedelta(seconds=LEASE_SECONDS),
    )
    rows = Delivery.objects.bulk_create([Delivery(event=event, started_at=one.now) for one, event in claimed])
    # Count the events against the throughput of their endpoints.
    counts = Counter(one for one, _ in claimed)
    until = {one.endpoint.pk: one.free_at + count * send_interval() for one, count in counts.items()}
    with connection.cursor() as cursor:
        cursor.execute(SQL["use_throughput"], [list(until), list(until.values())])
    secrets = {one.endpoint.pk: _decrypt_secrets(one) for one, _ in claimed}
    return [
        Attempt(
            delivery_id=row.pk,
            event_id=event.pk,
            client_id=event.client_id,
            account_id=one.account_id,
            job_id=event.job_id,
            event=event.name,
            delivery=row.name,
            url=one.endpoint.url,
            secrets=secrets[event.client_id],
            body=bytes(event.body),
            failures=event.failures,
            claimed_at=one.now,
            trace_parent=event.trace_parent,
        )
        for (one, event), row in zip(claimed, rows, strict=True)
    ]


def _next_due(shares: Sequence[tuple[_LockedEndpoint, int]]) -> list[tuple[_LockedEndpoint, Event]]:
    """Lock and return the next due events of locked endpoints. Can lock more events than their shares."""
    owners = {one.endpoint.pk: (one, share) for one, share in shares if share}
    most = max((share for _, share in shares), default=0)
    taken = Counter[int]()
    claimed = []
    for event in Event.objects.raw(SQL["next_due"], [list(owners), most]):
        one, share = owners[event.client_id]
        taken[event.client_id] += 1
        if taken[event.client_id] <= share:
            claimed.append((one, event))
    return claimed


def _decrypt_secrets(locked: _LockedEndpoint) -> Sequence[str] | None:
    """Return the secrets of a locked endpoint, or None if the deployment no longer has their key."""
    try:
        return endpoints.secrets_of(locked.endpoint, now=locked.now)
    except InvalidToken:
        logger.exception(
            "cannot decrypt the webhook secret of client %s: its key is not in SECRET_KEY_FALLBACKS",
            locked.endpoint.pk,
        )
        return None
