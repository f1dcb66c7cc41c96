"""Accounts and their clients: opening, changes by operators, and credits granted or corrected by operators."""

import secrets
from datetime import datetime

from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils.text import slugify

from billing import ledger, prices
from billing.models import Account, Grant, GrantReason, Plan
from clients import audit
from clients.audit import Action, Actor
from clients.errors import ClientNameTaken, TooManyClients
from clients.models import DEFAULT_CLIENT, Client, FirstAccount, Membership, UsedMailbox
from simservice.encryption import Purpose, digests

MAX_NAME_CHARACTERS = 40
MAX_CLIENTS = 200


@transaction.atomic
def open_account(name: str, *, plan: Plan) -> Account:
    """Create an account with its built-in client and the current month's allowance."""
    account = Account.objects.create(name=name, plan=plan)
    Client.objects.create(account=account, name=DEFAULT_CLIENT, is_default=True)
    ledger.grant_allowance(account)
    return account


def default_client(account: Account) -> Client:
    """Return the account's built-in client, which is the default for new keys."""
    return account.clients.get(is_default=True)


def create_client(account: Account, name: str, *, by: Actor) -> Client:
    """Create a client. Raises TooManyClients, or ClientNameTaken even if two requests create it at once."""
    try:
        with transaction.atomic():
            Account.objects.select_for_update(no_key=True).get(pk=account.pk)
            if account.clients.count() >= MAX_CLIENTS:
                raise TooManyClients(f"An account can have at most {MAX_CLIENTS} clients.")
            created = Client.objects.create(account=account, name=name)
            audit.record(account.pk, Action.CLIENT_CREATED, by=by, target_id=created.pk, target=name)
    except IntegrityError:
        raise ClientNameTaken from None
    return created


@transaction.atomic
def set_shares_inputs(account: Account, *, shown: bool, by: Actor) -> None:
    """Choose whether share links show the profiles and logs of an account's jobs, also of earlier ones."""
    if Account.objects.filter(pk=account.pk).exclude(shares_inputs=shown).update(shares_inputs=shown):
        new = "shown" if shown else "hidden"
        audit.record(account.pk, Action.ACCOUNT_SHARING_CHANGED, by=by, new=new)


@transaction.atomic
def save_changes(account: Account, *, by: Actor) -> None:
    """Save an account's name and plan, and record what changed."""
    before = Account.objects.select_for_update(no_key=True, of=("self",)).select_related("plan").get(pk=account.pk)
    account.save(update_fields=["name", "plan"])
    if account.name != before.name:
        audit.record(account.pk, Action.ACCOUNT_RENAMED, by=by, old=before.name, new=account.name)
    if account.plan != before.plan:
        audit.record(account.pk, Action.ACCOUNT_PLAN_CHANGED, by=by, old=before.plan.name, new=account.plan.name)


@transaction.atomic
def suspend(account: Account, *, reason: str, by: Actor) -> bool:
    """Suspend an account, and record the reason. Return False if it was already suspended."""
    is_changed = Account.objects.filter(pk=account.pk, suspended_at=None).update(suspended_at=Now())
    if is_changed:
        audit.record(account.pk, Action.ACCOUNT_SUSPENDED, by=by, reason=reason)
    return bool(is_changed)


@transaction.atomic
def resume(account: Account, *, by: Actor) -> bool:
    """End the suspension of an account. Return False if it was not suspended."""
    is_changed = Account.objects.filter(pk=account.pk, suspended_at__isnull=False).update(suspended_at=None)
    if is_changed:
        audit.record(account.pk, Action.ACCOUNT_RESUMED, by=by)
    return bool(is_changed)


@transaction.atomic
def grant_credits(
    account: Account,
    amount: int,
    *,
    reason: GrantReason,
    note: str,
    by: Actor,
    expires_at: datetime | None = None,
) -> Grant:
    """Grant credits to an account as an operator. Raises InvalidCreditChange."""
    created = ledger.grant(account, amount, reason=reason, note=note, expires_at=expires_at)
    audit.record(
        account.pk, Action.CREDITS_GRANTED, by=by, target_id=created.pk, credits=amount, reason=created.title
    )
    return created


