"""Round trips of the frequent moves, the plan of a claim, and moves that wait for a lock."""

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import pytest
from django.db import DataError, connection, transaction

from billing import ledger
from billing.models import Hold
from jobs.enums import MoveResult, Renewal, Status
from jobs.execution import attempt
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job, JobEvent, Run
from jobs.queue import announcements
from simservice.postgresql.statements import run
from tests.concurrency import at_once, while_locked
from tests.factories import BuildFactory, make_job, make_running_job
from tests.statements import traffic

pytestmark = pytest.mark.django_db(transaction=True)

DONE = Outcome(
    status=Status.COMPLETED, summary={"metric": "dps"}, sim_duration_ms=1500, credits_consumed=64, percent=100.0
)
MANY_JOBS = """
    INSERT INTO jobs_job SELECT copy.*
    FROM jobs_job AS job, generate_series(1, 3000) AS n, jsonb_populate_record(job, jsonb_build_object(
        'id', job.id + n, 'share_token', n::text, 'priority', n % 3)) AS copy
"""
DIVISION = "SELECT 1 / %(zero)s::integer"
BALANCE = "billing_balance WHERE account_id = (SELECT account_id FROM jobs_job WHERE id = %s)"
LOCK_FIRST = "SELECT FROM jobs_job WHERE status = 'pending' ORDER BY priority, id LIMIT %s FOR UPDATE"


def costs(action: Callable[[], object]) -> tuple[int, int]:
    """Return the numbers of statements and round trips."""
    with traffic() as recorded:
        action()
    return len(recorded.statements), recorded.round_trips


def test_a_claim_a_start_and_an_end_are_one_round_trip_each() -> None:
    make_job(wants_webhook=True)
    build = BuildFactory.create()
    claimed: list[Job] = []
    assert costs(lambda: claimed.append(job_moves.claim_job("w") or Job())) == (1, 1)
    (job,) = claimed
    assert costs(lambda: job_moves.start_run(job, build=build)) == (1, 1)
    assert costs(lambda: job_moves.start_run(job, build=build, stage=2)) == (1, 1)
    assert costs(lambda: attempt.conclude(job, DONE, [])) == (3, 1)
    assert costs(lambda: job_moves.claim_job("w")) == (1, 1)


def test_a_claim_returns_all_columns() -> None:
    make_job(metadata={"b": 1, "a": "%s"})
    job = job_moves.claim_job("w")
    assert job is not None
    stored = Job.objects.get(pk=job.pk)
    columns = [field.attname for field in Job._meta.concrete_fields]
    assert costs(lambda: [getattr(job, name) for name in columns]) == (0, 0)
    assert [getattr(job, name) for name in columns] == [getattr(stored, name) for name in columns]
    assert list(job.metadata) == ["b", "a"]


def test_an_end_in_a_transaction_adds_one_round_trip() -> None:
    job = make_running_job()
    with traffic() as recorded, transaction.atomic():
        connection.cursor().execute("SELECT 1")
        assert job_moves.finish(job, DONE)
    assert (len(recorded.statements), recorded.round_trips) == (6, 4)


def test_an_extension_is_four_round_trips() -> None:
    """BEGIN, the lock of the job, the extension after its own lock, and COMMIT."""
    job = make_running_job()
    assert costs(lambda: job_moves.extend_hold(job, 5)) == (5, 4)
    assert costs(lambda: ledger.extend(job.pk, 5)) == (2, 1)


@pytest.mark.parametrize("locked", [0, 1, 1000])
def test_a_claim_reads_the_index_of_waiting_jobs(locked: int) -> None:
    make_job()
    with connection.cursor() as cursor:
        cursor.execute(MANY_JOBS)
        cursor.execute("ANALYZE jobs_job")
    blocker = connection.copy()
    try:
        with blocker.cursor() as other:
            other.execute("BEGIN")
            other.execute(LOCK_FIRST, [locked])
        with connection.cursor() as cursor:
            values = job_moves.values_of_claim("w")
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {job_moves.SQL['claim_job']}", values)
            (plan,) = cursor.fetchone()
    finally:
        blocker.close()
    scan = index_scan(plan[0]["Plan"], "job_claimable")
    # Once for each lane until one has a job
    assert round(scan["Actual Rows"] * scan["Actual Loops"]) == locked + 1
    reads = {part["Node Type"] for part in parts(plan[0]["Plan"]) if part.get("Relation Name") == "jobs_job"}
    assert not {"Seq Scan", "Bitmap Heap Scan"} & reads


