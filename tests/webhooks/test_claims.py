"""Claims of due events: limits of each client, fairness between clients, leases."""

from collections import Counter
from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries, Settings

from clients.audit import SYSTEM
from simservice.redis.client import redis
from tests.concurrency import at_once
from tests.factories import make_account, make_client
from tests.webhooks.helpers import FAILING, STEADY, make_client_with_events, write_events
from webhooks import claims, endpoints, events, maintenance, retries, tasks
from webhooks.claims import Attempt, SlotPool, claim_deliveries, distribute
from webhooks.dispatcher import pools
from webhooks.http_client import Response
from webhooks.models import Delivery, Endpoint, Event
from webhooks.retries import record_responses

pytestmark = pytest.mark.django_db

OK = Response(status=200)
ERROR = Response(status=500)


def by_client(attempts: list[Attempt]) -> dict[int, int]:
    return dict(Counter(attempt.client_id for attempt in attempts))


@given(allowed=st.lists(st.integers(0, 9), max_size=9), room=st.integers(0, 40))
def test_free_slots_are_distributed_evenly(allowed: list[int], room: int) -> None:
    shares = distribute(allowed, room=room)
    assert sum(shares) == min(room, sum(allowed))
    assert all(share <= free for share, free in zip(shares, allowed, strict=True))
    # Unless limited, no share is smaller than another by more than one.
    unsatisfied = [share for share, free in zip(shares, allowed, strict=True) if share < free]
    assert not unsatisfied or max(shares) - min(unsatisfied) <= 1


def test_a_client_has_at_most_four_requests_in_flight() -> None:
    client = make_client_with_events(10)
    first = claim_deliveries(STEADY, room=48)
    assert (len(first), claim_deliveries(STEADY, room=48)) == (4, [])
    record_responses([(first[0], OK)])
    assert len(claim_deliveries(STEADY, room=48)) == 1
    assert Event.objects.filter(client=client, state="sending").count() == 4


def test_the_earliest_due_events_are_claimed_first() -> None:
    make_client_with_events(6)
    first = claim_deliveries(STEADY, room=48)
    assert [claimed_event.event_id for claimed_event in first] == sorted(
        Event.objects.values_list("id", flat=True)
    )[:4]


def test_free_slots_are_shared_between_clients() -> None:
    busy, other, third = make_client_with_events(10), make_client_with_events(1), make_client_with_events(2)
    assert by_client(claim_deliveries(STEADY, room=4)) == {busy.pk: 2, other.pk: 1, third.pk: 1}


def test_clients_with_nothing_in_flight_come_first() -> None:
    busy = make_client_with_events(10)
    claim_deliveries(STEADY, room=2)
    other = make_client_with_events(3)
    assert by_client(claim_deliveries(STEADY, room=1)) == {other.pk: 1}
    assert by_client(claim_deliveries(STEADY, room=2)) == {other.pk: 1, busy.pk: 1}


