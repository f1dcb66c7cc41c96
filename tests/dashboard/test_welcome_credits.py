"""Welcome credits of a user's first account."""

import re

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client as HttpClient
from django.test import override_settings
from pytest_django import Settings

from billing import ledger
from billing.models import Account, GrantReason
from clients import accounts
from clients.models import Membership, UsedMailbox
from tests.concurrency import at_once
from tests.dashboard.browsing import browser_of, text_of
from tests.dashboard.signing_in import sign_up
from tests.factories import make_account, make_member

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fast_hasher")]


def leave(user: User) -> None:
    """Remove the user from all accounts, as they can do after making someone else an owner."""
    Membership.objects.filter(user=user).delete()


def test_sign_up_grants_an_hour_of_simulation() -> None:
    account = Membership.objects.get(user=sign_up(HttpClient())).account
    (grant,) = ledger.balances(account).grants
    assert (grant.reason, grant.expires_at) == (GrantReason.ONBOARDING, None)
    assert grant.remaining == 3600 * account.plan.credits_per_second


def test_the_credit_history_names_welcome_credits() -> None:
    http = HttpClient()
    sign_up(http)
    text = text_of(http.get("/dashboard/jane/credits"))
    assert re.search(r"Credits granted: Welcome credits [\d-]+ [\d:]+ \+115,200 115,200", text)


def test_welcome_credits_can_be_switched_off(settings: Settings) -> None:
    settings.SIGNUP_CREDITS = 0
    account = Membership.objects.get(user=sign_up(HttpClient())).account
    assert ledger.balances(account).grants == []


def test_a_second_account_gets_no_welcome_credits() -> None:
    user = sign_up(HttpClient())
    leave(user)
    second = accounts.open_own_account(user)
    assert Account.objects.count() == 2
    assert ledger.available(second) == 0


def test_credits_switched_on_later_are_not_paid_again(settings: Settings) -> None:
    settings.SIGNUP_CREDITS = 0
    user = sign_up(HttpClient())
    settings.SIGNUP_CREDITS = 500
    leave(user)
    assert ledger.available(accounts.open_own_account(user)) == 0


def test_an_invited_user_gets_them_with_their_own_account() -> None:
    invited = make_member(role="viewer")
    leave(invited.user)
    browser_of(invited).post("/dashboard/")
    own = Membership.objects.get(user=invited.user).account
    assert ledger.available(own) == 115_200


@pytest.mark.parametrize(
    ("first", "alias"),
    [
        ("jane@example.org", "JANE@Example.org"),
        ("jane@example.org", "jane+2@example.org"),
        ("jane+1@example.org", "jane+2@example.org"),
        ("jane.doe@gmail.com", "janedoe@gmail.com"),
        ("jane.doe+a@googlemail.com", "j.a.n.e.doe@gmail.com"),
    ],
)
def test_a_mailbox_gets_them_once(first: str, alias: str) -> None:
    one, two = (opened_by(name, email) for name, email in (("one", first), ("two", alias)))
    assert (ledger.available(one), ledger.available(two)) == (115_200, 0)
    assert first not in str(UsedMailbox.objects.values())
    says_why = [
        "another account was opened with the same mailbox"
        in text_of(browser_of(account.memberships.get()).get(f"/dashboard/{account.name}/credits"))
        for account in (one, two)
    ]
    assert says_why == [False, True]


@pytest.mark.parametrize(
    "other", ["john@example.org", "janedoe@example.org", "jane.doe@example.net", "+1@example.org"]
)
def test_another_mailbox_gets_them_too(other: str) -> None:
    opened_by("one", "jane.doe@example.org")
    assert ledger.available(opened_by("two", other)) == 115_200


def test_a_mailbox_is_recognized_after_a_change_of_the_key() -> None:
    opened_by("one", "jane@example.org")
    with override_settings(SECRET_KEY="another", SECRET_KEY_FALLBACKS=[settings.SECRET_KEY]):
        assert ledger.available(opened_by("two", "jane+2@example.org")) == 0


@pytest.mark.django_db(transaction=True)
def test_two_aliases_at_once_get_them_once() -> None:
    users = iter([User.objects.create_user(f"user{n}", email=f"jane+{n}@example.org") for n in range(3)])
    at_once(3, lambda: accounts.open_own_account(next(users)))
    assert sorted(ledger.available(account) for account in Account.objects.all()) == [0, 0, 115_200]


def opened_by(name: str, email: str) -> Account:
    return accounts.open_own_account(User.objects.create_user(name, email=email))


def test_an_operators_account_gets_none() -> None:
    assert ledger.available(make_account(credits=0)) == 0


@pytest.mark.django_db(transaction=True)
def test_two_requests_at_once_grant_once() -> None:
    user = User.objects.create_user("jane", email="jane@example.org")
    at_once(3, lambda: accounts.open_own_account(user))
    assert [ledger.available(account) for account in Account.objects.all()] == [115_200]
