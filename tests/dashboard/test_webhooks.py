"""Webhook pages of the dashboard."""

import html
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from clients.accounts import default_client
from clients.audit import SYSTEM
from clients.models import Client, Membership
from tests.dashboard.browsing import browser_of, hidden, text_of
from tests.factories import make_account, make_client, make_event, make_job, make_member
from webhooks import dispatcher, endpoints, http_client, retries, signing
from webhooks.claims import claim_deliveries
from webhooks.http_client import Response
from webhooks.models import Delivery, Endpoint, Event

pytestmark = pytest.mark.django_db
SECRET = re.compile(r"whsec_[\w-]{43}")
# IP addresses need no resolver. These tests send nothing to them.
URL, OTHER = "https://93.184.215.14/hook", "https://93.184.215.14:8443/other"
FAILED = {"state": "failed", "failure": "rejected", "next_attempt_at": None}


@pytest.fixture
def client(owner: Membership) -> Client:
    return make_client(owner.account)


@pytest.fixture
def http(owner: Membership) -> HttpClient:
    return browser_of(owner)


def path_of(client: Client, rest: str = "") -> str:
    return f"/dashboard/{client.account}/clients/{client.pk}/webhook{rest}"


def secrets_in(response: Any) -> set[str]:
    return set(SECRET.findall(response.content.decode()))


def make_failed_event(client: Client, **fields: Any) -> Event:
    """Create an event that the receiver rejected."""
    event = make_event(client, **FAILED | {"ended_at": timezone.now()} | fields)
    Delivery.objects.create(
        event=event,
        outcome="rejected",
        started_at=timezone.now(),
        duration_ms=1234,
        address="93.184.215.14:443",
        status=410,
        excerpt="<b>gone</b>",
    )
    return event


def test_enabling_shows_the_secret_once(client: Client, http: HttpClient) -> None:
    path = path_of(client)
    form = {"url": URL, "form": hidden(http.get(path), "form")}
    page = http.post(path, form)
    (secret,) = secrets_in(page)
    endpoint = Endpoint.objects.get(client=client)
    assert (endpoint.url, endpoints.decrypt_secret(endpoint.secret)) == (URL, secret)
    assert "no-store" in page.headers["Cache-Control"]
    again = http.post(path, form)
    assert (again.status_code, secrets_in(again)) == (409, set())
    assert endpoints.decrypt_secret(Endpoint.objects.get(client=client).secret) == secret
    for rest in ("", "/url", "/rotate", "/failed"):
        assert not secrets_in(http.get(path_of(client, rest)))
    assert not [session for session in Session.objects.all() if secret[6:20] in str(session.get_decoded())]


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("", "Fill in this field."),
        ("http://example.com/", "https://"),
        ("https://127.0.0.1/", "127.0.0.1 is not a public address"),
        ("https://localhost/", "localhost"),
        ("https://a:b@example.com/", "must not contain a user name"),
        ("https://93.184.215.14:22/", "Port 22 is not allowed"),
    ],
    ids=["none", "http", "loopback", "localhost", "user", "port"],
)
def test_a_refused_url_is_explained(client: Client, http: HttpClient, url: str, error: str) -> None:
    path = path_of(client)
    page = http.post(path, {"url": url, "form": hidden(http.get(path), "form")})
    assert 'aria-invalid="true"' in page.content.decode()
    assert error in text_of(page)
    assert not Endpoint.objects.exists()
    endpoints.configure(client, URL, by=SYSTEM)
    assert error in text_of(http.post(path_of(client, "/url"), {"url": url}))
    assert Endpoint.objects.get().url == URL


def test_rotating_with_an_overlap_keeps_the_old_secret(client: Client, http: HttpClient) -> None:
    old = endpoints.configure(client, URL, by=SYSTEM)
    path = path_of(client, "/rotate")
    form = {"hours": "24", "form": hidden(http.get(path), "form")}
    (new,) = secrets_in(http.post(path, form))
    assert http.post(path, form).status_code == 409
    endpoint, now = Endpoint.objects.get(), timezone.now()
    assert endpoints.secrets_of(endpoint, now=now) == [old, new]
    assert endpoints.secrets_of(endpoint, now=now + timedelta(hours=25)) == [new]
    assert "Deliveries are also signed with the old secret until" in text_of(http.get(path_of(client)))


def test_rotating_defaults_to_no_overlap(client: Client, http: HttpClient) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    page = http.get(path_of(client, "/rotate"))
    assert '<option value="0" selected>None</option>' in page.content.decode()
    assert "t=…,v1=old,v1=new" in text_of(page)
    page = http.post(path_of(client, "/rotate"), {"hours": "168", "form": hidden(page, "form")})
    assert "each delivery has two signatures: first with the old secret, then with the new one." in text_of(page)