def parts(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a plan."""
    yield plan
    for part in plan.get("Plans", []):
        yield from parts(part)


def index_scan(plan: dict[str, Any], index: str) -> dict[str, Any]:
    """Return the scan of an index in a plan."""
    if plan.get("Index Name") == index:
        return plan
    found = [index_scan(part, index) for part in plan.get("Plans", [])]
    return next(filter(None, found), {})


@pytest.mark.parametrize("row", ["jobs_job WHERE id = %s", BALANCE])
def test_an_end_settles_an_extension_that_it_waited_for(row: str) -> None:
    job = make_running_job()
    ended: list[MoveResult] = []
    while_locked(
        row,
        [job.pk],
        change=lambda: ledger.extend(job.pk, 10),
        move=lambda: ended.append(job_moves.finish(job, DONE)),
    )
    assert ended == [MoveResult.DONE]
    assert ledger.balances(job.account).reserved == 0
    assert Hold.objects.values_list("credits", "spent").get(pk=job.pk) == (3210, 64)
    assert list(ledger.verify()) == []


def test_a_stage_of_an_earlier_attempt_does_not_start() -> None:
    build, job = BuildFactory.create(), make_running_job()
    Job.objects.filter(pk=job.pk).update(attempt=job.attempt + 1)
    assert job_moves.start_run(job, build=build, stage=2) is None


def test_a_stage_waits_for_a_move_of_its_job() -> None:
    build, job = BuildFactory.create(), make_running_job()
    runs: list[int | None] = []

    def requeue() -> None:
        Job.objects.update(attempt=job.attempt + 1)

    while_locked(
        "jobs_job WHERE id = %s",
        [job.pk],
        change=requeue,
        move=lambda: runs.append(job_moves.start_run(job, build=build, stage=2)),
    )
    assert runs == [None]
    assert not Run.objects.filter(job=job, stage=2).exists()


def test_a_start_that_waits_for_a_renewal_moves_the_job_once() -> None:
    """The statement then reads an old version of the row and must change the new one. Its answer may be lost."""
    make_job()
    job = job_moves.claim_job("w")
    assert job is not None
    build = BuildFactory.create()
    runs: list[int | None] = []

    def start() -> None:
        runs.append(job_moves.start_run(copy(job), build=build))

    def renew() -> None:
        assert job_moves.renew_lease(job) is Renewal.DONE

    while_locked("jobs_job WHERE id = %s", [job.pk], change=renew, move=start)
    start()
    assert runs == [Run.objects.get(job=job).pk] * 2
    stored = Job.objects.get(pk=job.pk)
    assert (stored.status, stored.build, stored.worker) == (Status.RUNNING, build, "w")
    assert stored.started_at is not None
    assert JobEvent.objects.filter(job=job, to_status=Status.RUNNING).count() == 1


def test_statements_of_one_round_trip_take_effect_together() -> None:
    job = make_running_job()
    with pytest.raises(DataError, match="division by zero"):
        run("UPDATE jobs_job SET worker = 'x'", DIVISION, values={"zero": 0})
    assert Job.objects.get(pk=job.pk).worker == "worker-1"


def test_announcements_and_claims_leave_a_complete_history() -> None:
    jobs = [make_job() for _ in range(30)]

    def announce() -> None:
        for job in Job.objects.filter(status=Status.PENDING).order_by("id"):
            announcements.announce(job)

    actions = iter([announce] + [lambda: [None for _ in iter(lambda: job_moves.claim_job("w"), None)]] * 3)
    at_once(4, lambda: next(actions)())
    while job_moves.claim_job("w"):
        pass
    for job in jobs:
        events = list(JobEvent.objects.filter(job=job).order_by("id").values_list("from_status", "to_status"))
        assert [event[0] for event in events] == ["", *(event[1] for event in events[:-1])]
        assert events[-1][1] == "starting"
