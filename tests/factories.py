"""Factories of objects, created as the service creates them."""

from datetime import timedelta
from typing import Any

import factory
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from billing import ledger
from billing.models import Account, Plan
from clients import invitations
from clients.accounts import default_client, open_account
from clients.audit import SYSTEM, Actor
from clients.keys import ALPHABET, PREFIX, checksum, create_key
from clients.models import ApiKey, Client, Invitation, Membership
from jobs.enums import Channel, MoveResult, Priority, Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.transitions import JobMove
from jobs.models import Build, Job
from jobs.submission.store import COLUMNS, store
from privacy.models import Export
from simservice.ids import new_token, next_id
from webhooks.models import Event

PROFILE = 'mage="Frosty"\nlevel=80\nspec=frost\nhead=,id=1,ilevel=600\niterations=50\n'
AMPLE = 10**9


class PlanFactory(factory.django.DjangoModelFactory[Plan]):
    class Meta:
        model = Plan

    name = factory.Sequence("plan-{}".format)


# What `open_account` and `ledger.correct` insert, in one statement instead of 13, because thousands of tests need
# it. tests/test_factories.py compares the rows.
FUND = """
    entry AS (
        INSERT INTO billing_entry (account_id, source, target, credits, reason)
        SELECT id, 'outside', 'purchased', %(credits)s, 'for a test' FROM account
    ), balance AS (
        INSERT INTO billing_balance (account_id, purchased, reserved) SELECT id, %(credits)s, 0 FROM account
        ON CONFLICT (account_id) DO UPDATE SET purchased = billing_balance.purchased + excluded.purchased
    )
"""
OPEN_ACCOUNT = f"""
    WITH account AS (
        INSERT INTO billing_account (name, plan_id, created_at)
        VALUES ('account-' || %(plan_id)s, %(plan_id)s, %(now)s) RETURNING *
    ), client AS (
        INSERT INTO clients_client (account_id, name, is_default, created_at)
        SELECT id, 'default', true, %(now)s FROM account
    ), {FUND}
    SELECT id, name, plan_id, created_at, suspended_at, shares_inputs FROM account
"""  # noqa: S608 - FUND is a constant
FUND_ACCOUNT = f"WITH account AS (SELECT %(account_id)s::integer AS id), {FUND} SELECT"
# A plan that refuses no job
UNLIMITED = Plan(max_active_jobs=10**9)


def make_account(*, credits: int = AMPLE, **plan: Any) -> Account:  # noqa: A002
    """Open an account with its own plan and purchased credits."""
    created = PlanFactory.create(**plan)
    if not credits or created.monthly_credits:
        return open_granted(created, credits=credits)
    values = {"plan_id": created.pk, "now": timezone.now(), "credits": credits}
    account: Account = Account.objects.raw(OPEN_ACCOUNT, values)[0]
    account.plan = created
    return account


def open_granted(plan: Plan, *, credits: int) -> Account:  # noqa: A002
    """Open an account as the service does, with the allowance of its plan."""
    account = open_account(f"account-{plan.pk}", plan=plan)
    if credits:
        ledger.correct(account, credits, reason="for a test")
    return account


def make_key(account: Account | None = None, **fields: Any) -> tuple[ApiKey, str]:
    """Make a key of an account's default client; return it with its secret."""
    return create_key(default_client(account or make_account()), **{"by": SYSTEM} | fields)


def unknown_key() -> str:
    """Return a well-formed key that was never issued."""
    body = PREFIX + ALPHABET[:40]
    return body + checksum(body)


def make_client(account: Account, name: str = "bot") -> Client:
    """Make another client of an account."""
    return Client.objects.create(account=account, name=name)


def make_event(client: Client, **fields: Any) -> Event:
    """Make an event of a client that is due for delivery."""
    now = timezone.now()
    defaults = {"body": b"{}", "created_at": now, "next_attempt_at": now}
    return Event.objects.create(client=client, **defaults | fields)


