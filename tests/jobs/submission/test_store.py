"""The SQL that stores a job, compared with a reference implementation that uses the ORM and Python."""

import random
from collections import defaultdict
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from billing import ledger
from billing.models import Account, Entry, Grant, GrantReason, Hold, Plan
from clients.models import ApiKey
from jobs.enums import ACTIVE, Channel, Priority, Status
from jobs.models import Build, IdempotencyKey, Job, JobEvent, JobProfile
from jobs.submission.store import COLUMNS, FIELDS, SQL, KeyRecord, Ruling, store
from simservice.ids import new_token, next_id
from tests.concurrency import while_locked
from tests.factories import BuildFactory, make_account, make_job, make_key
from tests.jobs.plans import ENDED, copy_job, reindex_jobs

pytestmark = pytest.mark.django_db
TIMES = {"created_at", "updated_at", "queue_deadline_at"}
OWN = {"id", "share_token"}


def random_job(chance: random.Random, key: ApiKey, build: Build) -> Job:
    """Return a job with random values in all fields of a submission, not stored."""
    return Job(
        id=next_id(),
        account=key.client.account,
        client=key.client,
        api_key=chance.choice([key, None]),
        priority=chance.choice(list(Priority)),
        channel=chance.choice(list(Channel)),
        git_branch=chance.choice(["midnight", "Ünï'code\\"]),
        pinned_build=chance.choice([None, build]),
        **{name: chance.random() < 0.5 for name in "multi_stage html csv has_credentials wants_webhook".split()},
        json_version=chance.choice([2, 3]),
        metadata=chance.choice([{}, {"z": "1", "a": "'%(id)s \\ ; \u2028"}]),
        character=chance.choice(["", "Å" * 100]),
        other_characters=chance.choice([0, 10_000]),
        max_credits=chance.choice([None, 1, 2**40]),
        ceiling_credits=chance.choice([1, 2**40]),
        ceiling_runtime_seconds=chance.choice([1, 2**31 - 1]),
        ceiling_queue_seconds=chance.choice([1, 86_400]),
        priority_fee_credits=chance.choice([0, 320]),
        credits_per_second=chance.choice([1, 32]),
        vcpus=chance.choice([1, 2]),
        parallel_slots=chance.choice([1, 256]),
        status=Status.PENDING,
        share_token=new_token(),
    )


def store_by_orm(
    job: Job, *, profile_text: str, wanted: int, required: int, plan: Plan, record: KeyRecord | None
) -> Ruling:
    """The reference implementation of `store`, one step at a time."""
    account = Account.objects.select_for_update(no_key=True).get(pk=job.account_id)
    stored_keys = IdempotencyKey.objects.filter(api_key=job.api_key, key=record.key) if record else None
    is_repeated = stored_keys is not None and job.api_key is not None and stored_keys.exists()
    active = Job.objects.filter(account=account, status__in=ACTIVE).count()
    available = ledger.available(account)
    is_refused = is_repeated or active >= plan.max_active_jobs or account.suspended_at is not None
    is_stored = not is_refused and max(required, min(wanted, available)) <= available
    if is_stored:
        ledger.hold(account, wanted, least=required, job_id=job.pk)
        now = timezone.now()
        job.created_at = job.updated_at = now
        job.queue_deadline_at = now + timedelta(seconds=job.ceiling_queue_seconds)
        job.save(force_insert=True)
        JobEvent.objects.create(job=job, at=now, to_status=job.status, attempt=0)
        JobProfile.objects.create(job=job, text=profile_text)
        if record and job.api_key:
            fields = {"fingerprint": record.fingerprint, "response": record.response}
            IdempotencyKey.objects.create(api_key=job.api_key, key=record.key, job=job, **fields)
    return Ruling(is_repeated, active, account.suspended_at is not None, 0, available, is_stored)


def rows_of(account: Account) -> list[Any]:
    """Return all rows of an account, without what differs between two equal jobs."""
    jobs: list[dict[str, Any]] = [dict(job) for job in Job.objects.filter(account=account).order_by("id").values()]
    ids = [job["id"] for job in jobs]
    mine = {"job_id__in": ids}
    tables = [
        JobProfile.objects.filter(**mine).order_by("pk").values("text"),
        JobEvent.objects.filter(**mine).order_by("pk").values("from_status", "to_status", "attempt", "reason"),
        IdempotencyKey.objects.filter(**mine).order_by("pk").values("api_key_id", "key", "fingerprint", "response"),
        Hold.objects.filter(account=account).order_by("pk").values("credits", "spent", "resolved_at"),
        Entry.objects.filter(account=account).order_by("pk").values("source", "target", "credits", "reason"),
        Grant.objects.filter(account=account).order_by("pk").values("remaining"),
    ]
    deadlines = [job["queue_deadline_at"] - job["created_at"] for job in jobs]
    assert deadlines == [timedelta(seconds=job["ceiling_queue_seconds"]) for job in jobs]
    comparable = [{name: job[name] for name in job.keys() - TIMES - OWN} for job in jobs]
    return [comparable, *map(list, tables)]


