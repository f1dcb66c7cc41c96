"""Clients and keys on the dashboard."""

import re
from datetime import timedelta
from unittest.mock import Mock

import pytest
from django.contrib.sessions.models import Session
from django.core.cache import cache
from pytest_django import DjangoAssertNumQueries

from clients import form_tokens, keys
from clients.accounts import default_client
from clients.errors import NotAMember
from clients.models import ApiKey, Client, Membership
from simservice.api.pagination import make_cursor
from tests.dashboard.browsing import browser_of, hidden, text_of
from tests.factories import make_account, make_client, make_key, make_member

pytestmark = pytest.mark.django_db
SECRET = re.compile(r"sk_[0-9A-Za-z]{46}")


def test_a_client_name_can_be_used_once(owner: Membership) -> None:
    http, path = browser_of(owner), f"/dashboard/{owner.account}/clients"
    response = http.post(path, {"name": "bot"})
    client = Client.objects.get(account=owner.account, name="bot")
    assert response.headers["Location"] == f"{path}/{client.pk}"
    assert "already" in text_of(http.post(path, {"name": "bot"}))
    assert "already" in text_of(http.post(path, {"name": "default"}))
    for name in ("", "a b", "<b>", "x" * 65):
        assert 'role="alert"' in http.post(path, {"name": name}).content.decode()
    assert Client.objects.filter(account=owner.account).count() == 2


def test_a_new_key_is_shown_once(owner: Membership) -> None:
    http, client = browser_of(owner), default_client(owner.account)
    path = f"/dashboard/{owner.account}/clients/{client.pk}"
    form = hidden(http.get(path), "form")
    response = http.post(path, {"name": "laptop", "days": "30", "form": form})
    (secret,) = set(SECRET.findall(response.content.decode()))
    key = keys.find_key(secret)
    assert key is not None
    assert key.expires_at is not None
    assert (key.name, key.client) == ("laptop", client)
    assert abs(key.expires_at - key.created_at - timedelta(days=30)) < timedelta(seconds=10)
    assert key.created_by == owner.user
    assert f"Created by {owner.user.email}" in text_of(http.get(f"/dashboard/{owner.account}/keys/{key.pk}"))
    assert owner.user.email in text_of(http.get(path)).partition("Expires")[2]
    assert "no-store" in response.headers["Cache-Control"]
    again = http.post(path, {"name": "laptop", "days": "30", "form": form})
    assert (again.status_code, SECRET.findall(again.content.decode())) == (409, [])
    assert ApiKey.objects.count() == 1
    for page in (path, f"/dashboard/{owner.account}/keys/{key.pk}", f"/dashboard/{owner.account}/clients"):
        assert not SECRET.search(http.get(page).content.decode())


