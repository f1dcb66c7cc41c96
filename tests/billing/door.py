"""Credits of jobs, held and settled as the service does it: when a job is stored, and when it ends."""

from billing import ledger
from billing.errors import HoldError, InsufficientCredits
from billing.models import MAX_AMOUNT, Account
from clients.accounts import default_client
from jobs.enums import ErrorCode, MoveResult, Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job
from jobs.submission.store import Rule, store
from simservice.postgresql.statements import run
from tests.factories import UNLIMITED, new_job


def hold(account: Account, amount: int, *, job_id: int, least: int | None = None) -> None:
    """Store a job that holds `amount` credits, or all that are available if these are at least `least`.

    `least` defaults to `amount`. Raises InsufficientCredits.
    """
    required = amount if least is None else least
    job = new_job(default_client(account), id=job_id, ceiling_credits=MAX_AMOUNT)
    result = store(job, profile_text="", wanted=amount, required=required, plan=UNLIMITED, record=None)
    if result.broken_rule is Rule.CREDITS:
        raise InsufficientCredits(required_credits=required, available_credits=result.available_credits)
    assert result.broken_rule is None


def settle(job_id: int, *, spent: int = 0) -> MoveResult:
    """End a job that pays `spent` credits. Raises HoldError."""
    job = Job.objects.filter(pk=job_id).first()
    if job is None:
        raise HoldError(f"job {job_id} does not exist")
    # An instance of a job that has ended since it was read
    job.status = Status.PENDING
    end = Outcome(status=Status.CANCELLED, error_code=ErrorCode.USER_CANCELLED, credits_consumed=spent, percent=0)
    return job_moves.finish(job, end)


def resolve_hold(job_id: int) -> None:
    """Settle the hold of a job that has not ended, which the service never does."""
    settling = f"WITH settling AS (SELECT %(job_id)s::bigint AS job_id), {ledger.SQL['settlement']} SELECT"
    run(settling, values={"job_id": job_id, "spent": 0})
