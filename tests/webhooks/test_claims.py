"""Who may send what at a moment: limits of each client, fairness between them, leases."""

from collections import Counter
from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from billing.models import Account
from clients.audit import SYSTEM
from clients.models import Client
from simservice.redis.client import redis
from tests.concurrency import at_once
from tests.factories import make_account, make_client
from webhooks import delivery, endpoints, events, tasks
from webhooks.delivery import Attempt, Lane, claim, record, share_out
from webhooks.models import Delivery, Endpoint, Event
from webhooks.pump import lanes
from webhooks.sending import Answer

pytestmark = pytest.mark.django_db

STEADY, FAILING = lanes()
OK = Answer(status=200)
BROKEN = Answer(status=500)


def make_hooked(count: int, *, account: Account | None = None) -> Client:
    """Make a client with an endpoint and due events."""
    account = account or make_account()
    client = make_client(account, name=f"bot-{account.clients.count()}")
    Endpoint.objects.create(client=client, url="https://example.com/", secret=endpoints.seal("whsec_x"))
    write(client, count)
    return client


def write(client: Client, count: int) -> None:
    for _ in range(count):
        with transaction.atomic():
            events.record(client.pk, job_id=None, payload={})


def of_clients(attempts: list[Attempt]) -> dict[int, int]:
    return dict(Counter(attempt.client_id for attempt in attempts))


@given(allowed=st.lists(st.integers(0, 9), max_size=9), room=st.integers(0, 40))
def test_a_room_is_shared_out_evenly(allowed: list[int], room: int) -> None:
    shares = share_out(allowed, room=room)
    assert sum(shares) == min(room, sum(allowed))
    assert all(share <= free for share, free in zip(shares, allowed, strict=True))
    # Nobody who could have one more has two less than somebody else.
    wanting = [share for share, free in zip(shares, allowed, strict=True) if share < free]
    assert not wanting or max(shares) - min(wanting) <= 1


def test_a_client_has_few_requests_in_flight() -> None:
    client = make_hooked(10)
    first = claim(STEADY, room=48)
    assert (len(first), claim(STEADY, room=48)) == (4, [])
    record([(first[0], OK)])
    assert len(claim(STEADY, room=48)) == 1
    assert Event.objects.filter(client=client, state="sending").count() == 4


def test_events_are_sent_in_the_order_of_their_time() -> None:
    make_hooked(6)
    first = claim(STEADY, room=48)
    assert [one.event_id for one in first] == sorted(Event.objects.values_list("id", flat=True))[:4]


def test_room_is_shared_between_clients() -> None:
    busy, other, third = make_hooked(10), make_hooked(1), make_hooked(2)
    assert of_clients(claim(STEADY, room=4)) == {busy.pk: 2, other.pk: 1, third.pk: 1}


def test_who_has_nothing_in_flight_comes_first() -> None:
    busy = make_hooked(10)
    claim(STEADY, room=2)
    other = make_hooked(3)
    assert of_clients(claim(STEADY, room=1)) == {other.pk: 1}
    assert of_clients(claim(STEADY, room=2)) == {other.pk: 1, busy.pk: 1}