def test_rotating_without_an_overlap_deletes_the_old_secret(client: Client, http: HttpClient) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    path = path_of(client, "/rotate")
    (new,) = secrets_in(http.post(path, {"hours": "0", "form": hidden(http.get(path), "form")}))
    assert endpoints.secrets_of(Endpoint.objects.get(), now=timezone.now()) == [new]


@pytest.mark.parametrize("form", [{}, {"hours": "2"}, {"hours": "-1"}, {"hours": "24"}], ids=str)
def test_an_invalid_form_rotates_nothing(client: Client, http: HttpClient, form: dict[str, str]) -> None:
    secret = endpoints.configure(client, URL, by=SYSTEM)
    page = http.post(path_of(client, "/rotate"), form)
    assert 'role="alert"' in page.content.decode()
    assert endpoints.secrets_of(Endpoint.objects.get(), now=timezone.now()) == [secret]


def test_changing_the_url_keeps_the_secret(client: Client, http: HttpClient) -> None:
    secret = endpoints.configure(client, URL, by=SYSTEM)
    for _ in range(2):
        assert http.post(path_of(client, "/url"), {"url": OTHER}).status_code == 302
    endpoint = Endpoint.objects.get()
    assert (endpoint.url, endpoints.decrypt_secret(endpoint.secret)) == (OTHER, secret)
    assert OTHER in text_of(http.get(f"/dashboard/{client.account}/clients/{client.pk}"))


def test_enabling_again_creates_another_secret(client: Client, http: HttpClient) -> None:
    old = endpoints.configure(client, URL, by=SYSTEM)
    for _ in range(2):
        assert http.post(path_of(client, "/disable")).status_code == 302
    page = http.get(path_of(client))
    assert "A member of this account disabled the webhook" in text_of(page)
    assert f'value="{URL}"' in page.content.decode()
    (new,) = secrets_in(http.post(path_of(client), {"url": URL, "form": hidden(page, "form")}))
    assert new != old


def test_forms_explain_that_no_webhook_is_enabled(client: Client, http: HttpClient) -> None:
    event = make_failed_event(client)
    for rest, form in (("/url", {"url": URL}), ("/failed", period())):
        assert "The client has no" in text_of(http.post(path_of(client, rest), form))
    assert "not enabled" in text_of(http.get(path_of(client, "/rotate")))
    for rest in ("/disable", "/test"):
        page = http.post(path_of(client, rest), {"form": new_token(http, client)}, follow=True)
        assert "The client has no" in text_of(page)
    assert "Resend" not in text_of(http.get(f"/dashboard/{client.account}/events/{event.name}"))


def new_token(http: HttpClient, client: Client) -> str:
    """Return the token of a new form."""
    return hidden(http.get(path_of(client)), "form")


def period() -> dict[str, str]:
    """Return form values for the period from yesterday until now."""
    now = timezone.now()
    since, until = now - timedelta(days=1), now + timedelta(minutes=1)
    return {"since": f"{since:%Y-%m-%dT%H:%M}", "until": f"{until:%Y-%m-%dT%H:%M}"}


def test_a_test_event_is_sent_once(client: Client, http: HttpClient) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    form = {"form": new_token(http, client)}
    sent = http.post(path_of(client, "/test"), form, follow=True)
    event = Event.objects.get()
    assert event.job_id is None
    assert f"Event ID {event.name}" in text_of(sent)
    assert "Only one test event was sent" in text_of(http.post(path_of(client, "/test"), form, follow=True))
    assert "Test event" in text_of(http.get(path_of(client)))
    assert Event.objects.count() == 1


def test_an_event_shows_its_attempts_and_is_resent_once(client: Client, http: HttpClient) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    event = make_failed_event(client)
    path = f"/dashboard/{client.account}/events/{event.name}"
    page = http.get(path)
    for text in (
        "410 after 1,234 ms",
        "gone for good",
        "93.184.215.14:443",
        "&lt;b&gt;gone",
        "Failed",
        "The receiver rejected the event",
    ):
        assert text in text_of(page), text
    form = {"form": hidden(page, "form")}
    assert "Event queued." in text_of(http.post(path, form, follow=True))
    event.refresh_from_db()
    assert event.state == "waiting"
    Event.objects.update(**FAILED, ended_at=timezone.now())
    assert "was resent only once" in text_of(http.post(path, form, follow=True))
    event.refresh_from_db()
    assert event.state == "failed"


