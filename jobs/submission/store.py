"""Storage of an accepted job with its profile, first event, hold and idempotency key, in one round trip."""

from dataclasses import dataclass

from django.db import connection

from billing import ledger
from billing.models import Plan
from jobs.artifacts import storage
from jobs.models import Job
from jobs.results import queries
from simservice.postgresql.statements import load, run

# The columns that are copied from a new job's instance. The others have defaults or are set to the current time.
COLUMNS = (
    "id account_id client_id api_key_id priority channel git_branch pinned_build_id multi_stage html csv "
    "has_credentials wants_webhook json_version metadata character other_characters max_credits ceiling_credits "
    "ceiling_runtime_seconds ceiling_queue_seconds priority_fee_credits credits_per_second vcpus "
    "parallel_slots retention_days status attempt worker share_token trace_parent"
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


@dataclass(frozen=True)
class Ruling:
    """Whether a job was stored. If it was not, the reason is the first rule, in this order, that it broke.

    The rules: the idempotency key is new, the account has fewer unfinished jobs (`active`, without this job) than
    allowed, it is not suspended, its files have fewer bytes than its plan allows, and it has enough credits.
    """

    is_repeated: bool
    active: int
    is_suspended: bool
    stored_bytes: int
    available_credits: int
    is_stored: bool


def lock(account_id: int) -> None:
    """Lock an account for the transaction, so that its other submissions wait."""
    run(SQL["lock_account"], values={"account_id": account_id})


def store(
    job: Job, *, profile_text: str, wanted: int, required: int, plan: Plan, record: KeyRecord | None
) -> Ruling:
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
    (ruling,) = run(SQL["lock_account"], ledger.SQL["lock_balance"], SQL["store_job"], values=values)
    return Ruling(*ruling)


def rule_on(account_id: int, *, required: int, plan: Plan) -> Ruling:
    """Return whether `store` would store a job of the account now. Locks and stores nothing. One query."""
    (ruling,) = run(SQL["try_job"], values={"account_id": account_id, "required": required, **_limits(plan)})
    return Ruling(*ruling)


def _limits(plan: Plan) -> dict[str, int | None]:
    """Return the parameters of the rules."""
    return {"max_active_jobs": plan.max_active_jobs, "max_stored_bytes": plan.max_stored_bytes}
