"""Storage of an accepted job, and the rules that can refuse it."""

import itertools
import random
from collections import defaultdict
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from billing import ledger
from billing.models import Account, Hold, Plan
from clients.models import ApiKey
from jobs.enums import Channel, Priority, Status
from jobs.models import Build, IdempotencyKey, Job, JobEvent, JobProfile, StoredBytes
from jobs.submission.store import COLUMNS, FIELDS, SQL, KeyRecord, Rule, StoreResult, check_limits, store
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


def accept(job: Job, *, record: KeyRecord | None = None, **plan: int) -> StoreResult:
    """Store a job that holds 20 credits."""
    limits = Plan(**{"max_active_jobs": 100} | plan)
    return store(job, profile_text="mage='A'\n\\", wanted=20, required=20, plan=limits, record=record)


@pytest.mark.parametrize("seed", range(10))
def test_a_stored_job_has_the_values_of_its_instance(seed: int) -> None:
    key, _ = make_key(make_account(credits=20))
    job = random_job(random.Random(seed), key, BuildFactory.create())  # noqa: S311 - repeatable
    assert accept(job).broken_rule is None
    stored = Job.objects.get()
    assert {name: getattr(stored, name) for name in COLUMNS} == {name: getattr(job, name) for name in COLUMNS}
    assert list(stored.metadata) == list(job.metadata)
    assert stored.updated_at == stored.created_at
    assert stored.queue_deadline_at - stored.created_at == timedelta(seconds=job.ceiling_queue_seconds)
    assert JobProfile.objects.get(job=stored).text == "mage='A'\n\\"
    event = JobEvent.objects.get(job=stored)
    assert (event.from_status, event.to_status, event.attempt, event.reason) == ("", "pending", 0, "")
    assert not IdempotencyKey.objects.exists()


@pytest.mark.parametrize("broken", list(itertools.product([False, True], repeat=5)), ids=str)
def test_the_first_broken_rule_refuses_the_job(broken: tuple[bool, ...]) -> None:
    is_repeated, has_many_jobs, is_suspended, has_many_bytes, is_poor = broken
    key, _ = make_key(make_account(credits=39 if is_poor else 40))
    account, build = key.client.account, BuildFactory.create()
    record = KeyRecord(key="a", fingerprint="f" * 64, response='{"ü": 1}')
    first, second = (random_job(random.Random(1), key, build) for _ in range(2))  # noqa: S311 - repeatable
    first.api_key = second.api_key = key
    assert accept(first, record=record).broken_rule is None
    assert IdempotencyKey.objects.values_list("key", "fingerprint", "response").get() == ("a", "f" * 64, '{"ü": 1}')
    StoredBytes.objects.create(account=account, bytes=70)
    if is_suspended:
        Account.objects.filter(pk=account.pk).update(suspended_at=timezone.now())
    limits = {"max_active_jobs": 1 if has_many_jobs else 2, "max_stored_bytes": 70 if has_many_bytes else 71}
    expected = next((rule for rule, is_broken in zip(Rule, broken, strict=True) if is_broken), None)
    result = accept(second, record=record if is_repeated else None, **limits)
    assert result == StoreResult(expected, 1, 70, 19 if is_poor else 20)
    assert Job.objects.count() == Hold.objects.count() == (2 if expected is None else 1)
    assert list(ledger.verify()) == []


@pytest.mark.parametrize("broken", [rule for rule in Rule if rule is not Rule.REPEATED])
def test_limits_can_be_checked_without_storing(broken: Rule) -> None:
    account = make_account(credits=19 if broken is Rule.CREDITS else 20)
    if broken is Rule.SUSPENDED:
        Account.objects.filter(pk=account.pk).update(suspended_at=timezone.now())
    StoredBytes.objects.create(account=account, bytes=70)
    limits = {
        "max_active_jobs": 0 if broken is Rule.ACTIVE_JOBS else 1,
        "max_stored_bytes": 70 if broken is Rule.STORED_BYTES else None,
    }
    result = check_limits(account.pk, required=20, plan=Plan(**limits))
    assert result == StoreResult(broken, 0, 70, 19 if broken is Rule.CREDITS else 20)
    assert check_limits(make_account().pk, required=20, plan=Plan(max_active_jobs=1)).broken_rule is None


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
    results: list[StoreResult] = []

    def submit() -> None:
        job = random_job(random.Random(1), key, build)  # noqa: S311 - repeatable
        results.append(store(job, profile_text="", wanted=60, required=60, plan=account.plan, record=None))

    def change() -> None:
        ledger.correct(account, -50, reason="for the test")
        if is_suspended:
            Account.objects.filter(pk=account.pk).update(suspended_at=timezone.now())

    while_locked(row, [account.pk], change=change, move=submit)
    assert results == [StoreResult(Rule.SUSPENDED if is_suspended else Rule.CREDITS, 0, 0, 50)]
