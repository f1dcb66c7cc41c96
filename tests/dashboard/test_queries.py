"""Number of queries of pages, which does not grow with the data."""

import pytest
from django.db import connection
from django.test import Client as HttpClient
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from billing import ledger
from billing.models import GrantReason
from clients.audit import SYSTEM
from clients.keys import create_key
from clients.models import Client, Membership
from tests.dashboard.browsing import browser_of
from tests.factories import actor_of, make_client, make_event, make_invitation, make_key, make_member
from webhooks.models import Delivery, Event

pytestmark = pytest.mark.django_db
MAX_QUERIES = 13


def fill(owner: Membership, round_number: int) -> None:
    """Give an account more of everything, and its owner another account."""
    ledger.grant(owner.account, 5, reason=GrantReason.GRANT_PROMO, note="Welcome")
    make_key(owner.account)
    make_client(owner.account, f"bot-{round_number}")
    make_invitation(owner.account)
    client = Client.objects.filter(account=owner.account, is_default=False).earliest("pk")
    create_key(client, by=actor_of(owner))
    for event in (make_event(client), *Event.objects.filter(client=client)):
        Delivery.objects.create(event=event, outcome="failed", started_at=timezone.now())
    Membership.objects.create(user=owner.user, account=make_member().account, role="viewer")


def queries_of(http: HttpClient, path: str) -> int:
    """Return how many queries a page takes."""
    with CaptureQueriesContext(connection) as captured:
        assert http.get(path).status_code == 200
    return len(captured)


@pytest.mark.parametrize(
    "page",
    [
        "clients",
        "clients/{client}",
        "clients/{client}/webhook",
        "clients/{client}/webhook/url",
        "clients/{client}/webhook/rotate",
        "clients/{client}/webhook/failed",
        "events/{event}",
        "keys/{key}",
        "credits",
        "credits/notice",
        "usage",
        "people",
        "people/{member}/remove",
        "people/leave",
        "data",
        "data/delete",
        "audit",
    ],
)
def test_an_accounts_page(page: str) -> None:
    owner = make_member()
    client = make_client(owner.account)
    key, _ = create_key(client, by=SYSTEM)
    event = make_event(client)
    fill(owner, 0)
    http = browser_of(owner)
    member = make_member(owner.account, role="viewer")
    path = f"/dashboard/{owner.account}/" + page.format(
        client=client.pk, key=key.pk, event=event.name, member=member.pk
    )
    before = queries_of(http, path)
    for round_number in (1, 2, 3):
        fill(owner, round_number)
    assert queries_of(http, path) == before <= MAX_QUERIES


@pytest.mark.parametrize(
    "path",
    [
        "/accounts/profile/",
        "/accounts/sessions/",
        "/accounts/password/set/",
        "/accounts/email/",
        "/accounts/2fa/",
        "/accounts/login/",
        "/accounts/signup/",
        "/",
        "/docs",
        "/docs/errors",
        "/docs/guides",
        "/docs/guides/tutorial",
    ],
)
def test_a_page_of_ones_own(path: str) -> None:
    http = HttpClient() if "log" in path or "signup" in path else browser_of(make_member())
    assert queries_of(http, path) <= MAX_QUERIES