def test_events_beyond_the_throughput_limit_wait(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert claims.send_interval() == timedelta(seconds=1 / settings.WEBHOOK_PER_SECOND)
    # Three events at once, then one every 100 seconds, longer than any test.
    monkeypatch.setattr(claims, "BURST", timedelta(seconds=300))
    monkeypatch.setattr(claims, "send_interval", lambda: timedelta(seconds=100))
    settings.WEBHOOK_IN_FLIGHT = 100
    pool, _ = pools()
    client = make_client_with_events(10)
    assert (len(claim_deliveries(pool, room=48)), claim_deliveries(pool, room=48)) == (3, [])
    assert Event.objects.filter(client=client, state="waiting").count() == 7
    for passed, more in ((20, 0), (110, 1), (220, 2), (6000, 3)):
        with transaction.atomic():
            Endpoint.objects.update(busy_until=F("busy_until") - timedelta(seconds=passed))
            assert len(claim_deliveries(pool, room=48)) == more
            transaction.set_rollback(True)


def test_many_clients_of_one_account_do_not_fill_a_pool() -> None:
    account = make_account()
    for _ in range(8):
        make_client_with_events(10, account=account)
    other = make_client_with_events(10)
    first = claim_deliveries(STEADY, room=48)
    assert len(first) == 12 + 4
    assert by_client(first)[other.pk] == 4
    assert claim_deliveries(STEADY, room=48) == []


def test_an_account_at_its_limit_leaves_slots_to_others() -> None:
    account = make_account()
    for _ in range(10):
        make_client_with_events(10, account=account)
    assert len(claim_deliveries(STEADY, room=48)) == 12
    other = make_client_with_events(1)
    assert by_client(claim_deliveries(STEADY, room=2)) == {other.pk: 1}


def test_a_long_backlog_is_not_served_more_often() -> None:
    first, second = make_client_with_events(5), make_client_with_events(5)
    Event.objects.filter(client=first).update(next_attempt_at=Now() - timedelta(days=1))
    Endpoint.objects.update(failing_since=Now())
    served = []
    for _ in range(6):
        (attempt,) = claim_deliveries(FAILING, room=1)
        served.append(attempt.client_id)
        record_responses([(attempt, ERROR)])
    assert sorted(served[:2]) == sorted(served[2:4]) == sorted(served[4:]) == [first.pk, second.pk]


def test_failing_endpoints_use_their_own_pool() -> None:
    failing, steady = make_client_with_events(5), make_client_with_events(5)
    Endpoint.objects.filter(client=failing).update(failing_since=Now())
    assert by_client(claim_deliveries(STEADY, room=48)) == {steady.pk: 4}
    (only,) = claim_deliveries(FAILING, room=16)
    assert (only.client_id, claim_deliveries(FAILING, room=16)) == (failing.pk, [])
    record_responses([(only, OK)])
    assert Endpoint.objects.get(client=failing).failing_since is None
    assert by_client(claim_deliveries(STEADY, room=48)) == {failing.pk: 4}


def test_a_failure_moves_an_endpoint_to_the_failing_pool() -> None:
    client = make_client_with_events(5)
    record_responses([(claimed_event, ERROR) for claimed_event in claim_deliveries(STEADY, room=48)])
    assert Endpoint.objects.get(client=client).failing_since is not None
    assert claim_deliveries(STEADY, room=48) == []
    assert len(claim_deliveries(FAILING, room=48)) == 1


def test_events_of_a_disabled_endpoint_fail() -> None:
    client = make_client_with_events(3)
    endpoints.disable(client, by=SYSTEM)
    assert claim_deliveries(STEADY, room=48) == []
    assert (maintenance.fail_undeliverable(), maintenance.fail_undeliverable()) == (3, 0)
    assert set(Event.objects.values_list("state", "failure")) == {("failed", "disabled")}


def test_events_of_a_client_without_an_endpoint_fail() -> None:
    write_events(make_client(make_account()), 1)
    assert (claim_deliveries(STEADY, room=48), maintenance.fail_undeliverable()) == ([], 1)


def test_events_that_are_not_due_wait() -> None:
    make_client_with_events(2)
    Event.objects.update(next_attempt_at=Now() + timedelta(seconds=5))
    assert claim_deliveries(STEADY, room=48) == []


@pytest.mark.django_db(transaction=True)
def test_concurrent_claims_respect_the_limits() -> None:
    clients = [make_client_with_events(12) for _ in range(3)]
    claimed: list[Attempt] = []

    def claim_often() -> None:
        for _ in range(5):
            claimed.extend(claim_deliveries(STEADY, room=5))

    at_once(6, claim_often)
    assert max(by_client(claimed).values()) <= 4
    # The last of these claims may have skipped an endpoint that another one had locked.
    claimed.extend(claim_deliveries(STEADY, room=12))
    assert by_client(claimed) == {client.pk: 4 for client in clients}
    assert len({claimed_event.event_id for claimed_event in claimed}) == 12


@pytest.mark.django_db(transaction=True)
def test_concurrent_claims_and_sweeps_lose_no_event(settings: Settings) -> None:
    settings.WEBHOOK_PER_SECOND = 100_000
    clients = [make_client_with_events(25) for _ in range(4)]
    pool = SlotPool(slots=9, per_client=4, per_account=9, failing=False)

    def work() -> None:
        while Event.objects.exclude(state="delivered").exists():
            record_responses([(claimed_event, OK) for claimed_event in claim_deliveries(pool, room=9)])
            retries.recover_lost()

    at_once(4, work)
    assert Event.objects.filter(state="delivered").count() == 25 * len(clients)
    assert Delivery.objects.count() == 25 * len(clients)


def expire_leases() -> None:
    """Let all leases expire."""
    Event.objects.filter(state="sending").update(lease_expires_at=Now() - timedelta(seconds=1))


def test_a_lease_lasts_longer_than_a_request() -> None:
    make_client_with_events(1)
    claim_deliveries(STEADY, room=1)
    lease = Event.objects.values_list(F("lease_expires_at") - Now(), flat=True).get()
    assert timedelta(seconds=25) < lease <= timedelta(seconds=30)
    assert retries.recover_lost() == 0


def test_a_lost_worker_does_not_count_as_a_failure() -> None:
    make_client_with_events(1)
    (lost,) = claim_deliveries(STEADY, room=1)
    expire_leases()
    assert (retries.recover_lost(), retries.recover_lost()) == (1, 0)
    (again,) = claim_deliveries(STEADY, room=1)
    assert (again.event, again.failures) == (lost.event, 0)
    assert again.delivery != lost.delivery
    assert list(Delivery.objects.order_by("id").values_list("outcome", flat=True)) == ["lost", "sending"]


@pytest.mark.parametrize("response", [OK, ERROR, Response(status=400)])
def test_a_worker_declared_lost_records_nothing(response: Response) -> None:
    make_client_with_events(1)
    (lost,) = claim_deliveries(STEADY, room=1)
    expire_leases()
    retries.recover_lost()
    record_responses([(lost, response)])
    assert (Event.objects.get().state, Delivery.objects.get().outcome) == ("waiting", "lost")
    (again,) = claim_deliveries(STEADY, room=1)
    record_responses([(lost, response)])
    assert Event.objects.get().state == "sending"
    record_responses([(again, OK), (lost, ERROR)])
    event = Event.objects.get()
    assert (event.state, event.failures) == ("delivered", 0)
    assert Endpoint.objects.get().failing_since is None


def test_the_sweep_announces_due_events(monkeypatch: pytest.MonkeyPatch) -> None:
    announced: list[bool] = []
    monkeypatch.setattr(events, "announce", lambda: announced.append(True))
    tasks.announce_due()
    assert announced == []
    make_client_with_events(1)
    tasks.announce_due()
    assert announced == [True]


def test_an_idle_sweep_of_events_costs_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    make_client_with_events(3)
    claim_deliveries(STEADY, room=1)
    Event.objects.filter(state="waiting").update(next_attempt_at=Now() + timedelta(minutes=1))
    with django_assert_num_queries(1):
        tasks.announce_due()


@pytest.mark.slow
@given(ages=st.lists(st.tuples(st.sampled_from(["waiting", "sending"]), st.integers(-2, 2)), max_size=4))
def test_the_sweep_of_events_looks_for_due_and_lost_ones(ages: list[tuple[str, int]]) -> None:
    with transaction.atomic():
        make_client_with_events(len(ages))
        for event, (state, age) in zip(Event.objects.all(), ages, strict=True):
            at = Now() - timedelta(hours=age, minutes=1)
            column = "next_attempt_at" if state == "waiting" else "lease_expires_at"
            Event.objects.filter(pk=event.pk).update(
                **{"state": state, "next_attempt_at": None, "lease_expires_at": None, column: at}
            )
        lost = Event.objects.filter(state="sending", lease_expires_at__lt=Now())
        assert retries.is_sweep_needed() is (events.due().exists() or lost.exists())
        transaction.set_rollback(True)


def test_at_most_ten_announcements_are_queued() -> None:
    for _ in range(20):
        events.announce()
    assert redis().llen("webhooks") == 10