def test_a_redirect_shows_its_target_and_advice(client: Client, http: HttpClient) -> None:
    event = make_failed_event(client)
    Delivery.objects.update(status=301, detail="Redirects to https://example.com/<new>")
    page = http.get(f"/dashboard/{client.account}/events/{event.name}").content.decode()
    assert "<bdi>Redirects to https://example.com/&lt;new&gt;</bdi>" in page
    assert "Configure the final URL; redirects are not followed." in page


def test_all_failed_events_of_a_period_are_resent(client: Client, http: HttpClient) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    recent = [make_failed_event(client) for _ in range(3)]
    old = make_failed_event(client, created_at=timezone.now() - timedelta(days=3))
    for message in ("3 events queued.", "No failed events in this period."):
        assert message in text_of(http.post(path_of(client, "/failed"), period(), follow=True))
    assert set(Event.objects.filter(state="waiting")) == set(recent)
    assert Event.objects.get(state="failed") == old
    log = text_of(http.get(path_of(client), {"state": "failed"}))
    assert old.name[:12] in log
    assert recent[0].name[:12] not in log


@pytest.mark.parametrize(
    "form", [{}, {"since": "2026-01-02T00:00", "until": "2026-01-01T00:00"}], ids=["none", "reversed"]
)
def test_an_invalid_period_is_refused(client: Client, http: HttpClient, form: dict[str, str]) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    assert 'aria-invalid="true"' in http.post(path_of(client, "/failed"), form).content.decode()


def test_a_default_client_cannot_have_a_webhook(owner: Membership, http: HttpClient) -> None:
    client = default_client(owner.account)
    assert "The built-in client cannot have a webhook" in text_of(http.get(path_of(client)))
    assert http.post(path_of(client), {"url": URL}).status_code == 200
    assert not Endpoint.objects.exists()


def test_the_overview_warns_of_disabled_webhooks(client: Client, http: HttpClient) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    overview, clients = f"/dashboard/{client.account}/", f"/dashboard/{client.account}/clients"
    assert "A webhook was disabled" not in text_of(http.get(overview))
    endpoints.switch_off(Endpoint.objects.get(), because=Endpoint.Disabled.FAILING, by=SYSTEM)
    for path in (overview, clients):
        assert "A webhook was disabled" in text_of(http.get(path))
    assert "Every delivery failed for five days" in text_of(http.get(path_of(client)))
    other_member = make_member()
    assert "was disabled" not in text_of(browser_of(other_member).get(f"/dashboard/{other_member.account}/"))


def test_viewers_see_no_forms(client: Client) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    event = make_failed_event(client)
    viewer = browser_of(make_member(client.account, role="viewer"))
    for path in (
        *(path_of(client, rest) for rest in ("", "/url", "/rotate", "/failed")),
        f"/dashboard/{client.account}/events/{event.name}",
    ):
        main = viewer.get(path).content.decode().partition("<main")[2].partition("</main>")[0]
        assert 'method="post"' not in main


