"""The timeline of a job in the admin."""

from datetime import timedelta
from itertools import chain

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.db.models import Model
from django.db.models.functions import Now
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext

from billing.models import Entry
from clients.audit import Actor
from clients.models import AuditEvent
from dashboard.templatetags.job_labels import elapsed
from jobs.enums import Status
from jobs.lifecycle import cancellation, job_moves
from jobs.models import Artifact, Job, JobEvent, Run
from jobs.operations import operator_actions, timeline
from jobs.queue import sweep
from tests.factories import make_account, make_running_job
from tests.jobs.plans import forget_statistics, plan_of
from tests.webhooks.helpers import end_job, make_client_with_events
from webhooks.claims import claim_deliveries
from webhooks.dispatcher import pools
from webhooks.http_client import Response
from webhooks.models import Delivery, Event
from webhooks.retries import record_responses

pytestmark = pytest.mark.django_db
OPERATOR = Actor(label="Operator Robin")
STEADY, _ = pools()


def read(job: Job, *models: type[Model]) -> timeline.JobTimeline:
    """Return the timeline that a reader of some models sees; without models, of all."""
    loaded = Job.objects.select_related("client", "api_key").get(pk=job.pk)
    return timeline.timeline_of(loaded, may_view=lambda model: not models or model in models)


def texts_of(job: Job, *models: type[Model]) -> list[str]:
    return [step.entry.text for step in read(job, *models).entries]


def make_full_job() -> Job:
    """Make a job with records of every kind."""
    job = end_job(make_client_with_events(0))
    (attempt,) = claim_deliveries(STEADY, room=1)
    record_responses([(attempt, Response(status=503))])
    Artifact.objects.create(
        id=1,
        job=job,
        attempt=1,
        kind="json_report",
        token="secret-token-secret-to",
        storage_name="x",
        bytes=1234,
        created_at=job.created_at,
    )
    AuditEvent.objects.create(account=job.account, action="job.renamed", actor="Robin", target_id=job.pk)
    return job


def test_the_timeline_contains_every_kind_of_record() -> None:
    told = texts_of(make_full_job())
    for part in (
        "Submitted by",
        "→ held",
        "Assigned to a worker",
        "try 1: simulator started on",
        "JSON report stored, 1,234 bytes",
        "Renamed by Robin",
        "Webhook event created, now waiting",
        "Delivery failed: status 503",
    ):
        assert any(part in text for text in told), part
    assert not any("secret-token" in text for text in told)


def test_steps_are_in_order_of_time() -> None:
    job = make_full_job()
    Run.objects.filter(job=job).update(ended_at=job.created_at + timedelta(hours=1), wall_ms=90)
    steps = read(job).entries
    assert [step.entry.at for step in steps] == sorted(step.entry.at for step in steps)
    assert "ended" in steps[-1].entry.text
    assert sum((step.since_last for step in steps), timedelta()) == steps[-1].entry.at - steps[0].entry.at


def test_changes_of_the_same_moment_keep_their_order() -> None:
    job = make_full_job()
    JobEvent.objects.filter(job=job).update(at=job.created_at)
    told = [step.entry.text for step in read(job, JobEvent).entries if step.entry.kind == "status"]
    assert told[-3:] == ["Assigned to a worker (worker-1)", "Simulation started", "Completed"]


def test_the_end_of_a_simulator_tells_what_it_used_and_lacked() -> None:
    job = make_full_job()
    end = {
        "ended_at": job.created_at,
        "wall_ms": 1540,
        "exit_code": "0",
        "peak_memory_bytes": 3 * 2**20,
        "stopped_for": "",
    }
    Run.objects.filter(job=job).update(**end, sandbox_layers=["bubblewrap", "own_uid", "rlimits", "seccomp"])
    (told,) = [text for text in texts_of(job, Run) if "simulator ended" in text]
    assert told.endswith(": simulator ended, exit status 0 after 1.5 s, 3 MiB, without network namespace")


