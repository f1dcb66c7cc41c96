"""Webhooks on the dashboard: a secret shown once, refused addresses in words, what was sent and sent again."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from clients.accounts import default_client
from clients.audit import SYSTEM
from clients.models import Client, Membership
from tests.dashboard.browsing import browser_of, hidden, text_of
from tests.factories import make_account, make_client, make_event, make_member
from webhooks import endpoints
from webhooks.models import Delivery, Endpoint, Event

pytestmark = pytest.mark.django_db
SECRET = re.compile(r"whsec_[\w-]{43}")
# An address in its usual form needs no resolver; nothing is sent to it here.
URL, OTHER = "https://93.184.215.14/hook", "https://93.184.215.14:8443/other"
GIVEN_UP = {"state": "failed", "failure": "rejected", "next_attempt_at": None}


@pytest.fixture
def owner() -> Membership:
    return make_member()


@pytest.fixture
def client(owner: Membership) -> Client:
    return make_client(owner.account)


@pytest.fixture
def http(owner: Membership) -> HttpClient:
    return browser_of(owner)


def path_of(client: Client, rest: str = "") -> str:
    return f"/dashboard/{client.account}/clients/{client.pk}/webhook{rest}"


def secrets_in(answer: Any) -> set[str]:
    return set(SECRET.findall(answer.content.decode()))


def give_up(client: Client, **fields: Any) -> Event:
    """Make an event that the receiver refused."""
    event = make_event(client, **GIVEN_UP | {"ended_at": timezone.now()} | fields)
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


def test_enabled_with_a_secret_that_is_shown_once(client: Client, http: HttpClient) -> None:
    path = path_of(client)
    form = {"url": URL, "form": hidden(http.get(path), "form")}
    made = http.post(path, form)
    (secret,) = secrets_in(made)
    endpoint = Endpoint.objects.get(client=client)
    assert (endpoint.url, endpoints.unseal(endpoint.secret)) == (URL, secret)
    assert "no-store" in made.headers["Cache-Control"]
    again = http.post(path, form)
    assert (again.status_code, secrets_in(again)) == (409, set())
    assert endpoints.unseal(Endpoint.objects.get(client=client).secret) == secret
    for rest in ("", "/url", "/rotate", "/failed"):
        assert not secrets_in(http.get(path_of(client, rest)))
    assert not [session for session in Session.objects.all() if secret[6:20] in str(session.get_decoded())]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "This field is required."),
        ("http://example.com/", "https://"),
        ("https://127.0.0.1/", "127.0.0.1 is not a public address"),
        ("https://localhost/", "localhost"),
        ("https://a:b@example.com/", "must not carry a user name"),
        ("https://93.184.215.14:22/", "Port 22 is not allowed"),
    ],
    ids=["none", "http", "loopback", "localhost", "user", "port"],
)
def test_a_refused_address_is_told_in_words(client: Client, http: HttpClient, url: str, told: str) -> None:
    path = path_of(client)
    answer = http.post(path, {"url": url, "form": hidden(http.get(path), "form")})
    assert 'aria-invalid="true"' in answer.content.decode()
    assert told in text_of(answer)
    assert not Endpoint.objects.exists()
    endpoints.configure(client, URL, by=SYSTEM)
    assert told in text_of(http.post(path_of(client, "/url"), {"url": url}))
    assert Endpoint.objects.get().url == URL


def test_a_secret_is_rotated_once_and_the_old_one_signs_on(client: Client, http: HttpClient) -> None:
    old = endpoints.configure(client, URL, by=SYSTEM)
    path = path_of(client, "/rotate")
    form = {"hours": "24", "form": hidden(http.get(path), "form")}
    (new,) = secrets_in(http.post(path, form))
    assert http.post(path, form).status_code == 409
    endpoint, now = Endpoint.objects.get(), timezone.now()
    assert endpoints.secrets_of(endpoint, now=now) == [old, new]
    assert endpoints.secrets_of(endpoint, now=now + timedelta(hours=25)) == [new]
    assert "the old one until" in text_of(http.get(path_of(client)))


def test_the_form_offers_no_overlap_first_and_explains_one(client: Client, http: HttpClient) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    page = http.get(path_of(client, "/rotate"))
    assert '<option value="0" selected>None</option>' in page.content.decode()
    assert "t=…,v1=old,v1=new" in text_of(page)
    made = http.post(path_of(client, "/rotate"), {"hours": "168", "form": hidden(page, "form")})
    assert "the header has two signatures: first that of the old secret, then that of the new one" in text_of(made)


def test_without_an_overlap_the_old_secret_is_gone(client: Client, http: HttpClient) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    path = path_of(client, "/rotate")
    (new,) = secrets_in(http.post(path, {"hours": "0", "form": hidden(http.get(path), "form")}))
    assert endpoints.secrets_of(Endpoint.objects.get(), now=timezone.now()) == [new]


@pytest.mark.parametrize("form", [{}, {"hours": "2"}, {"hours": "-1"}, {"hours": "24"}], ids=str)
def test_a_wrong_form_rotates_nothing(client: Client, http: HttpClient, form: dict[str, str]) -> None:
    secret = endpoints.configure(client, URL, by=SYSTEM)
    answer = http.post(path_of(client, "/rotate"), form)
    assert 'role="alert"' in answer.content.decode()
    assert endpoints.secrets_of(Endpoint.objects.get(), now=timezone.now()) == [secret]


def test_the_address_is_changed_and_the_secret_stays(client: Client, http: HttpClient) -> None:
    secret = endpoints.configure(client, URL, by=SYSTEM)
    for _ in range(2):
        assert http.post(path_of(client, "/url"), {"url": OTHER}).status_code == 302
    endpoint = Endpoint.objects.get()
    assert (endpoint.url, endpoints.unseal(endpoint.secret)) == (OTHER, secret)
    assert OTHER in text_of(http.get(f"/dashboard/{client.account}/clients/{client.pk}"))


def test_disabled_and_enabled_with_another_secret(client: Client, http: HttpClient) -> None:
    old = endpoints.configure(client, URL, by=SYSTEM)
    for _ in range(2):
        assert http.post(path_of(client, "/disable")).status_code == 302
    page = http.get(path_of(client))
    assert "Somebody of this account disabled it" in text_of(page)
    assert f'value="{URL}"' in page.content.decode()
    (new,) = secrets_in(http.post(path_of(client), {"url": URL, "form": hidden(page, "form")}))
    assert new != old


def test_what_is_not_enabled_is_told(client: Client, http: HttpClient) -> None:
    event = give_up(client)
    for rest, form in (("/url", {"url": URL}), ("/failed", period())):
        assert "The client has no" in text_of(http.post(path_of(client, rest), form))
    page = path_of(client, "/rotate")
    assert "not enabled" in text_of(http.get(page))
    for rest in ("/disable", "/test"):
        told = http.post(path_of(client, rest), {"form": fresh(http, client)}, follow=True)
        assert "The client has no" in text_of(told)
    assert "Send it" not in text_of(http.get(f"/dashboard/{client.account}/events/{event.name}"))


def fresh(http: HttpClient, client: Client) -> str:
    """Return the token of a new form."""
    return hidden(http.get(path_of(client)), "form")


def period() -> dict[str, str]:
    """Return a form that means yesterday and today."""
    now = timezone.now()
    since, until = now - timedelta(days=1), now + timedelta(minutes=1)
    return {"since": f"{since:%Y-%m-%dT%H:%M}", "until": f"{until:%Y-%m-%dT%H:%M}"}


def test_a_test_event_is_sent_once(client: Client, http: HttpClient) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    form = {"form": fresh(http, client)}
    sent = http.post(path_of(client, "/test"), form, follow=True)
    event = Event.objects.get()
    assert event.job_id is None
    assert f"Id {event.name}" in text_of(sent)
    assert "was sent before" in text_of(http.post(path_of(client, "/test"), form, follow=True))
    assert "Test event" in text_of(http.get(path_of(client)))
    assert Event.objects.count() == 1


def test_an_event_shows_its_attempts_and_is_sent_again_once(client: Client, http: HttpClient) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    event = give_up(client)
    path = f"/dashboard/{client.account}/events/{event.name}"
    page = http.get(path)
    for words in ("410 after 1,234 ms", "93.184.215.14:443", "&lt;b&gt;gone", "Given up", "would do so again"):
        assert words in text_of(page), words
    form = {"form": hidden(page, "form")}
    assert "sent again" in text_of(http.post(path, form, follow=True))
    event.refresh_from_db()
    assert event.state == "waiting"
    Event.objects.update(**GIVEN_UP, ended_at=timezone.now())
    assert "not sent once more" in text_of(http.post(path, form, follow=True))
    event.refresh_from_db()
    assert event.state == "failed"


def test_all_that_was_given_up_in_a_period_is_sent_again(client: Client, http: HttpClient) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    recent = [give_up(client) for _ in range(3)]
    old = give_up(client, created_at=timezone.now() - timedelta(days=3))
    for told in ("3 events are sent again", "0 events are sent again"):
        assert told in text_of(http.post(path_of(client, "/failed"), period(), follow=True))
    assert set(Event.objects.filter(state="waiting")) == set(recent)
    assert Event.objects.get(state="failed") == old
    log = text_of(http.get(path_of(client), {"show": "failed"}))
    assert old.name[:12] in log
    assert recent[0].name[:12] not in log


@pytest.mark.parametrize(
    "form", [{}, {"since": "2026-01-02T00:00", "until": "2026-01-01T00:00"}], ids=["none", "turned"]
)
def test_a_wrong_period_is_told(client: Client, http: HttpClient, form: dict[str, str]) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    assert 'aria-invalid="true"' in http.post(path_of(client, "/failed"), form).content.decode()


def test_the_built_in_client_says_why_it_has_none(owner: Membership, http: HttpClient) -> None:
    client = default_client(owner.account)
    assert "The built-in client has no webhook" in text_of(http.get(path_of(client)))
    answer = http.post(path_of(client), {"url": URL})
    assert answer.status_code == 200
    assert not Endpoint.objects.exists()


def test_one_that_was_disabled_for_failing_is_told_where_people_look(client: Client, http: HttpClient) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    overview, clients = f"/dashboard/{client.account}/", f"/dashboard/{client.account}/clients"
    assert "A webhook was disabled" not in text_of(http.get(overview))
    endpoints.switch_off(Endpoint.objects.get(), because=Endpoint.Disabled.FAILING, by=SYSTEM)
    for path in (overview, clients):
        assert "A webhook was disabled" in text_of(http.get(path))
    assert "Every delivery to it had failed" in text_of(http.get(path_of(client)))
    stranger = make_member()
    assert "was disabled" not in text_of(browser_of(stranger).get(f"/dashboard/{stranger.account}/"))


def test_a_viewer_sees_no_forms(client: Client) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    event = give_up(client)
    viewer = browser_of(make_member(client.account, role="viewer"))
    for path in (
        *(path_of(client, rest) for rest in ("", "/url", "/rotate", "/failed")),
        f"/dashboard/{client.account}/events/{event.name}",
    ):
        assert viewer.get(path).content.decode().count("<form") == 1, "only the one for logging out"


def test_lists_are_by_pages_and_take_few_queries(
    client: Client, http: HttpClient, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    made = [give_up(client).name[:12] for _ in range(60)]
    address, seen = path_of(client), []
    while address:
        with django_assert_max_num_queries(9):
            page = http.get(address).content.decode()
        seen += re.findall(r"<code>(evt_\w{8})…", page)
        following = re.findall(r'href="([^"]*)" rel="next"', page)
        address = path_of(client) + following[0] if following else ""
    assert seen == made[::-1]


def test_an_event_with_many_attempts_takes_few_queries(
    client: Client, http: HttpClient, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    endpoints.configure(client, URL, by=SYSTEM)
    event = give_up(client)
    times = [timezone.now() + timedelta(seconds=second) for second in range(40)]
    Delivery.objects.bulk_create(
        Delivery(event=event, outcome="failed", started_at=at, problem="dns") for at in times
    )
    path = f"/dashboard/{client.account}/events/{event.name}"
    with django_assert_max_num_queries(7):
        page = http.get(path)
    assert text_of(page).count("Name not found") == 25


def test_another_accounts_event_is_not_found(client: Client) -> None:
    event = give_up(client)
    stranger = make_member(make_account())
    for account in (client.account, stranger.account):
        assert browser_of(stranger).get(f"/dashboard/{account}/events/{event.name}").status_code == 404
