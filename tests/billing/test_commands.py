"""`manage.py grantcredits` and `manage.py verifyledger`."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from billing import ledger
from billing.models import Balance, Grant
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job
from tests.billing import door
from tests.factories import make_account, make_job, make_running_job

pytestmark = pytest.mark.django_db
CANCELLED = Outcome(status=Status.CANCELLED, error_code="user_cancelled")


def run(*arguments: str) -> str:
    """Run a command and return what it prints."""
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue().strip()


def test_grantcredits_grants_with_or_without_an_expiry() -> None:
    account = make_account(credits=0)
    chosen = ("--reason", "grant_beta", "--note", "Sorry")
    assert run("grantcredits", account.name, "50", *chosen) == str(account.grants.get().pk)
    run("grantcredits", account.name, "70", "--days", "3")
    soon, never = ledger.balances(account).grants
    assert (never.reason, never.note, never.remaining, never.expires_at) == ("grant_beta", "Sorry", 50, None)
    assert (soon.reason, soon.note) == ("grant_promo", "")
    assert soon.expires_at is not None
    assert timedelta(days=2) < soon.expires_at - timezone.now() < timedelta(days=3)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nobody", "5"],
        ["{account}", "0"],
        ["{account}", "5", "--days", "0"],
        ["{account}", "5", "--note", "x" * 201],
    ],
    ids=str,
)
def test_grantcredits_rejects_invalid_arguments(arguments: list[str]) -> None:
    account = make_account()
    with pytest.raises(CommandError, match=r"\.$"):
        run("grantcredits", *(argument.format(account=account.name) for argument in arguments))
    assert not Grant.objects.exists()


def test_grantcredits_rejects_an_unknown_reason() -> None:
    with pytest.raises(CommandError, match="invalid choice: 'Welcome'"):
        run("grantcredits", make_account().name, "5", "--reason", "Welcome")
    assert not Grant.objects.exists()


def test_verifyledger_accepts_a_consistent_ledger() -> None:
    make_running_job()
    job_moves.finish(make_running_job(), CANCELLED)
    assert run("verifyledger") == "No discrepancies found."


def test_verifyledger_lists_discrepancies_and_fails() -> None:
    first, second = make_account().pk, make_account().pk
    Balance.objects.filter(pk__in=[first, second]).update(purchased=1)
    out = StringIO()
    with pytest.raises(CommandError, match="2 discrepancies found") as failed:
        call_command("verifyledger", stdout=out)
    assert failed.value.returncode == 1
    subjects = {line.split(":")[0] for line in out.getvalue().splitlines()}
    assert subjects == {f"purchased credits of account {pk}" for pk in (first, second)}


def only_discrepancy() -> str:
    """Return the only discrepancy that `verifyledger` prints."""
    out = StringIO()
    with pytest.raises(CommandError, match="1 discrepancy found"):
        call_command("verifyledger", stdout=out)
    return out.getvalue().strip()


def test_an_ended_job_with_an_open_hold_is_found() -> None:
    job = make_job()
    end_fields = {"error_code": "internal", "credits_consumed": 0, "completed_at": timezone.now()}
    Job.objects.filter(pk=job.pk).update(status=Status.FAILED, **end_fields)
    assert only_discrepancy() == f"job {job.pk} has ended, but its hold is open"


def test_a_waiting_job_with_a_resolved_hold_is_found() -> None:
    job = make_job()
    door.resolve_hold(job.pk)
    assert only_discrepancy() == f"job {job.pk} has not ended, but its hold is resolved"


def test_a_job_that_paid_a_different_amount_is_found() -> None:
    job = make_running_job()
    job_moves.finish(job, CANCELLED)
    Job.objects.filter(pk=job.pk).update(credits_consumed=5)
    assert only_discrepancy() == f"job {job.pk} consumed 5 credits, but paid 0"


def test_a_waiting_job_without_a_hold_is_found() -> None:
    job = make_running_job()
    job_moves.finish(job, CANCELLED)
    copied = Job.objects.get(pk=job.pk)
    copied.pk, copied.share_token, copied.status = job.pk + 1, "x" * 22, Status.QUEUED
    copied.completed_at = copied.credits_consumed = copied.error_code = None
    copied.save(force_insert=True)
    assert only_discrepancy() == f"job {copied.pk} has not ended, but has no hold"


def test_an_open_hold_without_a_job_is_found() -> None:
    door.hold(make_account(), 5, job_id=77)
    Job.objects.all().delete()
    assert only_discrepancy() == "job 77 does not exist, but its hold is open"


def test_a_job_paid_by_another_account_is_found() -> None:
    job = make_job()
    Job.objects.filter(pk=job.pk).update(account=make_account())
    assert only_discrepancy() == f"the hold of job {job.pk} belongs to another account"