def test_event_lists_have_pages_and_take_few_queries(
    client: Client, http: HttpClient, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    names = [make_failed_event(client).name for _ in range(60)]
    address, listed = path_of(client), []
    while address:
        with django_assert_max_num_queries(13):
            page = http.get(address).content.decode()
        listed += re.findall(r"/events/(evt_\w+)\"", page)
        following = re.findall(r'href="([^"]*)" rel="next"', page)
        address = path_of(client) + following[0] if following else ""
    assert listed == names[::-1]


def test_an_event_with_many_attempts_takes_few_queries(
    client: Client, http: HttpClient, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    event = make_failed_event(client)
    times = [timezone.now() + timedelta(seconds=second) for second in range(40)]
    Delivery.objects.bulk_create(
        Delivery(event=event, outcome="failed", started_at=at, problem="dns") for at in times
    )
    path = f"/dashboard/{client.account}/events/{event.name}"
    with django_assert_max_num_queries(7):
        page = http.get(path)
    assert text_of(page).count("Host name not found") == 25


def test_an_event_of_another_account_is_not_found(client: Client) -> None:
    event = make_failed_event(client)
    other_member = make_member(make_account())
    for account in (client.account, other_member.account):
        assert browser_of(other_member).get(f"/dashboard/{account}/events/{event.name}").status_code == 404


def recorded_attempt(client: Client, **fields: Any) -> tuple[Event, Delivery, str]:
    """Return an event, an attempt as a delivery worker records it, and the signing secret."""
    secret = endpoints.configure(client, URL, by=SYSTEM)
    event = make_event(client, body=b'{"kind":"job.terminal","payload":{"id":"1","status":"timed_out"}}', **fields)
    (attempt,) = claim_deliveries(dispatcher.pools()[0], room=1)
    with patch.object(http_client, "post", return_value=Response(status=200, duration_ms=120, address="x")):
        retries.record_responses([(attempt, dispatcher.make_request(attempt, Mock()))])
    return event, Delivery.objects.get(), secret


def test_an_attempt_shows_what_was_signed(client: Client, http: HttpClient) -> None:
    event, delivery, secret = recorded_attempt(client, job_id=make_job(client).pk)
    at = int(delivery.started_at.timestamp())
    assert delivery.signature == f"t={at},v1={signing.signature(secret, bytes(event.body), at=at)}"
    page = http.get(f"/dashboard/{client.account}/events/{event.name}")
    text = html.unescape(text_of(page))
    for expected in (
        f"X-Service-Signature {delivery.signature}",
        f"X-Service-Delivery-Id {delivery.name}",
        f"curl {URL}",
        f"-H 'X-Service-Signature: {delivery.signature}'",
        f"--data-raw '{bytes(event.body).decode()}'",
        '"status": "timed_out"',
        "Job timed out",
    ):
        assert expected in text, expected
    assert secret not in page.content.decode()


def test_a_command_quotes_the_url_for_shells(client: Client, http: HttpClient) -> None:
    event, _, _ = recorded_attempt(client)
    Endpoint.objects.update(url=f"{URL}?a='$(id)")
    page = http.get(f"/dashboard/{client.account}/events/{event.name}")
    command = next(one["command"] for one in page.context["attempts"])
    assert shlex.split(command)[1] == f"{URL}?a='$(id)"


def test_the_page_shows_the_success_rate_of_a_week(client: Client, http: HttpClient) -> None:
    event, _, _ = recorded_attempt(client)
    old, running = timezone.now() - timedelta(days=8), timezone.now()
    for outcome, at, length in (("failed", running, 300), ("sending", running, None), ("failed", old, 9000)):
        Delivery.objects.create(event=event, outcome=outcome, started_at=at, duration_ms=length)
    make_failed_event(make_client(client.account, "other"))
    text = text_of(http.get(path_of(client)))
    assert "50.0 % 1 of 2 attempts" in text
    assert "210 ms slowest 300 ms" in text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"state": "failed"}, [0, 1]),
        ({"state": "waiting"}, [2]),
        ({"since": "2026-01-02T00:00"}, [1, 2]),
        ({"state": "failed", "until": "2026-01-02T00:00"}, [0]),
        ({"state": "sending"}, []),
    ],
    ids=str,
)
def test_events_are_filtered(client: Client, http: HttpClient, query: dict[str, str], found: list[int]) -> None:
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    events = [make_failed_event(client, created_at=day) for day in days[:2]]
    events.append(make_event(client, created_at=days[2]))
    page = http.get(path_of(client), query)
    assert [row["event"] for row in page.context["log"]] == [events[number] for number in found][::-1]


@pytest.mark.parametrize("query", [{"state": "x"}, {"since": "x"}, {"until": "9999-99-99"}], ids=str)
def test_an_invalid_filter_of_events_shows_an_error(
    client: Client, http: HttpClient, query: dict[str, str]
) -> None:
    make_failed_event(client)
    page = http.get(path_of(client), query)
    assert 'class="error"' in page.content.decode()
    assert "log" not in page.context


def test_a_new_secret_comes_with_code_that_verifies(client: Client, http: HttpClient) -> None:
    path = path_of(client)
    text = html.unescape(text_of(http.post(path, {"url": URL, "form": hidden(http.get(path), "form")})))
    for name in ("verify.py", "verify.js"):
        code = (Path(settings.BASE_DIR) / "examples" / "webhooks" / name).read_text()
        assert " ".join(code.split()) in text


def test_a_webhook_can_get_events_about_low_credits(owner: Membership) -> None:
    client = make_client(owner.account)
    http, path = browser_of(owner), f"/dashboard/{owner.account}/clients/{client.pk}/webhook"
    assert "has no webhook" in text_of(http.post(f"{path}/events", {"low_credits": "on"}, follow=True))
    endpoints.install(client, "https://hooks.example.com/", by=SYSTEM)
    for wanted in ("on", ""):
        http.post(f"{path}/events", {"low_credits": wanted})
        assert Endpoint.objects.get().reports_low_credits == bool(wanted)
        assert ('low_credits" checked' in http.get(path).content.decode()) == bool(wanted)
