"""Storage of an accepted job with its profile, first event, hold and idempotency key, in one round trip."""

from dataclasses import dataclass
from enum import StrEnum

from django.db import connection

from billing import ledger
from billing.models import Plan
from jobs.artifacts import storage
from jobs.models import Job
from jobs.results import queries
from simservice.postgresql.statements import Row, load, run

# The columns that are copied from a new job's instance. The others have defaults or are set to the current time.
COLUMNS = (
    "id account_id client_id api_key_id priority channel git_branch pinned_build_id multi_stage html csv "
    "has_credentials wants_webhook json_version metadata character other_characters max_credits ceiling_credits "
    "ceiling_runtime_seconds ceiling_queue_seconds priority_fee_credits credits_per_second vcpus "
    "parallel_slots retention_days status attempt worker share_token shares_inputs trace_parent"
).split()
FIELDS = {field.attname: field for field in Job._meta.concrete_fields if field.attname in COLUMNS}  # noqa: SLF001

SQL = load(
    __file__,
    queries.SQL,
    storage.SQL,
    ledger.SQL,
    columns=", ".join(COLUMNS),
    values=", ".join(f"%({column})s" for column in COLUMNS),
)


@dataclass(frozen=True, kw_only=True)
class KeyRecord:
    """An idempotency key to store with a job: the fingerprint of its request, and the response."""

    key: str
    fingerprint: str
    response: str


class Rule(StrEnum):
    """The rules that can refuse a job when it is stored. `store.sql` returns the first one that the job breaks."""

    # The idempotency key is new.
    REPEATED = "repeated"
    # The account has fewer unfinished jobs than its plan allows.
    ACTIVE_JOBS = "active_jobs"
    # The account is not suspended.
    SUSPENDED = "suspended"
    # The account's files have fewer bytes than its plan allows.
    STORED_BYTES = "stored_bytes"
    # The account has enough credits.
    CREDITS = "credits"


@dataclass(frozen=True)
class StoreResult:
    """The first rule that a job broke, None if it was stored, and the values that the rules checked.

    `active` is the number of the account's unfinished jobs without this job.
    """

    broken_rule: Rule | None
    active: int
    stored_bytes: int
    available_credits: int


def lock(account_id: int) -> None:
    """Lock an account for the transaction, so that its other submissions wait."""
    run(SQL["lock_account"], values={"account_id": account_id})


def store(
    job: Job, *, profile_text: str, wanted: int, required: int, plan: Plan, record: KeyRecord | None
) -> StoreResult:
    """Store a job that holds `wanted` credits, or all that are available if these are at least `required`.

    Stores all or nothing. One round trip.
    """
    values = {name: field.get_db_prep_save(getattr(job, name), connection) for name, field in FIELDS.items()}
    values |= {
        "profile_text": profile_text,
        "wanted": wanted,
        "required": required,
        **_limits(plan),
        "key": record and record.key,
        "fingerprint": record and record.fingerprint,
        "response": record and record.response,
    }
    return _result(run(SQL["lock_account"], ledger.SQL["lock_balance"], SQL["store_job"], values=values))


def check_limits(account_id: int, *, required: int, plan: Plan) -> StoreResult:
    """Return what `store` would return for a job of the account now. Locks and stores nothing. One query."""
    return _result(run(SQL["check_job"], values={"account_id": account_id, "required": required, **_limits(plan)}))


def _result(rows: list[Row]) -> StoreResult:
    ((name, *values),) = rows
    return StoreResult(name and Rule(name), *values)


def _limits(plan: Plan) -> dict[str, int | None]:
    """Return the parameters of the rules."""
    return {"max_active_jobs": plan.max_active_jobs, "max_stored_bytes": plan.max_stored_bytes}
