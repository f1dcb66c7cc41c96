"""Opening accounts: each comes with its built-in client."""

import secrets

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils.text import slugify

from billing import ledger
from billing.models import Account, Plan
from clients.models import DEFAULT_CLIENT, Client, Membership

NAME_CHARACTERS = 40


@transaction.atomic
def open_account(name: str, *, plan: Plan) -> Account:
    """Create an account on `plan` together with its default client and the current month's allowance."""
    account = Account.objects.create(name=name, plan=plan)
    Client.objects.create(account=account, name=DEFAULT_CLIENT, is_default=True)
    ledger.grant_allowance(account)
    return account


def default_client(account: Account) -> Client:
    """Return the client that new keys of `account` attach to."""
    return account.clients.get(is_default=True)


class NameTaken(Exception):
    """The account has a client of this name."""


def create_client(account: Account, name: str) -> Client:
    """Create a client beside the account's default one. Raises NameTaken; so two requests make one client."""
    try:
        with transaction.atomic():
            return Client.objects.create(account=account, name=name)
    except IntegrityError:
        raise NameTaken from None


@transaction.atomic
def open_own_account(user: User) -> Account:
    """Return the account that `user` owns, opened on the sign-up plan if there is none.

    The user's row is locked, so that two requests open one account.
    """
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    own = Account.objects.filter(memberships__user=user, memberships__role=Membership.Role.OWNER).first()
    if own is not None:
        return own
    plan, _ = Plan.objects.get_or_create(name=settings.SIGNUP_PLAN)
    account = open_account(free_name(user), plan=plan)
    Membership.objects.create(user=user, account=account, role=Membership.Role.OWNER)
    return account


def free_name(user: User) -> str:
    """Return a name for a user's account that no account has: the user's own, or with random letters behind it."""
    wanted = slugify((user.email or user.get_username()).partition("@")[0])[:NAME_CHARACTERS] or "account"
    if not Account.objects.filter(name=wanted).exists():
        return wanted
    return f"{wanted}-{secrets.token_hex(4)}"
