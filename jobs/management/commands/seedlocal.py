"""`seedlocal`: create the account, user, API key and build of the local stack, if they are missing."""

import json
import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from billing import ledger
from billing.models import Account, GrantReason, Plan
from clients import members
from clients.accounts import default_client, open_account
from clients.audit import COMMAND_LINE
from clients.keys import create_key, find_key
from clients.models import Membership
from jobs.execution import build_probe, runner
from jobs.operations import build_registration
from sandbox import layers
from sandbox.layers import SandboxUnavailable
from simservice.operations.commands import BaseCommand

DEMO = "demo"
# Mail to this address stays on the machine.
DEMO_ADDRESS = "demo@localhost"
DEMO_CREDITS = 10_000_000
# More than one, so that jobs with many profilesets use several slots.
DEMO_PARALLEL_SLOTS = 8
DEMO_NOTE = "Demonstration"
ROOT = Path(settings.BASE_DIR)
MINISIM = ROOT / "minisim" / "minisim"
MINISIM_PROFILES = ROOT / "minisim" / "profiles"
# Old enough that every channel chooses this build until another one is registered
MINISIM_ORIGIN = build_registration.Origin(
    git_branch=settings.GIT_BRANCHES[0], commit="minisim", created_at=datetime(2026, 1, 1, tzinfo=UTC)
)
# Its own code, the tokenizer that it shares with the service, and the interpreter with its packages
MINISIM_READS = [
    ROOT / "minisim",
    ROOT / "simc",
    Path(sys.prefix),
    Path(sys.base_prefix),
]


class Command(BaseCommand):
    help = (
        "Creates the demo account of the local stack. Reads the saved API key and password as JSON from standard "
        "input and prints the current values as JSON."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--prepare", action="store_true", help="First migrate the database and collect the static files."
        )

    def handle(self, *args: Any, prepare: bool, **options: Any) -> None:
        if prepare:
            call_command("migrate", interactive=False, verbosity=0)
            call_command("collectstatic", interactive=False, verbosity=0)
        saved: dict[str, str] = json.loads(sys.stdin.read() or "{}")
        try:
            lacking = layers.missing(runner.probe_sandbox())
        except SandboxUnavailable as error:
            raise CommandError(str(error)) from error
        with transaction.atomic():
            account = ensure_account()
            ensure_credits(account)
            password = ensure_user(account, saved.get("password"))
            key = _ensure_key(account, saved.get("apiKey"))
        try:
            build_registration.register(MINISIM, MINISIM_ORIGIN, readable=MINISIM_READS, profiles=MINISIM_PROFILES)
        except (build_probe.UnusableBuild, build_probe.NotChecked) as error:
            raise CommandError(str(error)) from error
        output = {"account": DEMO, "apiKey": key, "user": DEMO, "password": password}
        output["sandboxLacks"] = ", ".join(lacking)
        self.stdout.write(json.dumps(output))


def ensure_account() -> Account:
    """Return the demo account, and open it at the first start.

    An existing plan keeps its values, because an operator may have changed them in the admin.
    """
    plan, _ = Plan.objects.get_or_create(name="standard", defaults={"max_parallel_slots": DEMO_PARALLEL_SLOTS})
    return Account.objects.filter(name=DEMO).first() or open_account(DEMO, plan=plan)


def ensure_credits(account: Account) -> None:
    """Grant the demo account its credits once."""
    if not account.grants.filter(note=DEMO_NOTE).exists():
        ledger.grant(account, DEMO_CREDITS, reason=GrantReason.GRANT_DEVELOPER_ALLOWANCE, note=DEMO_NOTE)


def ensure_user(account: Account, password: str | None) -> str:
    """Create the demo user, who owns the account and can use the admin, if missing. Return the password."""
    user, created = User.objects.get_or_create(username=DEMO, defaults={"is_staff": True, "is_superuser": True})
    if created or password is None or not user.check_password(password):
        password = password or secrets.token_urlsafe(12)
        user.set_password(password)
        user.save(update_fields=["password"])
    _ensure_address(user)
    Membership.objects.get_or_create(user=user, account=account, defaults={"role": Membership.Role.OWNER})
    return password


def _ensure_address(user: User) -> None:
    """Verify the demo user's email address, if it has none, so that it can invite people."""
    if not members.verified_address(user):
        EmailAddress.objects.update_or_create(
            user=user, email=DEMO_ADDRESS, defaults={"verified": True, "primary": True}
        )
        user.email = DEMO_ADDRESS
        user.save(update_fields=["email"])


def _ensure_key(account: Account, secret: str | None) -> str:
    """Return the saved API key if it is still active, else a new one."""
    if secret is not None:
        key = find_key(secret)
        if key is not None and key.revoked_at is None:
            return secret
    return create_key(default_client(account), by=COMMAND_LINE, name="local")[1]
