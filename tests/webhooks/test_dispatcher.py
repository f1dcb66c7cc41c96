"""The dispatcher with real receivers."""

import threading
from collections import Counter
from datetime import timedelta
from http.server import BaseHTTPRequestHandler

import psutil
import pytest
from django.core import mail
from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.db.models.functions import Now
from pytest_django import Settings

from clients.audit import SYSTEM
from clients.models import Client, Membership
from tests.factories import make_account, make_client
from tests.waiting import wait_until
from tests.webhooks.helpers import write_events
from tests.webhooks.receivers import Receiver, respond
from webhooks import connection_pool, dispatcher, endpoints, http_client, maintenance, retries, tasks
from webhooks.models import Delivery, Endpoint, Event
from webhooks.signing import signature

pytestmark = pytest.mark.django_db(transaction=True)


def make_client_sending_to(receiver: Receiver, path: str, *, count: int) -> Client:
    """Create a client with due events that are sent to a path of the receiver."""
    client = make_client(make_account())
    endpoints.configure(client, receiver.url(path), by=SYSTEM)
    write_events(client, count)
    return client


@pytest.mark.slow
def test_hanging_receivers_delay_no_other_deliveries(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirteen hanging clients can fill all steady slots once, but not again."""
    monkeypatch.setattr(http_client, "TIMEOUT_SECONDS", 1.0)
    hanging = [make_client_sending_to(receiver, "/silence", count=6) for _ in range(13)]
    healthy = [make_client_sending_to(receiver, "/200", count=8) for _ in range(4)]
    failed = Delivery.objects.filter(event__client__in=hanging, outcome="failed")
    stop = threading.Event()
    worker = threading.Thread(target=run, args=[stop])
    worker.start()
    wait_until(lambda: Event.objects.filter(client__in=healthy, state="delivered").count() == 32, seconds=60)
    wait_until(lambda: failed.count() >= 13 * 5, seconds=60)
    stop.set()
    worker.join()
    for client in hanging:
        times = failed.filter(event__client=client).order_by("started_at").values_list("started_at", "duration_ms")
        end_times = [start + timedelta(milliseconds=duration or 0) for start, duration in times]
        # The first four at once, the others one at a time.
        assert all(start >= max(end_times[:number]) for number, (start, _) in enumerate(times) if number >= 4)
    assert not Event.objects.filter(state="sending").exists()


def run(stop: threading.Event) -> None:
    dispatcher.Dispatcher(stop).run()
    connection.close()


def test_deliveries_share_connections_until_the_end(receiver: Receiver, settings: Settings) -> None:
    settings.WEBHOOK_PER_SECOND = 1000
    receiver.keeps_open = True
    make_client_sending_to(receiver, "/200", count=40)
    tasks.deliver()
    assert len(receiver.received) == 40
    assert len(receiver.connections()) <= settings.WEBHOOK_IN_FLIGHT
    sockets = psutil.Process().net_connections("tcp")
    assert not [one for one in sockets if one.raddr and one.raddr.port == receiver.port]


def test_idle_connections_close_while_others_are_used(
    receiver: Receiver, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEBHOOK_PER_SECOND = 1000
    receiver.keeps_open = True
    monkeypatch.setattr(connection_pool, "IDLE_SECONDS", 0.2)
    closed = threading.Event()

    def wait_for_close(request: BaseHTTPRequestHandler) -> None:
        if closed.wait(5):
            respond(request, 200)

    def respond_and_watch(request: BaseHTTPRequestHandler) -> None:
        respond(request, 200)
        assert request.rfile.read(1) == b""
        closed.set()

    receiver.responders = {"/idle": respond_and_watch, "/used": wait_for_close}
    make_client_sending_to(receiver, "/idle", count=1)
    make_client_sending_to(receiver, "/used", count=1)
    tasks.deliver()
    assert Event.objects.filter(state="delivered").count() == 2


def test_a_client_receives_four_requests_at_a_time(receiver: Receiver, settings: Settings) -> None:
    settings.WEBHOOK_PER_SECOND = 1000
    present, max_present, four = Counter[str](), Counter[str](), threading.Barrier(4)

    def hold(request: BaseHTTPRequestHandler) -> None:
        present[request.path] += 1
        max_present[request.path] = max(max_present[request.path], present[request.path])
        # Respond once four requests are in progress.
        four.wait(30)
        present[request.path] -= 1
        respond(request, 200)

    receiver.responders = {"/hold": hold}
    make_client_sending_to(receiver, "/hold", count=12)
    tasks.deliver()
    assert Event.objects.filter(state="delivered").count() == 12
    assert max_present == {"/hold": 4}


def test_nothing_is_locked_during_a_request(receiver: Receiver) -> None:
    def check_unlocked(request: BaseHTTPRequestHandler) -> None:
        with transaction.atomic():
            for model in (Endpoint, Event, Delivery):
                model.objects.select_for_update(nowait=True).get()
        connection.close()
        respond(request, 200)

    receiver.responders = {"/look": check_unlocked}
    make_client_sending_to(receiver, "/look", count=1)
    tasks.deliver()
    assert Event.objects.get().state == "delivered"


def test_a_stopped_worker_records_requests_in_progress(receiver: Receiver) -> None:
    make_client_sending_to(receiver, "/stop", count=8)
    stop = threading.Event()

    def set_stop(request: BaseHTTPRequestHandler) -> None:
        stop.set()
        respond(request, 200)

    receiver.responders = {"/stop": set_stop}
    dispatcher.Dispatcher(stop).run()
    assert Counter(Event.objects.values_list("state", flat=True)) == {"delivered": 4, "waiting": 4}


def test_after_a_rotation_there_is_one_signature(configured: tuple[Client, str], receiver: Receiver) -> None:
    new = endpoints.rotate(configured[0], by=SYSTEM)
    write_events(configured[0], 1)
    tasks.deliver()
    (request,) = receiver.received
    at, only = request.headers["X-Service-Signature"].split(",")
    assert only == f"v1={signature(new, request.body, at=int(at[2:]))}"


def test_during_an_overlap_the_new_signature_is_last(configured: tuple[Client, str], receiver: Receiver) -> None:
    client, old = configured
    new = endpoints.rotate(client, by=SYSTEM, overlap=timedelta(days=1))
    write_events(client, 1)
    tasks.deliver()
    (request,) = receiver.received
    at, *signatures = request.headers["X-Service-Signature"].split(",")
    expected = [f"v1={signature(secret, request.body, at=int(at[2:]))}" for secret in (old, new)]
    assert signatures == expected


def test_a_missing_key_fails_only_the_attempt(
    configured: tuple[Client, str], receiver: Receiver, settings: Settings
) -> None:
    write_events(configured[0], 1)
    settings.SECRET_KEY = "another key"
    other = make_client_sending_to(receiver, "/200", count=1)
    tasks.deliver()
    assert Event.objects.get(client=other).state == "delivered"
    assert Event.objects.get(client=configured[0]).state == "waiting"
    assert Delivery.objects.get(event__client=configured[0]).problem == "internal"


def test_a_missing_key_disables_no_endpoint(
    configured: tuple[Client, str], monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr(retries, "DISABLED_AFTER", timedelta(0))
    write_events(configured[0], 1)
    settings.SECRET_KEY = "another key"
    tasks.deliver()
    endpoint = Endpoint.objects.get()
    assert (Delivery.objects.get().problem, endpoint.is_enabled, endpoint.failing_since) == ("internal", True, None)


def test_a_bug_with_one_event_fails_only_its_attempt(
    configured: tuple[Client, str], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "post", lambda *_, **__: 1 / 0)
    write_events(configured[0], 1)
    tasks.deliver()
    assert (Event.objects.get().state, Delivery.objects.get().problem) == ("waiting", "internal")


def test_an_event_is_resent_after_a_database_failure(
    configured: tuple[Client, str], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DatabaseError("gone")

    write_events(configured[0], 1)
    with monkeypatch.context() as patch:
        patch.setattr(retries, "record_responses", fail)
        tasks.deliver()
    assert Event.objects.get().state == "sending"
    Event.objects.update(lease_expires_at=Now())
    tasks.announce_due()
    tasks.deliver()
    assert Event.objects.get().state == "delivered"
    assert len(set(receiver.events())) == 1
    assert len(receiver.received) == 2


def fail_since(client: Client, days: float) -> Endpoint:
    """Let an event fail at an endpoint that has been failing for a number of days."""
    Endpoint.objects.filter(client=client).update(failing_since=Now() - timedelta(days=days))
    write_events(client, 1)
    tasks.deliver()
    return Endpoint.objects.get(client=client)


def test_owners_are_notified_after_five_days_of_failures(
    configured: tuple[Client, str], receiver: Receiver, django_user_model: type
) -> None:
    client, _ = configured
    for name, role in (("ada", "owner"), ("bob", "member"), ("eve", "owner")):
        user = django_user_model.objects.create_user(name, f"{name}@example.com")  # type: ignore[attr-defined]
        Membership.objects.create(user=user, account=client.account, role=role)
    endpoints.set_url(client, receiver.url("/500"), by=SYSTEM)
    assert fail_since(client, 4.99).is_enabled
    endpoint = fail_since(client, 5)
    assert (endpoint.disabled_for, endpoint.secret) == ("failing", "")
    assert list(endpoints.switched_off(client.account)) == [endpoint]
    for _ in range(2):
        tasks.maintain()
    # A concurrent task that read the endpoint before.
    assert not maintenance.notify_owners_of(endpoint)
    (message,) = mail.outbox
    assert sorted(message.to) == ["ada@example.com", "eve@example.com"]
    assert receiver.url("/500") in message.body
    assert "\n\nLast attempt: The response had status 500.\n\n" in message.body
    assert set(Event.objects.values_list("state", "failure")) == {("failed", "disabled")}
    assert endpoints.configure(client, receiver.url(), by=SYSTEM)
    assert Endpoint.objects.get().failing_since is None


def test_owners_are_notified_later_if_the_mail_fails(
    configured: tuple[Client, str], receiver: Receiver, django_user_model: type, settings: Settings
) -> None:
    client, _ = configured
    user = django_user_model.objects.create_user("ada", "ada@example.com")  # type: ignore[attr-defined]
    Membership.objects.create(user=user, account=client.account, role="owner")
    endpoints.set_url(client, receiver.url("/500"), by=SYSTEM)
    fail_since(client, 6)
    working = settings.EMAIL_BACKEND
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_PORT = receiver.port
    settings.EMAIL_TIMEOUT = 0.1
    tasks.maintain()
    endpoint = Endpoint.objects.get()
    assert endpoint.tell_owners_at is not None
    settings.EMAIL_BACKEND = working
    tasks.maintain()
    assert mail.outbox == []
    Endpoint.objects.update(tell_owners_at=Now())
    tasks.maintain()
    assert len(mail.outbox) == 1