def make_export(account: Account) -> Export:
    """Make an export of an account that can be downloaded, without its file."""
    now = timezone.now()
    return Export.objects.create(account=account, completed_at=now, bytes=1, expires_at=now + timedelta(days=1))


def make_member(account: Account | None = None, *, role: str = "owner", is_verified: bool = True) -> Membership:
    """Make a user with an email address, an unusable password and a membership."""
    user = User.objects.create_user(f"user-{new_token()}", email=f"user-{new_token().lower()}@example.org")
    EmailAddress.objects.create(user=user, email=user.email, verified=is_verified, primary=True)
    return Membership.objects.create(user=user, account=account or make_account(), role=role)


def actor_of(membership: Membership) -> Actor:
    """Return the actor for a member in the audit log."""
    return Actor(label=membership.user.email, user=membership.user)


def make_invitation(account: Account | None = None, **fields: Any) -> tuple[Invitation, str]:
    """Make an invitation from an owner of an account; return it with its token."""
    owner = make_member(account)
    chosen = {"email": f"user-{new_token().lower()}@example.org", "role": Membership.Role.MEMBER, **fields}
    return invitations.invite(owner.account, by=actor_of(owner), **chosen)


class BuildFactory(factory.django.DjangoModelFactory[Build]):
    class Meta:
        model = Build

    executable = "/bin/false"
    git_branch = "midnight"
    commit = factory.Sequence("{:040x}".format)
    simc_version = "1120-01"
    created_at = factory.LazyFunction(timezone.now)


def new_job(client: Client, **fields: Any) -> Job:
    """Return a job with default options, not stored yet, with any fields replaced."""
    defaults: dict[str, Any] = {
        "id": next_id(),
        "account": client.account,
        "client": client,
        "priority": Priority.STANDARD,
        "channel": Channel.LATEST,
        "git_branch": "midnight",
        "ceiling_credits": 3200,
        "ceiling_runtime_seconds": 100,
        "ceiling_queue_seconds": 1800,
        "credits_per_second": 32,
        "vcpus": 1,
        "status": Status.PENDING,
        "share_token": new_token(),
    }
    return Job(**(defaults | fields))


def make_job(
    client: Client | None = None, *, text: str = PROFILE, held_credits: int | None = None, **fields: Any
) -> Job:
    """Accept a job as a submission does, with any fields replaced.

    Holds its ceiling or `held_credits`, and its fee in addition.
    """
    now = timezone.now()
    times = {"created_at": now, "updated_at": now, "queue_deadline_at": now + timedelta(seconds=1800)}
    job = new_job(client or default_client(make_account()), **times | fields)
    cost = job.ceiling_credits if held_credits is None else held_credits
    reserved = cost + job.priority_fee_credits
    with connection.cursor() as cursor:
        cursor.execute(FUND_ACCOUNT, {"account_id": job.account_id, "credits": reserved})
    result = store(job, profile_text=text, wanted=reserved, required=reserved, plan=UNLIMITED, record=None)
    assert result.broken_rule is None
    not_copied = {name for name in times | fields if name not in COLUMNS and f"{name}_id" not in COLUMNS}
    Job.objects.filter(pk=job.pk).update(**{name: getattr(job, name) for name in not_copied})
    return job


def start_attempt(job: Job, *, worker: str) -> MoveResult:
    """Assign this waiting job to a worker, as a claim of the best one does."""
    return job_moves.move(
        job,
        JobMove.CLAIM,
        reason=f"claimed by {worker}",
        attempt=job.attempt + 1,
        worker=worker,
        lease_expires_at=job_moves.lease_end(),
    )


def make_running_job(**fields: Any) -> Job:
    """Return a job that a worker has claimed and started."""
    job = make_job(**fields)
    assert start_attempt(job, worker="worker-1")
    assert job_moves.start_run(job, build=BuildFactory.create()) is not None
    job.refresh_from_db()
    return job
