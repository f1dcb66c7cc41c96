"""Taking due events to be sent, and writing down what came of it.

PostgreSQL holds everything. An event is taken under a lease, its attempt is written before the request is made,
and what comes of it is written only while that row says that the attempt is under way: whoever was taken for dead
meanwhile writes nothing. A request whose outcome was never written is made again, under the same event id.

Locks come in one order: endpoints by their client, then events, then deliveries.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography.fernet import InvalidToken
from django.conf import settings
from django.db import transaction
from django.db.models import Case, Count, Exists, F, OuterRef, Q, QuerySet, When
from django.db.models.functions import Now
from django.utils import timezone

from clients.audit import SYSTEM
from webhooks import endpoints
from webhooks.http_client import Answer
from webhooks.models import Delivery, Endpoint, Event
from webhooks.retries import Outcome, Verdict, judge

logger = logging.getLogger(__name__)

State, Failure = Event.State, Event.Failure

# Three times what a request can take.
LEASE_SECONDS = 30
# A client may use up its throughput of so long at once.
BURST = timedelta(seconds=1)
DISABLED_AFTER = timedelta(days=5)
MOST_EXCERPT_BYTES = 2048
MOST_DETAIL = 300
BATCH = 500


@dataclass(frozen=True, kw_only=True)
class Lane:
    """Deliveries of one kind: how many a process makes at a time, and how many of them for one client."""

    slots: int
    per_client: int
    # Of one account, whose owner can make any number of clients.
    per_account: int
    failing: bool


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A delivery that is to be made, with all that the request needs."""

    delivery_id: int
    event_id: int
    client_id: int
    event: str
    delivery: str
    url: str
    # None when they cannot be opened.
    secrets: Sequence[str] | None = field(repr=False)
    body: bytes
    failures: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Ready:
    """A locked endpoint that has something due, and the database's time of the look at it."""

    endpoint: Endpoint
    account_id: int
    now: datetime

    @property
    def begins(self) -> datetime:
        """Return from when on the client's throughput is not used up by what was taken before."""
        return max(self.endpoint.busy_until or self.now, self.now)


@transaction.atomic
def claim(lane: Lane, *, room: int) -> list[Attempt]:
    """Take up to `room` due events of a lane, fairly between clients and within the limits of each."""
    ready = lock_endpoints(lane, room=room)
    if not ready:
        return []
    # Counted again under the locks: what came between is known now.
    shares = share_out(allowances(ready, lane, in_flight()), room=room)
    return take(list(zip(ready, shares, strict=True)))


def lock_endpoints(lane: Lane, *, room: int) -> list[Ready]:
    """Lock endpoints of a lane that have something due and may send it.

    First come those with nothing in flight, and then those that were served least recently, however long their
    events have been due. An endpoint that somebody else has locked is passed over: its events are being taken or
    written down. Those that are at a limit are left out here, so that they do not take the places of others.
    """
    busy = in_flight()
    of_accounts = per_account(busy)
    full_clients = [client for client, (_, count) in busy.items() if count >= lane.per_client]
    full_accounts = [account for account, count in of_accounts.items() if count >= lane.per_account]
    found = (
        Endpoint.objects.filter(may_send(), disabled_at=None, failing_since__isnull=not lane.failing)
        .exclude(pk__in=full_clients)
        .exclude(client__account_id__in=full_accounts)
        .filter(Exists(due().filter(client_id=OuterRef("client_id"))))
        .annotate(is_busy=Case(When(pk__in=list(busy), then=1), default=0))
        .order_by("is_busy", F("busy_until").asc(nulls_first=True), "pk")
        .annotate(account_id=F("client__account_id"), read_at=Now())
        .select_for_update(no_key=True, skip_locked=True, of=("self",))
    )
    return [Ready(endpoint=one, account_id=one.account_id, now=one.read_at) for one in found[:room]]


def may_send() -> Q:
    """Return the condition that an endpoint's throughput is not used up."""
    return Q(busy_until=None) | Q(busy_until__lte=Now() + (BURST - share_of_one()))


