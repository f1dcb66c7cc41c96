"""Retention, gauges, and what operators see."""

from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.db.models import Model
from django.db.models.functions import Now
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from clients.models import Client
from tests.factories import make_account
from tests.webhooks.receivers import Receiver
from tests.webhooks.test_claims import STEADY, write
from tests.webhooks.test_claims import make_hooked as make_client_with_events
from webhooks import maintenance, tasks
from webhooks.delivery import claim, record
from webhooks.http_client import Answer
from webhooks.metrics import DeliveryCollector
from webhooks.models import Delivery, Endpoint, Event

pytestmark = pytest.mark.django_db


def end(state: str, *, days_ago: float) -> Event:
    """Make an event that was created so long ago and is in a state now."""
    client = make_client_with_events(1, account=make_account())
    (attempt,) = claim(STEADY, room=1)
    if state != "sending":
        record([(attempt, Answer(status={"delivered": 200, "failed": 400, "waiting": 500}[state]))])
    Event.objects.filter(client=client).update(created_at=Now() - timedelta(days=days_ago))
    return Event.objects.get(client=client)


def test_ended_events_are_forgotten_after_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for state in ("delivered", "failed", "delivered"):
        end(state, days_ago=30.1)
    kept = [end("waiting", days_ago=31), end("sending", days_ago=31), end("failed", days_ago=29.9)]
    monkeypatch.setattr(maintenance, "BATCH", 2)
    assert [maintenance.forget_events() for _ in range(3)] == [2, 1, 0]
    assert list(Event.objects.order_by("id")) == kept
    assert set(Delivery.objects.values_list("event", flat=True)) == {event.pk for event in kept}


def test_what_is_old_is_forgotten_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "BATCH", 2)
    for _ in range(5):
        end("delivered", days_ago=31)
    tasks.keep()
    assert not Event.objects.exists()


def gauges() -> dict[str, float]:
    """Return the gauges by name and label."""
    samples = [sample for family in DeliveryCollector().collect() for sample in family.samples]
    return {
        f"{sample.name.removeprefix('simservice_webhooks_')}{''.join(sample.labels.values())}": sample.value
        for sample in samples
    }


def test_the_gauges_tell_what_is_due_and_how_attempts_end() -> None:
    end("delivered", days_ago=0)
    end("waiting", days_ago=0)
    old = end("failed", days_ago=0)
    old.deliveries.update(started_at=Now() - timedelta(minutes=6))
    make_client_with_events(2)
    Event.objects.filter(state="waiting", failures=0).update(next_attempt_at=Now() - timedelta(seconds=7))
    with CaptureQueriesContext(
        connection,
    ) as queries:
        told = gauges()
    assert (told["due"], told["failing_endpoints"]) == (2, 2)
    assert 7 <= told["oldest_due_seconds"] < 9
    assert (told["attemptsdelivered"], told["attemptsfailed"], told["attemptsrejected"]) == (1, 1, 0)
    assert len(queries) == 3


def test_without_events_the_gauges_are_nothing() -> None:
    assert set(gauges().values()) == {0}


@pytest.fixture
def operator() -> Browser:
    browser = Browser()
    browser.force_login(get_user_model().objects.create_superuser("operator"))
    return browser


@pytest.mark.parametrize("model", [Endpoint, Event, Delivery])
def test_operators_see_everything_but_secrets(model: type[Model], operator: Browser) -> None:
    event = end("failed", days_ago=0)
    shown = {Endpoint: event.client_id, Event: event.pk, Delivery: Delivery.objects.get().pk}[model]
    name = f"admin:webhooks_{model.__name__.lower()}"
    listing = operator.get(reverse(f"{name}_changelist"))
    page = operator.get(reverse(f"{name}_change", args=[shown]))
    assert (listing.status_code, page.status_code) == (200, 200)
    assert Endpoint.objects.get().secret not in page.content.decode()
    assert 'name="_save"' not in page.content.decode()
    if model is Event:
        assert "job.terminal" in page.content.decode()


@pytest.mark.django_db(transaction=True)
def test_operators_send_events_again(operator: Browser, hooked: tuple[Client, str], receiver: Receiver) -> None:
    write(hooked[0], 2)
    tasks.deliver()
    chosen = {"action": "redeliver", "_selected_action": list(Event.objects.values_list("pk", flat=True))}
    answer = operator.post(reverse("admin:webhooks_event_changelist"), chosen, follow=True)
    assert "2 events will be sent again" in answer.content.decode()
    tasks.deliver()
    assert len(receiver.received) == 4
    assert len(set(receiver.events())) == 2


def test_operators_are_told_what_cannot_be_sent_again(operator: Browser) -> None:
    event = end("failed", days_ago=0)
    Endpoint.objects.update(disabled_at=Now(), disabled_for="owner", secret="")
    chosen = {"action": "redeliver", "_selected_action": [event.pk]}
    answer = operator.post(reverse("admin:webhooks_event_changelist"), chosen, follow=True)
    assert "The client has no enabled webhook." in answer.content.decode()


def test_what_operators_send_again_is_recorded_and_takes_a_permission(operator: Browser) -> None:
    sent, disabled = end("failed", days_ago=0), end("failed", days_ago=0)
    Endpoint.objects.filter(client=disabled.client).update(disabled_at=Now(), disabled_for="owner", secret="")
    helper = Browser()
    user = get_user_model().objects.create_user("helper", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_event"))
    helper.force_login(user)
    chosen = {"action": "redeliver", "_selected_action": [sent.pk, disabled.pk]}
    for browser, expected in ((helper, []), (operator, [("Sent again", str(sent.pk))])):
        browser.post(reverse("admin:webhooks_event_changelist"), chosen)
        assert list(LogEntry.objects.values_list("change_message", "object_id")) == expected


@pytest.mark.parametrize("model", [Endpoint, Event, Delivery])
def test_the_admins_lists_take_as_many_queries_however_much_there_is(model: type[Model], operator: Browser) -> None:
    path = reverse(f"admin:webhooks_{model.__name__.lower()}_changelist")
    taken = []
    for _ in range(3):
        end("failed", days_ago=0)
        with CaptureQueriesContext(connection) as queries:
            operator.get(path)
        taken.append(len(queries))
    assert taken[1] == taken[2] <= 12


def test_an_events_page_in_the_admin_takes_as_many_queries_however_many_attempts(operator: Browser) -> None:
    event = end("failed", days_ago=0)
    taken = []
    # The first time, Django also looks up what it then remembers.
    for _ in range(3):
        Delivery.objects.create(event=event, outcome="failed", started_at=Now())
        with CaptureQueriesContext(connection) as queries:
            operator.get(reverse("admin:webhooks_event_change", args=[event.pk]))
        taken.append(len(queries))
    assert taken[1] == taken[2] <= 12
