"""Storage of an accepted job with its profile, first event, hold and idempotency key, in one round trip."""

from dataclasses import dataclass

from django.db import connection

from billing import holds
from billing.models import Plan
from jobs import storage
from jobs.models import Job
from jobs.queries import ACTIVE_JOBS
from simservice.statements import Statement, run

# This lock makes an account's submissions wait for each other. Because it does not lock the key, other
# transactions, such as settlements, can still insert rows that refer to the account.
LOCK = Statement("lock_account", "SELECT FROM billing_account WHERE id = %(account_id)s FOR NO KEY UPDATE")

# The columns that are copied from a new job's instance. The others have defaults or are set to the current time.
COLUMNS = (
    "id account_id client_id api_key_id priority channel git_branch pinned_build_id multi_stage html csv "
    "has_credentials wants_webhook json_version metadata character other_characters max_credits ceiling_credits "
    "ceiling_runtime_seconds ceiling_queue_seconds priority_fee_credits credits_per_second vcpus "
    "parallel_slots retention_days status attempt worker share_token trace_parent"
).split()
FIELDS = {field.attname: field for field in Job._meta.concrete_fields if field.attname in COLUMNS}  # noqa: SLF001

# The number of unfinished jobs, whether the account is suspended, the bytes of its files, and the rules about them
_STATE = f"({ACTIVE_JOBS}) AS active, suspended_at IS NOT NULL AS is_suspended, ({storage.STORED_BYTES}) AS stored"
_ALLOWED = """
    active < %(max_active_jobs)s AND NOT is_suspended
    AND stored < coalesce(%(max_stored_bytes)s::bigint, stored + 1)
"""

# Store a job unless a rule refuses it. Return the values that the rules check, and whether the job was stored. The
# clock is the database's, as in claims and in the sweep.
STORE = Statement(
    "store_job",
    f"""
    WITH ruling AS (
        SELECT EXISTS (
                SELECT FROM jobs_idempotencykey WHERE api_key_id = %(api_key_id)s AND key = %(key)s
            ) AS is_repeated,
            {_STATE}
        FROM billing_account WHERE id = %(account_id)s
    ),
    request AS (
        SELECT %(account_id)s::bigint AS account_id, %(id)s::bigint AS job_id, %(wanted)s::bigint AS wanted,
            %(required)s::bigint AS required
        FROM ruling WHERE NOT is_repeated AND {_ALLOWED}
    ),
    {holds.PARTS},
    job AS (
        INSERT INTO jobs_job ({", ".join(COLUMNS)}, created_at, updated_at, queue_deadline_at)
        SELECT {", ".join(f"%({column})s" for column in COLUMNS)}, statement_timestamp(), statement_timestamp(),
            statement_timestamp() + %(ceiling_queue_seconds)s::int * interval '1 second'
        FROM held
    ),
    profile AS (INSERT INTO jobs_jobprofile (job_id, text) SELECT job_id, %(profile_text)s FROM held),
    event AS (
        INSERT INTO jobs_jobevent (job_id, at, from_status, to_status, attempt, reason)
        SELECT job_id, statement_timestamp(), '', %(status)s, 0, '' FROM held
    ),
    idempotency_key AS (
        INSERT INTO jobs_idempotencykey (api_key_id, key, fingerprint, job_id, response)
        SELECT %(api_key_id)s, %(key)s, %(fingerprint)s, job_id, %(response)s FROM held WHERE %(key)s IS NOT NULL
    )
    SELECT is_repeated, active, is_suspended, stored, (SELECT credits::bigint FROM total), EXISTS (SELECT FROM held)
    FROM ruling
    """,  # noqa: S608 - constants of this module and of billing/holds.py
)
# Return the same for a job without an idempotency key, but only read: whether it would be stored.
TRY = Statement(
    "try_job",
    f"""
    WITH ruling AS (SELECT {_STATE} FROM billing_account WHERE id = %(account_id)s), {holds.AVAILABLE}
    SELECT false, active, is_suspended, stored, credits::bigint, {_ALLOWED} AND credits >= %(required)s::bigint
    FROM ruling, total
    """,  # noqa: S608 - constants of this module and of billing/holds.py
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
    run(LOCK, values={"account_id": account_id})


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
    (ruling,) = run(LOCK, holds.LOCK, STORE, values=values)
    return Ruling(*ruling)


def rule_on(account_id: int, *, required: int, plan: Plan) -> Ruling:
    """Return whether `store` would store a job of the account now. Locks and stores nothing. One query."""
    (ruling,) = run(TRY, values={"account_id": account_id, "required": required, **_limits(plan)})
    return Ruling(*ruling)


def _limits(plan: Plan) -> dict[str, int | None]:
    """Return the parameters of the rules."""
    return {"max_active_jobs": plan.max_active_jobs, "max_stored_bytes": plan.max_stored_bytes}