def test_a_removed_member_cannot_create_a_key(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    http, client = browser_of(owner), default_client(owner.account)
    monkeypatch.setattr(keys, "_lock_membership", Mock(side_effect=NotAMember))
    sent = {"days": "0", "form": form_tokens.issue(owner.user.pk, "key")}
    assert http.post(f"/dashboard/{owner.account}/clients/{client.pk}", sent).status_code == 404


def test_a_key_is_not_stored_in_sessions_cookies_or_caches(owner: Membership) -> None:
    http, client = browser_of(owner), default_client(owner.account)
    path = f"/dashboard/{owner.account}/clients/{client.pk}"
    response = http.post(path, {"days": "0", "form": form_tokens.issue(owner.user.pk, "key")})
    (secret,) = set(SECRET.findall(response.content.decode()))
    stored = [str(session.get_decoded()) for session in Session.objects.all()]
    stored += [str(http.cookies), *map(str, cache._cache.get_client().scan_iter())]  # type: ignore[attr-defined]
    assert not [text for text in stored if secret[3:20] in text]


@pytest.mark.parametrize("days", ["", "1", "-1", "x"])
def test_an_invalid_lifetime_is_rejected(owner: Membership, days: str) -> None:
    http = browser_of(owner)
    path = f"/dashboard/{owner.account}/clients/{default_client(owner.account).pk}"
    response = http.post(path, {"days": days, "form": form_tokens.issue(owner.user.pk, "key")})
    assert 'aria-invalid="true"' in response.content.decode()
    assert not ApiKey.objects.exists()


def test_a_form_without_a_token_creates_no_key(owner: Membership) -> None:
    path = f"/dashboard/{owner.account}/clients/{default_client(owner.account).pk}"
    assert "Nothing was changed" in text_of(browser_of(owner).post(path, {"days": "0"}))
    assert not ApiKey.objects.exists()


def test_a_key_can_be_renamed_and_revoked(owner: Membership) -> None:
    key, secret = make_key(owner.account)
    http, path = browser_of(owner), f"/dashboard/{owner.account}/keys/{key.pk}"
    http.post(path, {"name": "<b>new</b>"})
    assert "&lt;b&gt;new" in http.get(path).content.decode()
    for _ in range(2):
        assert http.post(f"{path}/revoke").status_code == 302
    key.refresh_from_db()
    assert key.state == "revoked"
    assert "Revoked" in text_of(http.get(path))
    assert http.get("/v1/sim/jobs", headers={"authorization": f"Bearer {secret}"}).json()["code"] == "revoked_token"


def test_a_new_key_can_submit_unless_another_scope_is_chosen(owner: Membership) -> None:
    http, client = browser_of(owner), default_client(owner.account)
    path = f"/dashboard/{owner.account}/clients/{client.pk}"
    limited = {"scope": "read", "addresses": "203.0.113.7 2001:db8::/32"}
    for fields in ({}, limited):
        http.post(path, {"days": "0", "form": form_tokens.issue(owner.user.pk, "key"), **fields})
    by_default, chosen = ApiKey.objects.order_by("pk")
    assert (by_default.scope, by_default.addresses) == ("submit", [])
    assert (chosen.scope, chosen.addresses) == ("read", ["203.0.113.7/32", "2001:db8::/32"])
    assert "Read restricted addresses" in text_of(http.get(path))
    assert "203.0.113.7/32, 2001:db8::/32" in text_of(http.get(f"/dashboard/{owner.account}/keys/{chosen.pk}"))


@pytest.mark.parametrize(
    "fields",
    [{"scope": "admin"}, {"scope": "read", "addresses": "home"}, {"scope": "read", "addresses": "1" * 2000}],
)
def test_invalid_access_is_refused(fields: dict[str, str], owner: Membership) -> None:
    key, _ = make_key(owner.account)
    http, account = browser_of(owner), f"/dashboard/{owner.account}"
    form = form_tokens.issue(owner.user.pk, "key")
    for path in (f"{account}/clients/{key.client_id}", f"{account}/keys/{key.pk}/access"):
        assert 'aria-invalid="true"' in http.post(path, {"days": "0", "form": form, **fields}).content.decode()
    assert http.post(f"{account}/keys/{key.pk}/access", {}).status_code == 200
    assert list(ApiKey.objects.values_list("scope", "addresses")) == [("manage", [])]


def test_the_access_of_a_key_can_be_changed(owner: Membership) -> None:
    key, secret = make_key(owner.account)
    http, path = browser_of(owner), f"/dashboard/{owner.account}/keys/{key.pk}"
    assert http.post(f"{path}/access", {"scope": "read", "addresses": "127.0.0.1"}).status_code == 302
    page = http.get(path).content.decode()
    assert "applies to the next request" in page
    assert '<option value="read" selected>' in page
    sent = {"authorization": f"Bearer {secret}"}
    assert http.post("/v1/sim/jobs", headers=sent).json()["code"] == "insufficient_scope"
    http.post(f"{path}/access", {"scope": "read", "addresses": ""})
    assert ApiKey.objects.get().addresses == []


def test_a_viewer_sees_no_forms(owner: Membership) -> None:
    viewer = make_member(owner.account, role="viewer")
    key, _ = make_key(owner.account)
    for page in ("clients", f"clients/{key.client_id}", f"keys/{key.pk}"):
        text = browser_of(viewer).get(f"/dashboard/{owner.account}/{page}").content.decode()
        assert "<form" not in text.partition("<main")[2].partition("</main>")[0]


def test_many_keys_are_listed_on_several_pages(
    owner: Membership, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client = make_client(owner.account)
    ApiKey.objects.bulk_create(ApiKey(client=client, sha256=f"{i:064}", last4=f"{i:04}") for i in range(60))
    http, address, listed = browser_of(owner), f"/dashboard/{owner.account}/clients/{client.pk}", []
    while address:
        with django_assert_max_num_queries(7):
            page = http.get(address).content.decode()
        listed += re.findall(r"sk_…(\d{4})", page)
        following = re.findall(r'href="([^"]*)" rel="next"', page)
        address = f"/dashboard/{owner.account}/clients/{client.pk}" + following[0] if following else ""
    assert listed == [f"{i:04}" for i in reversed(range(60))]


def test_an_invalid_page_cursor_is_not_found(owner: Membership) -> None:
    other_account = make_account()
    cursor = make_cursor(account_id=other_account.pk, last_id=5)
    http = browser_of(owner)
    for after in ("x", cursor):
        assert http.get(f"/dashboard/{owner.account}/clients", {"after": after}).status_code == 404


def test_the_clients_page_counts_active_keys(
    owner: Membership, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for index in range(30):
        make_client(owner.account, f"bot-{index}")
    make_key(owner.account)
    http = browser_of(owner)
    with django_assert_max_num_queries(8):
        page = text_of(http.get(f"/dashboard/{owner.account}/clients"))
    assert "default Built-in 1 never" in page
    assert "bot-29" in page
    assert "bot-0 " not in page