def test_successful_runs_of_a_stage_are_told_together() -> None:
    job = make_full_job()
    run = Run.objects.get(job=job)
    start, minute = run.started_at, timedelta(minutes=1)
    for shard, code in enumerate(("0", "0", "1", "0")):
        run.pk, run.shard, run.seat, run.exit_code, run.wall_ms = None, shard, shard % 2, code, 1500
        run.try_number, run.peak_memory_bytes, run.stopped_for = 2, shard * 2**20, ""
        run.sandbox_layers = ["bubblewrap", "own_uid", "network_namespace", "rlimits"]
        run.started_at, run.ended_at = start + shard * minute, start + (shard + 5) * minute
        run.save()
    Run.objects.filter(job=job, try_number=1).delete()
    steps = [step.entry for step in read(job, Run).entries if step.entry.kind == "run"]
    assert [(moment.at - start) // minute for moment in steps] == [0, 2, 7, 8]
    first, failed, _, last = [moment.text for moment in steps]
    assert first.startswith("Attempt 1, stage 1: first of 3 successful simulators started on ")
    assert first.endswith(", slots used: 2")
    assert "shard 2, try 2: simulator started" in failed
    assert last.endswith(": last of 3 successful simulators ended, 4.5 s in total, at most 3 MiB, without seccomp")


def test_all_successful_runs_of_a_large_stage_are_counted() -> None:
    job = make_full_job()
    run = Run.objects.get(job=job)
    end = {"exit_code": "0", "wall_ms": 500, "ended_at": run.started_at, "build": run.build}
    Run.objects.bulk_create(
        Run(job=job, attempt=1, stage=2, shard=shard, started_at=run.started_at, **end) for shard in range(1001)
    )
    told = read(job, Run)
    (last,) = [step.entry.text for step in told.entries if "last of" in step.entry.text]
    assert "last of 1,001 successful simulators ended, 500.5 s in total" in last
    assert not told.is_shortened


def test_operators_are_named() -> None:
    job = make_running_job()
    operator_actions.requeue(job, by=OPERATOR)
    cancellation.cancel(Job.objects.get(pk=job.pk), by=OPERATOR)
    told = texts_of(job, AuditEvent)
    assert told[1:] == ["Requeued by Operator Robin", "Cancelled by Operator Robin"]


def test_lost_and_returned_attempts_are_told_apart() -> None:
    lost, returned = make_running_job(), make_running_job()
    Job.objects.filter(pk=lost.pk).update(lease_expires_at=Now() - timedelta(seconds=1))
    assert sweep.recover(Job.objects.get(pk=lost.pk))
    operator_actions.requeue(returned, by=OPERATOR)
    end = "the job returned to its position in the queue"
    assert f"Attempt 1 was lost; {end} (worker-1 stopped renewing its lease)" in texts_of(lost, JobEvent)
    assert f"Attempt 1 was stopped; {end} (requeued by an operator)" in texts_of(returned, JobEvent)


def test_a_reader_sees_only_permitted_records() -> None:
    kinds = {step.entry.kind for step in read(make_full_job(), JobEvent).entries}
    assert kinds == {"job", "status"}


def test_a_long_timeline_keeps_the_latest_records(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_full_job()
    assert not read(job).is_shortened
    monkeypatch.setattr(timeline, "MAX_OF_A_KIND", 1)
    with CaptureQueriesContext(connection) as captured:
        told = read(job, JobEvent)
    assert captured[-1]["sql"].endswith(" LIMIT 2"), "no more than needed is read"
    assert told.is_shortened
    assert [step.entry.text for step in told.entries if step.entry.kind == "status"] == ["Completed"]


def test_each_source_is_read_by_an_index() -> None:
    job = make_full_job()
    forget_statistics(Entry, AuditEvent, Event, JobEvent)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    with CaptureQueriesContext(connection) as captured:
        timeline.timeline_of(job, may_view=lambda _: True)
    plans = [plan_of(query["sql"]) for query in captured if "_" in query["sql"] and "SELECT" in query["sql"]]
    indexes = set(chain.from_iterable(plan.indexes for plan in plans))
    assert {"entry_by_job", "audit_by_job", "event_by_job"} <= indexes
    assert not set(chain.from_iterable(plan.scanned for plan in plans))


def page_of(job: Job, *permissions: str) -> str:
    """Return the admin page of a job for a user with these permissions, or for a superuser without any given."""
    user = User.objects.create_user(f"staff-{User.objects.count()}", is_staff=True, is_superuser=not permissions)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    browser = Browser()
    browser.force_login(user)
    return browser.get(f"/admin/jobs/job/{job.pk}/change/").content.decode()


def test_the_page_links_to_the_objects() -> None:
    job = make_full_job()
    shown = page_of(job)
    event, delivery, entry = (
        Event.objects.get(),
        Delivery.objects.get(),
        Entry.objects.filter(job_id=job.pk).latest("pk"),
    )
    assert f'href="/admin/webhooks/event/{event.pk}/change/"' in shown
    assert f'href="/admin/webhooks/delivery/{delivery.pk}/change/"' in shown
    assert f'href="/admin/billing/entry/{entry.pk}/change/"' in shown
    assert f'href="/admin/jobs/build/{Run.objects.get().build_id}/change/"' in shown


def test_the_page_respects_permissions() -> None:
    job = make_full_job()
    shown = page_of(job, "view_job", "view_run")
    assert "try 1: simulator started on" in shown
    assert '<td class="console-name"><bdi>Attempt 1, stage 1' in shown, "without a link to its build"
    assert "→ held" not in shown
    assert "Webhook event" not in shown


def test_hostile_text_is_escaped() -> None:
    job = make_full_job()
    AuditEvent.objects.create(account=job.account, action="job.renamed", actor="<img src=x>", target_id=job.pk)
    assert "&lt;img src=x&gt;" in page_of(job)
    assert "<img src=x>" not in page_of(job)


def test_the_number_of_queries_does_not_depend_on_the_records() -> None:
    job, counts = make_full_job(), []
    for _ in range(2):
        with CaptureQueriesContext(connection) as captured:
            timeline.timeline_of(
                Job.objects.select_related("client", "api_key").get(pk=job.pk), may_view=lambda _: True
            )
        counts.append(len(captured))
        for number in range(1, 6):
            run = Run.objects.filter(job=job).latest("pk")
            run.pk, run.try_number = None, run.try_number + number
            run.save()
    assert counts == [9, 9]


def test_another_jobs_records_are_not_told() -> None:
    job = make_full_job()
    before = texts_of(job)
    job_moves.finish(
        make_running_job(account=make_account()), job_moves.Outcome(status=Status.COMPLETED, summary={})
    )
    assert texts_of(job) == before


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.00 s"),
        (0.127, "0.13 s"),
        (59.94, "59.9 s"),
        (200, "3:20 min"),
        (7500, "2:05 h"),
        (3_600_000, "1,000:00 h"),
    ],
)
def test_durations_have_fitting_units(seconds: float, text: str) -> None:
    assert elapsed(timedelta(seconds=seconds)) == text
