"""`seedlocal`: the account, user, key and build that the local stack starts with. Safe to run again and again."""

import json
import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from billing import ledger
from billing.models import Account, GrantReason, Plan
from clients import members
from clients.accounts import default_client, open_account
from clients.audit import COMMAND_LINE
from clients.keys import create_key, find_key
from clients.models import Membership
from jobs.builds import registration
from jobs.runs import runner
from jobs.simulator import layers
from jobs.simulator.layers import SandboxUnavailable

DEMO = "demo"
# No mail to it leaves this machine.
DEMO_ADDRESS = "demo@localhost"
DEMO_CREDITS = 10_000_000
DEMO_NOTE = "Demonstration"
ROOT = Path(settings.BASE_DIR)
MINISIM = ROOT / "minisim" / "minisim"
MINISIM_PROFILES = ROOT / "minisim" / "profiles"
# A time long past, so that every channel means this build until others are registered.
MINISIM_ORIGIN = registration.Origin(
    git_branch=settings.GIT_BRANCHES[0], commit="minisim", created_at=datetime(2026, 1, 1, tzinfo=UTC)
)
# Its own code, the tokenizer it shares with the service, and the interpreter with its packages.
MINISIM_READS = [
    ROOT / "minisim",
    ROOT / "jobs" / "profiles",
    ROOT / "jobs" / "__init__.py",
    Path(sys.prefix),
    Path(sys.base_prefix),
]


class Command(BaseCommand):
    help = "Reads what an earlier start kept as JSON on standard input, prints the same with what was missing."

    def handle(self, *args: Any, **options: Any) -> None:
        kept: dict[str, str] = json.loads(sys.stdin.read() or "{}")
        try:
            lacking = layers.missing(runner.probe_sandbox())
        except SandboxUnavailable as error:
            raise CommandError(str(error)) from error
        with transaction.atomic():
            account = ensure_account()
            ensure_credits(account)
            password = ensure_user(account, kept.get("password"))
            key = ensure_key(account, kept.get("apiKey"))
        try:
            registration.register(MINISIM, MINISIM_ORIGIN, readable=MINISIM_READS, profiles=MINISIM_PROFILES)
        except registration.UnusableBuild as error:
            raise CommandError(str(error)) from error
        answer = {"account": DEMO, "apiKey": key, "user": DEMO, "password": password}
        answer["sandboxLacks"] = ", ".join(lacking)
        self.stdout.write(json.dumps(answer))


def ensure_account() -> Account:
    """Return the demo account, opened on the first start."""
    plan, _ = Plan.objects.get_or_create(name="standard")
    return Account.objects.filter(name=DEMO).first() or open_account(DEMO, plan=plan)


def ensure_credits(account: Account) -> None:
    """Grant the demo account its credits, once."""
    if not account.grants.filter(note=DEMO_NOTE).exists():
        ledger.grant(account, DEMO_CREDITS, reason=GrantReason.GRANT_DEVELOPER_ALLOWANCE, note=DEMO_NOTE)


def ensure_user(account: Account, password: str | None) -> str:
    """Make sure that the demo user exists, owns the account and may use the admin; return its password."""
    user, created = User.objects.get_or_create(username=DEMO, defaults={"is_staff": True, "is_superuser": True})
    if created or password is None or not user.check_password(password):
        password = password or secrets.token_urlsafe(12)
        user.set_password(password)
        user.save(update_fields=["password"])
    ensure_address(user)
    Membership.objects.get_or_create(user=user, account=account, defaults={"role": Membership.Role.OWNER})
    return password


def ensure_address(user: User) -> None:
    """Make sure that the demo user has a verified address, so that it can invite people."""
    if not members.verified_address(user):
        EmailAddress.objects.update_or_create(
            user=user, email=DEMO_ADDRESS, defaults={"verified": True, "primary": True}
        )
        user.email = DEMO_ADDRESS
        user.save(update_fields=["email"])


def ensure_key(account: Account, secret: str | None) -> str:
    """Return the kept key if it still serves, else a new one."""
    if secret is not None:
        key = find_key(secret)
        if key is not None and key.revoked_at is None:
            return secret
    return create_key(default_client(account), by=COMMAND_LINE, name="local")[1]
