"""Credits in the admin."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.messages import get_messages
from django.test import Client as HttpClient

from billing import ledger
from billing.models import Account, Entry, GrantReason
from simservice.admin.forms import STALE
from tests import admin_actions
from tests.billing import door
from tests.billing.ledger_state import state
from tests.factories import make_account

pytestmark = pytest.mark.django_db
ACCOUNTS = "/admin/billing/account/"


def act(operator: HttpClient, action: str, *accounts: Account, **fields: Any) -> list[str]:
    """Run an admin action on accounts and return its messages."""
    return admin_actions.act(operator, ACCOUNTS, action, [account.pk for account in accounts], **fields)


def test_an_operator_grants_credits_with_a_note(operator: HttpClient) -> None:
    first, second = make_account(credits=0), make_account(credits=5)
    shown = act(operator, "grant_credits", first, second, credits=70, reason="grant_beta", note="Sorry")
    assert sorted(shown) == sorted(f"{account}: balance changed by 70 credits." for account in (first, second))
    assert (state(first), state(second)) == ((0, 0, [70]), (5, 0, [70]))
    assert (first.grants.get().reason, first.grants.get().note) == ("grant_beta", "Sorry")
    assert LogEntry.objects.get(object_id=str(first.pk)).change_message == "70 credits: Sorry"


def test_an_operator_corrects_credits_with_a_note(operator: HttpClient) -> None:
    account = make_account(credits=100)
    act(operator, "correct_credits", account, credits=-30, note="Paid twice")
    assert state(account) == (70, 0, [])
    assert Entry.objects.get(target="outside").reason == "Paid twice"


def messages_of(response: Any) -> str:
    return " ".join(map(str, get_messages(response.wsgi_request)))


@pytest.mark.parametrize(
    ("action", "fields", "message"),
    [
        ("grant_credits", {"credits": 5, "reason": "grant_beta"}, "a note of"),
        ("grant_credits", {"credits": 5, "note": "x"}, "Choose a reason"),
        ("grant_credits", {"credits": -5, "reason": "grant_beta", "note": "x"}, "must be from 1"),
        ("grant_credits", {"credits": 1.5, "reason": "grant_beta", "note": "x"}, "whole number of credits"),
        ("grant_credits", {"credits": 5, "reason": "grant_beta", "note": "x" * 201}, "at most 200"),
        ("grant_credits", {"reason": "grant_beta", "note": "x"}, "whole number of credits"),
        ("correct_credits", {"credits": -101, "note": "x"}, "too few credits"),
        ("correct_credits", {"credits": 0, "note": "x"}, "must be from 1"),
    ],
    ids=str,
)
def test_an_invalid_change_shows_an_error_and_changes_nothing(
    operator: HttpClient, action: str, fields: dict[str, Any], message: str
) -> None:
    account = make_account(credits=100)
    page = admin_actions.choose(operator, ACCOUNTS, action, [account.pk], **fields)
    shown = page.content.decode() if page.status_code == 200 else messages_of(page)
    assert message in shown
    assert state(account) == (100, 0, [])


def test_ledger_pages_are_read_only(operator: HttpClient) -> None:
    account = make_account(credits=100)
    granted = ledger.grant(account, 5, reason=GrantReason.GRANT_PROMO, note="Welcome")
    door.hold(account, 10, job_id=1)
    for name, pk in {"entry": Entry.objects.earliest("id").pk, "grant": granted.pk, "hold": 1}.items():
        path = f"/admin/billing/{name}/"
        assert operator.get(path).status_code == 200
        assert operator.get(f"{path}{pk}/change/").status_code == 200
        assert operator.post(f"{path}{pk}/change/", {"credits": 1}).status_code == 403
        assert operator.post(f"{path}{pk}/delete/", {"post": "yes"}).status_code == 403
        assert operator.get(f"{path}add/").status_code == 403


def test_the_account_page_shows_credits(operator: HttpClient) -> None:
    account = make_account(credits=100)
    door.hold(account, 10, job_id=1)
    page = f"{ACCOUNTS}{account.pk}/change/"
    assert "90 available (including 90 purchased), 10 reserved" in operator.get(page).content.decode()


def test_a_stale_form_of_an_account_is_refused(operator: HttpClient) -> None:
    account = make_account()
    page = f"{ACCOUNTS}{account.pk}/change/"
    fields = {"name": "renamed", "plan": account.plan.pk, "opened": admin_actions.opened_of(operator, page)}
    Account.objects.filter(pk=account.pk).update(name="other")
    assert STALE in operator.post(page, fields).content.decode()
    account.refresh_from_db()
    assert account.name == "other"


def test_credits_are_asked_for_when_the_action_is_chosen_without_them(operator: HttpClient) -> None:
    account = make_account(credits=0)
    asked = admin_actions.choose(operator, ACCOUNTS, "grant_credits", [account.pk])
    text = asked.content.decode()
    assert 'name="credits"' in text
    assert f'name="_selected_action" value="{account.pk}"' in text
    assert ledger.available(account) == 0
