"""The replay of possible histories finds nothing, reads in batches, and reports what it finds."""

import json
from dataclasses import replace
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from billing import ledger
from clients.audit import SYSTEM
from jobs.enums import ReturnCause
from jobs.history import replay
from jobs.history.replay import Replay
from jobs.history.specification import MOVES, moment
from jobs.lifecycle import cancellation, job_moves
from jobs.lifecycle.transitions import JobMove
from jobs.models import Job, JobEvent, Run
from jobs.queue import sweep
from simservice.ids import moment_of
from tests.factories import make_account
from tests.jobs.history.histories import (
    claimed_job,
    completed,
    end_run,
    expire_lease,
    found,
    lose,
    run_job,
    run_shard,
    run_sharded_job,
    running_job,
    sharded_job,
    submitted,
)
from tests.jobs.shards.sharded_jobs import started
from tests.statements import traffic
from tests.webhooks.helpers import STEADY, make_client_with_events
from webhooks import events, retries
from webhooks.claims import claim_deliveries
from webhooks.http_client import Response
from webhooks.models import Delivery, Event
from webhooks.retries import record_responses

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_moves_are_those_of_the_state_machine() -> None:
    pairs = JobMove.pairs()
    assert pairs >= MOVES
    # Pauses, resumes and notes change no status (`is_possible`).
    assert all(before == after for before, after in pairs - MOVES)


def test_jobs_are_possible_at_every_step() -> None:
    submitted()
    claimed_job()
    running_job()
    run_job(wants_webhook=True, priority_fee_credits=5)
    assert found() == []


def test_jobs_in_shards_are_possible_at_every_step() -> None:
    stage = sharded_job()
    assert found() == []
    run_shard(stage, conducts=True)
    run_shard(stage)
    started(stage)
    assert found() == []
    run_sharded_job()
    assert found() == []


def test_lost_returned_and_cancelled_attempts_are_possible() -> None:
    lose(running_job()[0])
    job = job_moves.claim_job("host:2:cd:0")
    assert job is not None
    assert job_moves.requeue(job, reason="the worker stops", cause=ReturnCause.RETURNED)
    assert found() == []
    again = job_moves.claim_job("host:2:cd:1")
    assert again is not None
    cancellation.cancel(again, by=SYSTEM)
    expire_lease(again)
    assert sweep.recover(Job.objects.get(pk=job.pk), reason="the worker was killed")
    cancellation.cancel(submitted(), by=SYSTEM)
    assert found() == []


def test_the_last_loss_and_an_expired_wait_are_possible() -> None:
    job = submitted()
    for number in range(3):
        assert job_moves.claim_job(f"host:{number}:ab:0") is not None
        expire_lease(job)
        assert sweep.recover(Job.objects.get(pk=job.pk), reason="the worker was killed")
    waiting = submitted()
    Job.objects.filter(pk=waiting.pk).update(queue_deadline_at=Now())
    assert sweep.end_overdue_waits() == 1
    assert found() == []


def test_a_longer_run_holds_more_credits() -> None:
    job, run_id = running_job(held_credits=320)
    ledger.correct(job.account, 640, reason="for a test")
    assert job_moves.extend_hold(job, 320)
    end_run(run_id, wall_ms=15_000)
    assert job_moves.finish(job, completed(job, wall_ms=15_000))
    assert found() == []


def test_deliveries_are_possible_at_every_step() -> None:
    client = make_client_with_events(0, account=make_account())
    run_job(client=client, wants_webhook=True)
    (attempt,) = claim_deliveries(STEADY, room=1)
    assert found() == []
    record_responses([(attempt, Response(status=500))])
    assert found() == []
    Event.objects.update(next_attempt_at=Now())
    client.webhook.refresh_from_db()
    type(client.webhook).objects.update(failing_since=None)
    assert len(claim_deliveries(STEADY, room=1)) == 1
    past = timedelta(minutes=1)
    Delivery.objects.update(started_at=F("started_at") - past)
    Event.objects.update(lease_expires_at=Now() - past)
    assert retries.recover_lost() == 1
    record_responses([(attempt, Response(status=200)) for attempt in claim_deliveries(STEADY, room=1)])
    assert found() == []
    events.redeliver(Event.objects.get())
    assert found() == []


def test_a_deleted_webhook_event_is_possible_after_its_retention() -> None:
    run_job(wants_webhook=True)
    Event.objects.all().delete()
    assert [deviation.rule for deviation in found()] == ["end_is_reported_once"]
    later = replace(replay.current_terms(), notices_kept_since=timezone.now().timestamp())
    assert found(terms=later) == []


@pytest.mark.parametrize("jobs", [1, 5])
def test_a_batch_is_one_statement(jobs: int) -> None:
    for _ in range(jobs):
        run_job(wants_webhook=True)
    reader = Replay()
    with traffic() as recorded:
        assert list(reader.deviations()) == []
    assert len(recorded.statements) == 1
    assert reader.count.jobs == jobs


def test_all_jobs_are_read_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "JOBS_AT_ONCE", 2)
    for _ in range(4):
        submitted()
    reader = Replay()
    with traffic() as recorded:
        assert list(reader.deviations()) == []
    assert (len(recorded.statements), reader.count.jobs) == (3, 4)


def test_a_period_selects_jobs_by_their_submission() -> None:
    first, second = submitted(), submitted()
    start, end = moment_of(first.pk), moment_of(second.pk)
    Job.objects.update(started_at=Now())
    millisecond = timedelta(milliseconds=1)

    def jobs(**period: object) -> list[int]:
        return [deviation.job_id for deviation in found(**period)]

    assert jobs(since=start, until=end + millisecond) == [first.pk, second.pk]
    assert jobs(since=end + millisecond) == []
    assert jobs(until=start) == []


def run(*arguments: str) -> str:
    """Run the command and return what it prints."""
    out = StringIO()
    call_command("verifyhistory", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_counts_what_it_checked() -> None:
    run_job()
    assert run() == "No deviations found. Jobs checked: 1, with 12 rows.\n"
    assert run("--until", "2020-01-01") == "No deviations found. Jobs checked: 0, with 0 rows.\n"
    assert run("--json") == ""


def test_the_command_names_each_row_and_fails() -> None:
    job = run_job()
    Run.objects.update(wall_ms=1000)
    out = StringIO()
    with pytest.raises(CommandError, match=r"^1 row could not have happened\. Jobs checked: 1, with 12 rows\.$"):
        call_command("verifyhistory", stdout=out)
    expected = "1000 ms of simulator time, not 1500"
    assert out.getvalue() == f"jobs_job {job.pk} breaks time_is_that_of_the_runs: expected {expected}\n"


def test_json_has_the_row_and_a_limit_ends_the_replay() -> None:
    jobs = [run_job(), run_job()]
    Run.objects.update(ended_at=None, wall_ms=None)
    out = StringIO()
    with pytest.raises(CommandError, match=r"^1 row could"):
        call_command("verifyhistory", "--json", "--limit", "1", stdout=out)
    (line,) = out.getvalue().splitlines()
    ended = JobEvent.objects.get(job=jobs[0], to_status="completed")
    assert json.loads(line) == {
        "table": "jobs_run",
        "row_id": Run.objects.order_by("pk")[0].pk,
        "job_id": jobs[0].pk,
        "rule": "runs_end_with_their_attempt",
        "expected": f"an end by {moment(ended.at.timestamp())}",
    }


def test_a_wrong_time_is_refused() -> None:
    with pytest.raises(CommandError, match="argument --since: 'yesterday' is not a time such as"):
        run("--since", "yesterday")