def test_throughput_is_limited_and_the_rest_waits(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert delivery.share_of_one() == timedelta(seconds=1 / settings.WEBHOOK_PER_SECOND)
    # Three events at once and one every hundred seconds, which no test takes.
    monkeypatch.setattr(delivery, "BURST", timedelta(seconds=300))
    monkeypatch.setattr(delivery, "share_of_one", lambda: timedelta(seconds=100))
    settings.WEBHOOK_IN_FLIGHT = 100
    lane, _ = lanes()
    client = make_hooked(10)
    assert (len(claim(lane, room=48)), claim(lane, room=48)) == (3, [])
    assert Event.objects.filter(client=client, state="waiting").count() == 7
    for passed, more in ((20, 0), (110, 1), (220, 2), (6000, 3)):
        with transaction.atomic():
            Endpoint.objects.update(busy_until=F("busy_until") - timedelta(seconds=passed))
            assert len(claim(lane, room=48)) == more
            transaction.set_rollback(True)


def test_many_clients_of_an_account_do_not_fill_a_lane() -> None:
    account = make_account()
    for _ in range(8):
        make_hooked(10, account=account)
    other = make_hooked(10)
    first = claim(STEADY, room=48)
    assert len(first) == 12 + 4
    assert of_clients(first)[other.pk] == 4
    assert claim(STEADY, room=48) == []


def test_an_account_at_its_limit_takes_nobodys_place() -> None:
    account = make_account()
    for _ in range(10):
        make_hooked(10, account=account)
    assert len(claim(STEADY, room=48)) == 12
    other = make_hooked(1)
    assert of_clients(claim(STEADY, room=2)) == {other.pk: 1}


def test_a_long_backlog_comes_no_more_often_than_others() -> None:
    first, second = make_hooked(5), make_hooked(5)
    Event.objects.filter(client=first).update(next_attempt_at=Now() - timedelta(days=1))
    Endpoint.objects.update(failing_since=Now())
    served = []
    for _ in range(6):
        (attempt,) = claim(FAILING, room=1)
        served.append(attempt.client_id)
        record([(attempt, BROKEN)])
    assert sorted(served[:2]) == sorted(served[2:4]) == sorted(served[4:]) == [first.pk, second.pk]


def test_failing_endpoints_have_a_lane_of_their_own() -> None:
    failing, steady = make_hooked(5), make_hooked(5)
    Endpoint.objects.filter(client=failing).update(failing_since=Now())
    assert of_clients(claim(STEADY, room=48)) == {steady.pk: 4}
    (only,) = claim(FAILING, room=16)
    assert (only.client_id, claim(FAILING, room=16)) == (failing.pk, [])
    record([(only, OK)])
    assert Endpoint.objects.get(client=failing).failing_since is None
    assert of_clients(claim(STEADY, room=48)) == {failing.pk: 4}


def test_a_failure_moves_an_endpoint_to_the_other_lane() -> None:
    client = make_hooked(5)
    record([(one, BROKEN) for one in claim(STEADY, room=48)])
    assert Endpoint.objects.get(client=client).failing_since is not None
    assert claim(STEADY, room=48) == []
    assert len(claim(FAILING, room=48)) == 1


def test_nothing_is_sent_for_a_disabled_endpoint() -> None:
    client = make_hooked(3)
    endpoints.disable(client, by=SYSTEM)
    assert claim(STEADY, room=48) == []
    assert (delivery.give_up_disabled(), delivery.give_up_disabled()) == (3, 0)
    assert set(Event.objects.values_list("state", "failure")) == {("failed", "disabled")}


def test_nothing_waits_for_a_client_without_an_endpoint() -> None:
    write(make_client(make_account()), 1)
    assert (claim(STEADY, room=48), delivery.give_up_disabled()) == ([], 1)


def test_what_is_not_due_waits() -> None:
    make_hooked(2)
    Event.objects.update(next_attempt_at=Now() + timedelta(seconds=5))
    assert claim(STEADY, room=48) == []


@pytest.mark.django_db(transaction=True)
def test_many_who_claim_at_once_keep_to_the_limits() -> None:
    clients = [make_hooked(12) for _ in range(3)]
    taken: list[Attempt] = []

    def claim_often() -> None:
        for _ in range(5):
            taken.extend(claim(STEADY, room=5))

    at_once(6, claim_often)
    assert of_clients(taken) == {client.pk: 4 for client in clients}
    assert len({one.event_id for one in taken}) == 12


@pytest.mark.django_db(transaction=True)
def test_claims_results_and_sweeps_at_once_lose_nothing(settings: Settings) -> None:
    settings.WEBHOOK_PER_SECOND = 100_000
    clients = [make_hooked(25) for _ in range(4)]
    lane = Lane(slots=9, per_client=4, per_account=9, failing=False)

    def work() -> None:
        while Event.objects.exclude(state="delivered").exists():
            record([(one, OK) for one in claim(lane, room=9)])
            delivery.recover_lost()

    at_once(4, work)
    assert Event.objects.filter(state="delivered").count() == 25 * len(clients)
    assert Delivery.objects.count() == 25 * len(clients)


def expire() -> None:
    """Let the leases run out."""
    Event.objects.filter(state="sending").update(lease_expires_at=Now() - timedelta(seconds=1))


def test_a_lease_is_longer_than_a_request() -> None:
    make_hooked(1)
    claim(STEADY, room=1)
    lease = Event.objects.values_list(F("lease_expires_at") - Now(), flat=True).get()
    assert timedelta(seconds=25) < lease <= timedelta(seconds=30)
    assert delivery.recover_lost() == 0


def test_a_lost_worker_costs_no_attempt() -> None:
    make_hooked(1)
    (lost,) = claim(STEADY, room=1)
    expire()
    assert (delivery.recover_lost(), delivery.recover_lost()) == (1, 0)
    (again,) = claim(STEADY, room=1)
    assert (again.event, again.failures) == (lost.event, 0)
    assert again.delivery != lost.delivery
    assert list(Delivery.objects.order_by("id").values_list("outcome", flat=True)) == ["lost", "sending"]


@pytest.mark.parametrize("answer", [OK, BROKEN, Answer(status=400)])
def test_a_worker_that_was_taken_for_dead_writes_nothing(answer: Answer) -> None:
    make_hooked(1)
    (lost,) = claim(STEADY, room=1)
    expire()
    delivery.recover_lost()
    record([(lost, answer)])
    assert (Event.objects.get().state, Delivery.objects.get().outcome) == ("waiting", "lost")
    (again,) = claim(STEADY, room=1)
    record([(lost, answer)])
    assert Event.objects.get().state == "sending"
    record([(again, OK), (lost, BROKEN)])
    event = Event.objects.get()
    assert (event.state, event.failures) == ("delivered", 0)
    assert Endpoint.objects.get().failing_since is None


def test_the_sweep_announces_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    announced: list[bool] = []
    monkeypatch.setattr(events, "announce", lambda: announced.append(True))
    tasks.announce_due()
    assert announced == []
    make_hooked(1)
    tasks.announce_due()
    assert announced == [True]


def test_an_announcement_is_a_hint_and_not_too_many() -> None:
    for _ in range(20):
        events.announce()
    assert redis().llen("webhooks") == 10
