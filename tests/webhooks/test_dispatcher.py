"""The delivery worker at work with real receivers."""

import threading
from collections import Counter
from datetime import timedelta
from http.server import BaseHTTPRequestHandler

import pytest
from django.core import mail
from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.db.models.functions import Now
from pytest_django import Settings

from clients.audit import SYSTEM
from clients.models import Client, Membership
from tests.factories import make_account, make_client
from tests.jobs.simulators import wait_until
from tests.webhooks.receivers import Receiver, answer
from tests.webhooks.test_claims import write
from webhooks import delivery, dispatcher, endpoints, http_client, maintenance, tasks
from webhooks.models import Delivery, Endpoint, Event
from webhooks.signing import signature

pytestmark = pytest.mark.django_db(transaction=True)


def make_hooked(receiver: Receiver, path: str, *, count: int) -> Client:
    """Make a client whose events go to a path of the receiver."""
    client = make_client(make_account())
    endpoints.configure(client, receiver.url(path), by=SYSTEM)
    write(client, count)
    return client


def test_receivers_that_hang_have_few_slots_and_delay_nobody_else(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirteen clients hang and could fill all of the steady slots; each does so once, and not for each event."""
    monkeypatch.setattr(http_client, "TIMEOUT_SECONDS", 1.0)
    hanging = [make_hooked(receiver, "/silence", count=6) for _ in range(13)]
    well = [make_hooked(receiver, "/200", count=8) for _ in range(4)]
    failed = Delivery.objects.filter(event__client__in=hanging, outcome="failed")
    stop = threading.Event()
    worker = threading.Thread(target=run, args=[stop])
    worker.start()
    wait_until(lambda: Event.objects.filter(client__in=well, state="delivered").count() == 32, seconds=60)
    wait_until(lambda: failed.count() >= 13 * 5, seconds=60)
    stop.set()
    worker.join()
    for client in hanging:
        times = failed.filter(event__client=client).order_by("started_at").values_list("started_at", "duration_ms")
        ends = [start + timedelta(milliseconds=duration or 0) for start, duration in times]
        # The first four at once, and when it is known to hang, one after the other.
        assert all(start >= max(ends[:number]) for number, (start, _) in enumerate(times) if number >= 4)
    assert not Event.objects.filter(state="sending").exists()


def run(stop: threading.Event) -> None:
    dispatcher.Dispatcher(stop).run()
    connection.close()


def test_a_client_is_sent_as_much_at_a_time_as_it_may_be(receiver: Receiver, settings: Settings) -> None:
    settings.WEBHOOK_PER_SECOND = 1000
    present, most, four = Counter[str](), Counter[str](), threading.Barrier(4)

    def hold(request: BaseHTTPRequestHandler) -> None:
        present[request.path] += 1
        most[request.path] = max(most[request.path], present[request.path])
        # Answered when four are there.
        four.wait(30)
        present[request.path] -= 1
        answer(request, 200)

    receiver.answers = {"/hold": hold}
    make_hooked(receiver, "/hold", count=12)
    tasks.deliver()
    assert Event.objects.filter(state="delivered").count() == 12
    assert most == {"/hold": 4}


def test_nothing_is_locked_while_a_receiver_is_waited_for(receiver: Receiver) -> None:
    def look(request: BaseHTTPRequestHandler) -> None:
        with transaction.atomic():
            for model in (Endpoint, Event, Delivery):
                model.objects.select_for_update(nowait=True).get()
        connection.close()
        answer(request, 200)

    receiver.answers = {"/look": look}
    make_hooked(receiver, "/look", count=1)
    tasks.deliver()
    assert Event.objects.get().state == "delivered"


def test_a_worker_that_is_stopped_writes_down_what_is_under_way(receiver: Receiver) -> None:
    make_hooked(receiver, "/stop", count=8)
    stop = threading.Event()

    def ask_to_stop(request: BaseHTTPRequestHandler) -> None:
        stop.set()
        answer(request, 200)

    receiver.answers = {"/stop": ask_to_stop}
    dispatcher.Dispatcher(stop).run()
    assert Counter(Event.objects.values_list("state", flat=True)) == {"delivered": 4, "waiting": 4}


def test_a_rotation_leaves_the_header_with_one_signature(hooked: tuple[Client, str], receiver: Receiver) -> None:
    new = endpoints.rotate(hooked[0], by=SYSTEM)
    write(hooked[0], 1)
    tasks.deliver()
    (request,) = receiver.received
    at, only = request.headers["X-Service-Signature"].split(",")
    assert only == f"v1={signature(new, request.body, at=int(at[2:]))}"


def test_during_an_overlap_both_signatures_are_sent_the_new_one_last(
    hooked: tuple[Client, str], receiver: Receiver
) -> None:
    client, old = hooked
    new = endpoints.rotate(client, by=SYSTEM, overlap=timedelta(days=1))
    write(client, 1)
    tasks.deliver()
    (request,) = receiver.received
    at, *signatures = request.headers["X-Service-Signature"].split(",")
    wanted = [f"v1={signature(secret, request.body, at=int(at[2:]))}" for secret in (old, new)]
    assert signatures == wanted


def test_a_secret_that_cannot_be_opened_fails_the_attempt_and_nothing_else(
    hooked: tuple[Client, str], receiver: Receiver, settings: Settings
) -> None:
    write(hooked[0], 1)
    settings.SECRET_KEY = "another key"
    other = make_hooked(receiver, "/200", count=1)
    tasks.deliver()
    assert Event.objects.get(client=other).state == "delivered"
    assert Event.objects.get(client=hooked[0]).state == "waiting"
    assert Delivery.objects.get(event__client=hooked[0]).problem == "internal"


def test_a_missing_key_disables_no_endpoint(
    hooked: tuple[Client, str], monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr(delivery, "DISABLED_AFTER", timedelta(0))
    write(hooked[0], 1)
    settings.SECRET_KEY = "another key"
    tasks.deliver()
    endpoint = Endpoint.objects.get()
    assert (Delivery.objects.get().problem, endpoint.is_enabled, endpoint.failing_since) == ("internal", True, None)


def test_a_bug_with_one_event_fails_its_attempt_only(
    hooked: tuple[Client, str], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "send", lambda *_: 1 / 0)
    write(hooked[0], 1)
    tasks.deliver()
    assert (Event.objects.get().state, Delivery.objects.get().problem) == ("waiting", "internal")


def test_a_database_that_goes_away_leaves_the_event_to_its_lease(
    hooked: tuple[Client, str], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DatabaseError("gone")

    write(hooked[0], 1)
    with monkeypatch.context() as patch:
        patch.setattr(delivery, "record", fail)
        tasks.deliver()
    assert Event.objects.get().state == "sending"
    Event.objects.update(lease_expires_at=Now())
    tasks.announce_due()
    tasks.deliver()
    assert Event.objects.get().state == "delivered"
    assert len(set(receiver.events())) == 1
    assert len(receiver.received) == 2


def fail_since(client: Client, days: float) -> Endpoint:
    """Let an event fail at an endpoint that has failed for so long."""
    Endpoint.objects.filter(client=client).update(failing_since=Now() - timedelta(days=days))
    write(client, 1)
    tasks.deliver()
    return Endpoint.objects.get(client=client)


def test_five_days_of_failures_disable_an_endpoint_and_its_owners_are_told(
    hooked: tuple[Client, str], receiver: Receiver, django_user_model: type
) -> None:
    client, _ = hooked
    for name, role in (("ada", "owner"), ("bob", "member"), ("eve", "owner")):
        user = django_user_model.objects.create_user(name, f"{name}@example.com")  # type: ignore[attr-defined]
        Membership.objects.create(user=user, account=client.account, role=role)
    endpoints.set_url(client, receiver.url("/500"), by=SYSTEM)
    assert fail_since(client, 4.99).is_enabled
    endpoint = fail_since(client, 5)
    assert (endpoint.disabled_for, endpoint.secret) == ("failing", "")
    assert list(endpoints.switched_off(client.account)) == [endpoint]
    for _ in range(2):
        tasks.keep()
    # Another sweep that had found it untold as well.
    assert not maintenance.tell_owners_of(endpoint)
    (message,) = mail.outbox
    assert sorted(message.to) == ["ada@example.com", "eve@example.com"]
    assert receiver.url("/500") in message.body
    assert set(Event.objects.values_list("state", "failure")) == {("failed", "disabled")}
    assert endpoints.enable(client, by=SYSTEM)
    assert Endpoint.objects.get().failing_since is None


def test_owners_are_told_later_when_no_mail_can_be_sent(
    hooked: tuple[Client, str], receiver: Receiver, django_user_model: type, settings: Settings
) -> None:
    client, _ = hooked
    user = django_user_model.objects.create_user("ada", "ada@example.com")  # type: ignore[attr-defined]
    Membership.objects.create(user=user, account=client.account, role="owner")
    endpoints.set_url(client, receiver.url("/500"), by=SYSTEM)
    fail_since(client, 6)
    working = settings.EMAIL_BACKEND
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_PORT = receiver.port
    settings.EMAIL_TIMEOUT = 0.1
    tasks.keep()
    endpoint = Endpoint.objects.get()
    assert endpoint.tell_owners_at is not None
    settings.EMAIL_BACKEND = working
    tasks.keep()
    assert mail.outbox == []
    Endpoint.objects.update(tell_owners_at=Now())
    tasks.keep()
    assert len(mail.outbox) == 1