@transaction.atomic
def correct_credits(account: Account, amount: int, *, note: str, by: Actor) -> None:
    """Add purchased credits, or remove credits if `amount` is negative, as an operator.

    Raises InvalidCreditChange or InsufficientCredits.
    """
    ledger.correct(account, amount, reason=note)
    audit.record(account.pk, Action.CREDITS_CORRECTED, by=by, credits=amount, reason=note)


def was_denied_welcome_credits(account: Account) -> bool:
    """Return whether an account got no welcome credits, because its mailbox had opened another."""
    return FirstAccount.objects.filter(account=account, mailbox_was_used=True).exists()


@transaction.atomic
def open_own_account(user: User) -> Account:
    """Return the account that `user` owns; open one on the sign-up plan if there is none.

    The first account that a user opens gets welcome credits if their mailbox has opened none before. Locks the
    user, so that two simultaneous requests open only one account.
    """
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    owned = Account.objects.filter(memberships__user=user, memberships__role=Membership.Role.OWNER).first()
    if owned is not None:
        return owned
    plan, _ = Plan.objects.get_or_create(name=settings.SIGNUP_PLAN)
    account = open_account(_free_name(user), plan=plan)
    Membership.objects.create(user=user, account=account, role=Membership.Role.OWNER)
    is_new = claim_mailbox(user)
    defaults = {"account": account, "mailbox_was_used": not is_new}
    _, is_first = FirstAccount.objects.get_or_create(user=user, defaults=defaults)
    if is_new and is_first and settings.SIGNUP_CREDITS:
        ledger.grant(account, settings.SIGNUP_CREDITS, reason=GrantReason.ONBOARDING)
    return account


def welcome_seconds() -> int:
    """Return how many seconds of simulation the welcome credits of a new account buy. One query."""
    plan = Plan.objects.filter(name=settings.SIGNUP_PLAN).first() or Plan()
    return prices.seconds_for(settings.SIGNUP_CREDITS, credits_per_second=plan.credits_per_second)


def _free_name(user: User) -> str:
    """Return an unused account name made of the user's name, with random characters appended if necessary."""
    wanted = slugify((user.email or user.get_username()).partition("@")[0])[:MAX_NAME_CHARACTERS] or "account"
    if not Account.objects.filter(name=wanted).exists():
        return wanted
    return f"{wanted}-{secrets.token_hex(4)}"


# Gmail ignores dots, and has two domains: https://support.google.com/mail/answer/7436150
GMAIL = {"gmail.com", "googlemail.com"}


def mailbox_of(address: str) -> str:
    """Return the address of the mailbox that receives mail to an address: without tag, in lower case."""
    local, _, domain = address.lower().rpartition("@")
    local = local.partition("+")[0] or local
    return f"{local.replace('.', '')}@gmail.com" if domain in GMAIL else f"{local}@{domain}"


def claim_mailbox(user: User) -> bool:
    """Record the mailbox of a user who opens an account. Return whether it opened none before.

    Of two simultaneous calls for one mailbox, the second waits for the first.
    """
    current, *former = _digests(user.email or user.get_username())
    _, is_new = UsedMailbox.objects.get_or_create(digest=current)
    return is_new and not UsedMailbox.objects.filter(pk__in=former).exists()


def remember_mailboxes(user: User) -> None:
    """Record every mailbox of a user who is being deleted, if they opened an account."""
    if FirstAccount.objects.filter(user=user).exists():
        verified = EmailAddress.objects.filter(user=user, verified=True).values_list("email", flat=True)
        rows = [UsedMailbox(digest=_digests(address)[0]) for address in {user.email, *verified} if address]
        UsedMailbox.objects.bulk_create(rows, ignore_conflicts=True)


def _digests(address: str) -> list[str]:
    return digests(mailbox_of(address), purpose=Purpose.MAILBOXES)