def share_of_one() -> timedelta:
    """Return the time that one event uses up of its client's throughput."""
    return timedelta(microseconds=1_000_000 // settings.WEBHOOK_PER_SECOND)


def in_flight() -> dict[int, tuple[int, int]]:
    """Return the account of each client with events in flight, and how many. One query of few rows."""
    rows = Event.objects.filter(state=State.SENDING).values_list("client_id", "client__account_id")
    return {client: (account, count) for client, account, count in rows.annotate(count=Count("id")).order_by()}


def per_account(busy: Mapping[int, tuple[int, int]]) -> Counter[int]:
    """Return how many events of each account are in flight."""
    of_accounts = Counter[int]()
    for account, count in busy.values():
        of_accounts[account] += count
    return of_accounts


def allowances(ready: Iterable[Ready], lane: Lane, busy: Mapping[int, tuple[int, int]]) -> list[int]:
    """Return how many events each locked endpoint may send now, by its client's and its account's limits."""
    of_accounts = per_account(busy)
    allowed = []
    for one in ready:
        _, own = busy.get(one.endpoint.pk, (0, 0))
        free = max(
            0,
            min(
                lane.per_client - own,
                lane.per_account - of_accounts[one.account_id],
                (one.now + BURST - one.begins) // share_of_one(),
            ),
        )
        of_accounts[one.account_id] += free
        allowed.append(free)
    return allowed


def share_out(allowed: Sequence[int], *, room: int) -> list[int]:
    """Divide the room: one for each in turn, in their order, until it is full or all have what they may."""
    shares = [0] * len(allowed)
    for turn in range(max(allowed, default=0)):
        for number, free in enumerate(allowed):
            if turn < free and room > 0:
                shares[number] += 1
                room -= 1
    return shares


def take(shares: Sequence[tuple[Ready, int]]) -> list[Attempt]:
    """Put locked endpoints' next due events in flight, each with a new attempt, and use up their throughput."""
    taken = [(one, event) for one, share in shares for event in next_due(one, share)]
    Event.objects.filter(pk__in=[event.pk for _, event in taken]).update(
        state=State.SENDING, next_attempt_at=None, lease_expires_at=Now() + timedelta(seconds=LEASE_SECONDS)
    )
    deliveries = Delivery.objects.bulk_create([Delivery(event=event, started_at=one.now) for one, event in taken])
    charge(one for one, _ in taken)
    secrets = {one.endpoint.pk: opened(one.endpoint) for one, _ in taken}
    return [
        Attempt(
            delivery_id=delivery.pk,
            event_id=event.pk,
            client_id=event.client_id,
            event=event.name,
            delivery=delivery.name,
            url=one.endpoint.url,
            secrets=secrets[event.client_id],
            body=bytes(event.body),
            failures=event.failures,
        )
        for (one, event), delivery in zip(taken, deliveries, strict=True)
    ]


def next_due(one: Ready, count: int) -> list[Event]:
    """Lock and return the due events that a locked endpoint should send next, `count` at most."""
    if not count:
        return []
    waiting = due().filter(client_id=one.endpoint.pk).order_by("next_attempt_at")
    return list(waiting.select_for_update(no_key=True, skip_locked=True)[:count])


def charge(taken: Iterable[Ready]) -> None:
    """Count events against the throughput of their locked endpoints."""
    endpoints_charged = []
    for one, count in Counter(taken).items():
        one.endpoint.busy_until = one.begins + count * share_of_one()
        endpoints_charged.append(one.endpoint)
    Endpoint.objects.bulk_update(endpoints_charged, ["busy_until"])


def opened(endpoint: Endpoint) -> Sequence[str] | None:
    """Return an endpoint's secrets, None when the deployment's keys no longer open them."""
    try:
        return endpoints.secrets_of(endpoint, now=timezone.now())
    except InvalidToken:
        logger.exception(
            "the webhook secret of client %s cannot be decrypted: its key is not in SECRET_KEY_FALLBACKS",
            endpoint.pk,
        )
        return None


@transaction.atomic
def record(results: Iterable[tuple[Attempt, Answer]]) -> None:
    """Write down what came of attempts, each unless it was taken for lost meanwhile."""
    ordered = sorted(results, key=lambda result: (result[0].client_id, result[0].event_id))
    known = lock([attempt for attempt, _ in ordered])
    delivered = []
    for attempt, answer in ordered:
        verdict = judge(answer, failures=attempt.failures, now=timezone.now())
        if not end_delivery(attempt, answer, verdict.outcome):
            logger.warning("delivery %s had been taken for lost", attempt.delivery)
            continue
        if verdict.outcome == Outcome.DELIVERED:
            delivered.append(attempt.event_id)
        else:
            keep_failed(attempt, verdict)
        # A missing key is not the receiver's fault, and disabling the endpoint would erase its secret.
        if attempt.secrets is not None:
            note_health(known[attempt.client_id], succeeded=verdict.outcome == Outcome.DELIVERED)
    Event.objects.filter(pk__in=delivered).update(state=State.DELIVERED, lease_expires_at=None, ended_at=Now())


def lock(attempts: Sequence[Attempt]) -> dict[int, Endpoint]:
    """Lock attempts' endpoints and events until the transaction ends; return the endpoints by client."""
    clients = {attempt.client_id for attempt in attempts}
    locked = Endpoint.objects.filter(pk__in=clients).order_by("pk").select_for_update(no_key=True)
    known = {endpoint.pk: endpoint for endpoint in locked}
    events = Event.objects.filter(pk__in=[attempt.event_id for attempt in attempts]).order_by("pk")
    list(events.select_for_update(no_key=True).values_list("pk"))
    return known


def keep_failed(attempt: Attempt, verdict: Verdict) -> None:
    """Let an event of a failed attempt wait for the next one, or give it up."""
    failed = {"lease_expires_at": None, "failures": attempt.failures + 1}
    event = Event.objects.filter(pk=attempt.event_id)
    if verdict.wait is not None:
        event.update(state=State.WAITING, next_attempt_at=Now() + verdict.wait, **failed)
        return
    failure = Failure.REJECTED if verdict.outcome == Outcome.REJECTED else Failure.EXHAUSTED
    event.update(state=State.FAILED, failure=failure, ended_at=Now(), **failed)


def end_delivery(attempt: Attempt, answer: Answer, outcome: Outcome) -> bool:
    """Write an attempt's end into the log of deliveries; False when it was taken for lost."""
    under_way = Delivery.objects.filter(pk=attempt.delivery_id, outcome=Outcome.SENDING)
    ended = under_way.update(
        outcome=outcome,
        duration_ms=answer.duration_ms,
        address=answer.address,
        status=answer.status,
        problem=answer.problem,
        detail=answer.detail[:MOST_DETAIL],
        excerpt=excerpt_of(answer.body),
    )
    return bool(ended)


def excerpt_of(body: bytes) -> str:
    """Return the beginning of an answer's body as text that can be stored, at most 2 KiB of it."""
    text = body[:MOST_EXCERPT_BYTES].decode("utf-8", "replace").replace("\0", "\ufffd")
    return text.encode()[:MOST_EXCERPT_BYTES].decode("utf-8", "ignore")


def note_health(endpoint: Endpoint, *, succeeded: bool) -> None:
    """Note since when a locked endpoint fails, and disable it when that is too long (design, section 6)."""
    now = timezone.now()
    if succeeded:
        changed, endpoint.failing_since = endpoint.failing_since is not None, None
    else:
        changed, endpoint.failing_since = endpoint.failing_since is None, endpoint.failing_since or now
    if changed:
        endpoints.save(endpoint, failing_since=endpoint.failing_since)
    if endpoint.failing_since and now - endpoint.failing_since >= DISABLED_AFTER:
        endpoints.switch_off(endpoint, because=Endpoint.Disabled.FAILING, by=SYSTEM)


def recover_lost() -> int:
    """Put events back whose worker died or stood still, for another attempt at once; return how many.

    It was the platform's fault, so it counts as no failure of the receiver's.
    """
    with transaction.atomic():
        expired = Event.objects.filter(state=State.SENDING, lease_expires_at__lt=Now())
        events = [event.pk for event in expired.select_for_update(no_key=True, skip_locked=True)[:BATCH]]
        Event.objects.filter(pk__in=events).update(
            state=State.WAITING, lease_expires_at=None, next_attempt_at=Now()
        )
        Delivery.objects.filter(event__in=events, outcome=Outcome.SENDING).update(
            outcome=Outcome.LOST, detail="The worker that made the request was lost."
        )
    return len(events)


def give_up_disabled() -> int:
    """End a batch of waiting events whose client has no enabled endpoint; return how many."""
    with transaction.atomic():
        enabled = Endpoint.objects.filter(disabled_at=None).values("client_id")
        waiting = Event.objects.filter(state=State.WAITING).exclude(client__in=enabled)
        events = [event.pk for event in waiting.select_for_update(no_key=True, skip_locked=True)[:BATCH]]
        return Event.objects.filter(pk__in=events).update(
            state=State.FAILED, failure=Failure.DISABLED, next_attempt_at=None, ended_at=Now()
        )


def due() -> QuerySet[Event]:
    """Return the events whose time has come."""
    return Event.objects.filter(state=State.WAITING, next_attempt_at__lte=Now())
