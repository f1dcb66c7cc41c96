"""Admin pages of webhooks."""

import pytest
from django.contrib.admin import autodiscover, site
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.messages import get_messages
from django.contrib.messages.storage.cookie import CookieStorage
from django.db import connection
from django.db.models import Model
from django.db.models.functions import Now
from django.test import Client as Browser
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from clients.models import Client
from tests.admin_actions import act, choose
from tests.webhooks.helpers import make_event_in, write_events
from tests.webhooks.receivers import Receiver
from webhooks import tasks
from webhooks.models import Delivery, Endpoint, Event

pytestmark = pytest.mark.django_db
EVENTS = "/admin/webhooks/event/"
autodiscover()


@pytest.mark.parametrize("model", [Endpoint, Event, Delivery])
def test_the_admin_shows_everything_except_secrets(model: type[Model], operator: Browser) -> None:
    event = make_event_in("failed", days_ago=0)
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
def test_operators_can_resend_events(operator: Browser, configured: tuple[Client, str], receiver: Receiver) -> None:
    write_events(configured[0], 2)
    tasks.deliver()
    assert act(operator, EVENTS, "redeliver", Event.objects.values_list("pk", flat=True)) == ["2 events queued."]
    tasks.deliver()
    assert len(receiver.received) == 4
    assert len(set(receiver.events())) == 2


def test_operators_see_why_an_event_cannot_be_resent(operator: Browser) -> None:
    event = make_event_in("failed", days_ago=0)
    Endpoint.objects.update(disabled_at=Now(), disabled_for="owner", secret="")
    page = choose(operator, EVENTS, "redeliver", [event.pk]).content.decode()
    assert "Skipped: its client has no enabled webhook." in page


def test_resending_needs_a_permission_and_is_logged(operator: Browser) -> None:
    sent, disabled = make_event_in("failed", days_ago=0), make_event_in("failed", days_ago=0)
    Endpoint.objects.filter(client=disabled.client).update(disabled_at=Now(), disabled_for="owner", secret="")
    helper = Browser()
    user = get_user_model().objects.create_user("helper", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_event"))
    helper.force_login(user)
    for browser, expected in ((helper, []), (operator, [("Resent", str(sent.pk))])):
        act(browser, EVENTS, "redeliver", [sent.pk, disabled.pk])
        assert list(LogEntry.objects.values_list("change_message", "object_id")) == expected


def test_events_that_cannot_be_resent_are_named(rf: RequestFactory) -> None:
    sending, gone = make_event_in("failed", days_ago=0), make_event_in("failed", days_ago=0)
    Event.objects.filter(pk=sending.pk).update(state="sending", failure="", ended_at=None, lease_expires_at=Now())
    Event.objects.filter(pk=gone.pk).delete()
    request = rf.get("/")
    request._messages = CookieStorage(request)  # type: ignore[attr-defined]
    site.get_model_admin(Event).redeliver_each(request, [sending, gone])  # type: ignore[attr-defined]
    shown = [str(message) for message in get_messages(request)]
    assert shown == ["0 events queued.", f"Skipped because they are being sent or were deleted: {sending}, {gone}."]


@pytest.mark.parametrize("model", [Endpoint, Event, Delivery])
def test_admin_lists_take_a_constant_number_of_queries(model: type[Model], operator: Browser) -> None:
    path = reverse(f"admin:webhooks_{model.__name__.lower()}_changelist")
    counts = []
    for _ in range(3):
        make_event_in("failed", days_ago=0)
        with CaptureQueriesContext(connection) as queries:
            operator.get(path)
        counts.append(len(queries))
    assert counts[1] == counts[2] <= 12


def test_an_admin_event_takes_a_constant_number_of_queries(operator: Browser) -> None:
    event = make_event_in("failed", days_ago=0)
    counts = []
    # Django caches some lookups after the first request.
    for _ in range(3):
        Delivery.objects.create(event=event, outcome="failed", started_at=Now())
        with CaptureQueriesContext(connection) as queries:
            operator.get(reverse("admin:webhooks_event_change", args=[event.pk]))
        counts.append(len(queries))
    assert counts[1] == counts[2] <= 12