def submit_randomly(chance: random.Random, key: ApiKey, build: Build, way: Any) -> list[Any]:
    """Prepare a random account and submit some jobs; return the rulings and the account's rows."""
    account = key.client.account
    for days in chance.sample([None, 1, 2, 3], k=chance.randint(0, 3)):
        expiry = timezone.now() + timedelta(days=days) if days else None
        ledger.grant(account, chance.randint(1, 40), reason=GrantReason.GRANT_PROMO, note="n", expires_at=expiry)
    ledger.correct(account, chance.randint(1, 60), reason="for the test")
    if chance.random() < 0.2:
        Account.objects.filter(pk=account.pk).update(suspended_at=timezone.now())
    rulings = []
    for _ in range(6):
        record = KeyRecord(key=chance.choice("ab"), fingerprint="f" * 64, response='{"ü": 1}')
        wanted = chance.randint(1, 60)
        job = random_job(chance, key, build)
        ruling = way(
            job,
            profile_text=chance.choice(["", "mage='A'\n\\"]),
            wanted=wanted,
            required=chance.randint(1, wanted),
            plan=Plan(max_active_jobs=chance.choice([2, 100])),
            # Only a request with an API key has an idempotency key.
            record=chance.choice([None, record]) if job.api_key else None,
        )
        rulings.append(ruling)
    return [rulings, rows_of(account)]


@pytest.mark.parametrize("seed", range(30))
def test_sql_and_orm_store_the_same_rows(seed: int) -> None:
    key, _ = make_key(make_account(credits=0))
    build = BuildFactory.create()
    results = []
    for way in (store, store_by_orm):
        with transaction.atomic():
            results.append(submit_randomly(random.Random(seed), key, build, way))  # noqa: S311 - repeatable
            assert [error for error in ledger.verify() if "hold" not in str(error)] == []
            transaction.set_rollback(True)
    (rulings, rows), (expected_rulings, expected_rows) = results
    assert rulings == expected_rulings
    assert rows == expected_rows


def test_a_job_has_a_value_for_each_column_without_a_default() -> None:
    fields = Job._meta.concrete_fields
    required = {field.attname for field in fields if not field.null and not field.has_db_default()}
    assert required - TIMES <= set(COLUMNS)
    assert set(FIELDS) == set(COLUMNS)


def test_the_limit_is_counted_with_an_index() -> None:
    key, _ = make_key()
    job = random_job(random.Random(1), key, BuildFactory.create())  # noqa: S311 - repeatable
    copy_job(make_job(key.client).pk, 500, changes=ENDED)
    reindex_jobs()
    with connection.cursor() as cursor:
        # The other tables contain few rows.
        cursor.execute("SET LOCAL enable_seqscan = off")
        values = {name: field.get_db_prep_save(getattr(job, name), connection) for name, field in FIELDS.items()}
        cursor.execute(f"EXPLAIN {SQL['store_job']}", defaultdict(lambda: "1", values))
        plan = str(cursor.fetchall())
    for index in ("job_active", "grant_spendable", "billing_account_pkey", "billing_balance_pkey"):
        assert index in plan


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("row", "is_suspended"),
    [("billing_account WHERE id = %s", True), ("billing_balance WHERE account_id = %s", False)],
)
def test_a_submission_sees_what_it_waited_for(row: str, *, is_suspended: bool) -> None:
    key, _ = make_key(make_account(credits=100))
    account, build = key.client.account, BuildFactory.create()
    rulings: list[Ruling] = []

    def submit() -> None:
        job = random_job(random.Random(1), key, build)  # noqa: S311 - repeatable
        rulings.append(store(job, profile_text="", wanted=60, required=60, plan=account.plan, record=None))

    def change() -> None:
        ledger.correct(account, -50, reason="for the test")
        if is_suspended:
            Account.objects.filter(pk=account.pk).update(suspended_at=timezone.now())

    while_locked(row, [account.pk], change=change, move=submit)
    (ruling,) = rulings
    assert (ruling.is_suspended, ruling.available_credits, ruling.is_stored) == (is_suspended, 50, False)
