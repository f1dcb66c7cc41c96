"""The list of jobs and the page of a job: states, filters, query plans, cancellation."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from billing import ledger
from clients.accounts import default_client
from clients.models import Client, Membership
from dashboard.jobs import job_list, job_page
from dashboard.paging import ROWS
from jobs.enums import Priority, Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.transitions import JobMove
from jobs.live import progress
from jobs.models import Job, JobEvent, Run
from jobs.queue import forecast
from jobs.results import labels
from simservice.api.pagination import make_cursor
from simservice.ids import first_id_of, new_token
from tests.dashboard.browsing import browser_of, text_of
from tests.dashboard.job_pages import job_path, listed_ids, open_job, open_list, open_log
from tests.dashboard.summaries import EVIL, NAMES, make_completed_job, make_failed_job, summary
from tests.factories import make_client, make_job, make_member, make_running_job

pytestmark = pytest.mark.django_db
MAX_QUERIES = 12


def test_an_empty_list_explains_how_to_submit(owner: Membership) -> None:
    assert "No jobs yet" in text_of(open_list(owner))
    viewer = make_member(owner.account, role="viewer")
    assert "New job" not in text_of(open_list(viewer))


def test_the_list_shows_the_accounts_jobs_newest_first(owner: Membership) -> None:
    client = default_client(owner.account)
    first = make_job(client, metadata={"raid": EVIL})
    second = make_completed_job(client=client)
    make_job()
    assert listed_ids(owner) == [second.pk, first.pk]
    content = open_list(owner).content.decode()
    assert EVIL not in content


def test_rows_say_what_ran_and_what_came_of_it(owner: Membership) -> None:
    client = default_client(owner.account)
    text = 'deathknight="Bruna"\nspec=unholy\nfight_style=HecticAddCleave\ndesired_targets=3\nmax_time=300\n'
    make_completed_job(summary("Ring", EVIL, mean=100.0), client=client, text=text, character="Bruna")
    make_failed_job(client=client)
    response = open_list(owner)
    failed, done = (job.row for job in response.context["page"].rows)
    assert (done.class_key, done.specialization, done.variants) == ("death-knight", "Unholy Death Knight", 2)
    assert done.fight == "HecticAddCleave, 3 targets, 5:00"
    assert (done.error, failed.error, failed.verdict) == (1.0, None, None)
    shown = text_of(response)
    assert "Unholy Death Knight 2 variants: Best: &lt;img src=x onerror=alert(1)&gt; , +10 % ± 2" in shown
    assert "± 1.00 %" in shown
    assert shown.count("just now") == 2
    # Only exceptions have a status.
    assert 'class="status status-failed"' in response.content.decode()
    assert "status-completed" not in response.content.decode()


def test_a_running_job_shows_its_progress_and_refreshes(owner: Membership) -> None:
    make_completed_job(client=default_client(owner.account))
    assert "hx-get" not in open_list(owner).content.decode()
    job = make_running_job(client=default_client(owner.account))
    progress.Publisher(job).publish(progress.Progress(percent=42.4, stage=None))
    content = open_list(owner, "order=oldest").content.decode()
    assert 'value="42.4"' in content
    assert f'hx-get="/dashboard/{owner.account}/jobs?order=oldest"' in content


@pytest.mark.parametrize(("style", "shown"), [("", ""), ("patch_werk", "patch werk"), (EVIL, EVIL)])
def test_hostile_and_missing_options_of_a_fight(owner: Membership, style: str, shown: str) -> None:
    text = f'mage="x"\nfight_style="{style}"\ndesired_targets=-1\nmax_time=nan\n'
    make_completed_job(client=default_client(owner.account), text=text)
    response = open_list(owner)
    assert [job.row.fight for job in response.context["page"].rows] == [shown]
    assert "<img" not in response.content.decode()


def test_the_oldest_jobs_can_come_first(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_list, "ROWS", 2)
    jobs = [make_job(default_client(owner.account), metadata={"note": "wanted"}).pk for _ in range(5)]
    for text in ("", "&text=wanted"):
        query, seen = f"order=oldest{text}", []
        while query:
            response = open_list(owner, query)
            seen += [job.pk for job in response.context["page"].rows]
            query = response.context["page"].following[1:]
        assert seen == jobs
    monkeypatch.setattr(job_list, "SEARCHED_JOBS", 2)
    rows = job_list.filtered(owner.account, job_list.NO_FILTERS | {"order": "oldest"})
    assert job_list._search(rows, "nowhere", is_oldest=True) == ([], jobs[1])


def test_filters_limit_the_list(owner: Membership) -> None:
    client, bot = default_client(owner.account), make_client(owner.account)
    done, failed = make_completed_job(client=client), make_failed_job(client=client)
    waiting = make_job(bot, metadata={"note": 'Ünder "mine" 100%\\'})
    today, tomorrow = timezone.now().date(), timezone.now().date() + timedelta(days=1)
    for query, expected in {
        "": [waiting, failed, done],
        "status=completed": [done],
        "status=failed": [failed],
        "status=active": [waiting],
        "status=cancelled": [],
        f"client={bot.pk}": [waiting],
        f"build={done.build_id}": [done],
        f"client={bot.pk}&status=completed": [],
        f"since={today}&until={today}": [waiting, failed, done],
        f"since={tomorrow}": [],
        "until=2020-01-01": [],
        "text=MINE": [waiting],
        "text=Ünder": [waiting],
        "text=%22mine%22+100%25%5C": [waiting],
        "text=100_": [],
        "text=nowhere": [],
    }.items():
        assert listed_ids(owner, query) == [job.pk for job in expected], query


@pytest.mark.parametrize(
    "query",
    [
        "order=x",
        "status=x",
        "client=0",
        "client=x",
        "build=x",
        "since=x",
        "until=2020-13-01",
        f"text={'x' * 101}",
        "text=%00",
    ],
)
def test_an_invalid_filter_shows_an_error(owner: Membership, query: str) -> None:
    response = open_list(owner, query)
    assert 'class="error"' in response.content.decode()
    assert "page" not in response.context


@pytest.mark.parametrize("query", ["since=0001-01-01&until=9999-12-31", "since=9999-12-31", "until=0001-01-01"])
def test_extreme_dates_are_accepted(owner: Membership, query: str) -> None:
    open_list(owner, query)


def test_another_accounts_client_is_not_a_choice(owner: Membership) -> None:
    other_client = make_client(make_member().account)
    assert 'class="error"' in open_list(owner, f"client={other_client.pk}").content.decode()


def test_the_list_is_paged_by_cursor(owner: Membership) -> None:
    client = default_client(owner.account)
    numbers = [make_job(client).pk for _ in range(ROWS + 2)][::-1]
    first = open_list(owner, "status=active")
    assert listed_ids(owner, "status=active") == numbers[:ROWS]
    following = first.context["page"].following
    assert "status=active" in following
    assert listed_ids(owner, following[1:]) == numbers[ROWS:]


def test_an_invalid_cursor_is_not_found(owner: Membership) -> None:
    http, path = browser_of(owner), f"/dashboard/{owner.account}/jobs"
    for after in ("x", make_cursor(account_id=make_member().account.pk, last_id=1)):
        assert http.get(path, {"after": after}).status_code == 404


def test_expired_jobs_are_not_listed(owner: Membership, settings: Settings) -> None:
    old = timezone.now() - timedelta(days=settings.RETENTION_DAYS, seconds=1)
    make_job(default_client(owner.account), id=first_id_of(old), created_at=old)
    assert listed_ids(owner) == []


def test_a_long_search_continues_on_the_next_page(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_list, "SEARCHED_JOBS", 2)
    client = default_client(owner.account)
    matching = make_job(client, metadata={"note": "wanted"})
    for _ in range(2):
        make_job(client)
    response = open_list(owner, "text=wanted")
    assert "Searched to" in text_of(response)
    page = response.context["page"]
    assert (page.rows, bool(page.following)) == ([], True)
    assert listed_ids(owner, page.following[1:]) == [matching.pk]


def test_a_slow_search_is_stopped(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*arguments: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(5)")

    monkeypatch.setattr(job_list, "_listing", slow)
    monkeypatch.setattr(job_list, "STATEMENT_TIMEOUT_MS", 20)
    assert "The search took too long" in text_of(open_list(owner))


@pytest.mark.parametrize("query", ["", "status=active", "text=a", "status=failed&text=a"])
def test_the_list_needs_few_queries(
    owner: Membership, query: str, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client = default_client(owner.account)
    for _ in range(3):
        make_completed_job(summary("Ring"), client=client)
        make_running_job(client=client)
    http = browser_of(owner)
    with django_assert_max_num_queries(MAX_QUERIES):
        http.get(f"/dashboard/{owner.account}/jobs?{query}")


@pytest.fixture
def many_jobs(owner: Membership) -> Job:
    """Create a thousand jobs in two accounts; return one with a rare client, build and status."""
    usual = make_completed_job(client=default_client(owner.account))
    other_job = make_completed_job()
    rare = make_failed_job(client=make_client(owner.account))
    for job, copies in ((usual, 300), (other_job, 700), (rare, 20)):
        fields = {field.attname: getattr(job, field.attname) for field in Job._meta.concrete_fields}
        rows = (fields | {"id": job.pk + 1000 + n, "share_token": new_token()} for n in range(copies))
        Job.objects.bulk_create(Job(**row) for row in rows)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_job")
    return rare


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_search_reports_how_far_it_reached(
    owner: Membership, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(job_list, "SEARCHED_JOBS", 2)
    newest = [make_job(default_client(owner.account)).pk for _ in range(count)][::-1]
    rows = job_list.filtered(owner.account, job_list.NO_FILTERS)
    assert job_list._search(rows, "nowhere") == ([], newest[1] if count > 1 else None)


def test_each_filter_uses_its_index(owner: Membership, many_jobs: Job) -> None:
    for query, index in (
        ({"status": "active"}, "job_active"),
        ({"status": "failed"}, "job_by_status"),
        ({"client": str(many_jobs.client_id)}, "job_by_client"),
        ({"build": str(many_jobs.build_id)}, "job_on_build"),
        ({"order": "oldest"}, "job_by_account"),
    ):
        rows = job_list.filtered(owner.account, job_list.NO_FILTERS | query)
        plan = rows.values("pk")[:26].explain()
        assert f" {index}" in plan, plan
        assert "Seq Scan" not in plan


def test_a_waiting_job_can_be_cancelled(owner: Membership) -> None:
    job = make_job(default_client(owner.account))
    text, log = text_of(open_job(owner, job)), text_of(open_log(owner, job))
    for expected in ("Waiting", "The job is in the queue", "Cancel job"):
        assert expected in text, expected
    for expected in ("Submitted", "has not run yet"):
        assert expected in log, expected


def test_a_waiting_job_shows_its_queue_position(owner: Membership) -> None:
    make_job()
    job = make_job(default_client(owner.account))
    forecast.publish()
    assert "1 job is ahead of this one" in text_of(open_job(owner, job))


def test_a_running_job_shows_progress_and_output(owner: Membership) -> None:
    job = make_running_job(client=default_client(owner.account))
    publisher = progress.Publisher(job)
    publisher.log.update("stdout", f"Generating {EVIL}")
    stage = progress.StageProgress(current=1, total=3, label="initial", percent=5)
    publisher.publish(progress.Progress(percent=42.4, stage=stage))
    response = open_job(owner, job)
    content = response.content.decode()
    assert 'value="42.4"' in content
    assert "stage 1 of 3" in content
    assert "Generating" not in content
    assert "Generating &lt;img" in open_log(owner, job).content.decode()


def test_a_completed_job_shows_escaped_results(owner: Membership) -> None:
    result = summary(*NAMES, talents="ABC", gear=[{"slot": "head", "name": EVIL, "ilevel": 658, "gemIds": [1, 2]}])
    job = make_completed_job(result, client=default_client(owner.account), metadata={EVIL: EVIL})
    response = open_job(owner, job)
    content = response.content.decode()
    assert "<img" not in content
    assert "<script>" not in content
    for text in ("Ranking", "+30 % ± ", "{{ 7|add:7 }}", "Talents", "1 , 2", "64 credits billed", "Baseline"):
        assert text in text_of(response), text


def test_metadata_keys_can_have_any_name(owner: Membership) -> None:
    odd = {"items": "a", "0": "b", "__class__": "e"}
    job = make_job(default_client(owner.account), metadata=odd)
    assert "__class__ e" in text_of(open_log(owner, job))


def test_a_failed_job_says_why_and_what_to_do(owner: Membership) -> None:
    job = make_failed_job(f"Unknown {EVIL}", client=default_client(owner.account))
    text = open_job(owner, job).content.decode()
    for expected in ("Failed", "Unknown &lt;img", "Correct the error shown above", "Fix and resubmit"):
        assert expected in text, expected


def test_the_history_shows_lost_attempts(owner: Membership) -> None:
    job = make_running_job(client=default_client(owner.account))
    assert job_moves.requeue(job, reason="worker-1 was lost")
    text = text_of(open_log(owner, job))
    assert "Attempt 1 was lost; the job returned to its position in the queue" in text
    assert "lost when its worker stopped" in text
    assert "worker-1" not in text


def test_runs_show_times_memory_and_sandbox(owner: Membership) -> None:
    job = make_completed_job(client=default_client(owner.account))
    run_fields = {"ended_at": timezone.now(), "wall_ms": 1234, "cpu_ms": 900, "peak_memory_bytes": 3 << 20}
    layers = ["bubblewrap", "new_layer"]
    Run.objects.filter(job=job).update(exit_code="0", stopped_for="", sandbox_layers=layers, **run_fields)
    text = text_of(open_log(owner, job))
    for expected in ("1.2 s", "0.9 s", "3.0\xa0MB", "exit status 0", "private file system (bubblewrap), new layer"):
        assert expected.replace("\xa0", " ") in text.replace("\xa0", " "), expected


def add_runs(job: Job, count: int, **fields: object) -> None:
    """Copy the run of a job to more shards."""
    run = Run.objects.get(job=job)
    for shard in range(1, count + 1):
        run.pk, run.shard = None, shard
        run.save(force_insert=True)
    Run.objects.filter(job=job).update(ended_at=timezone.now(), **fields)


def test_a_sandbox_of_all_runs_is_named_once(owner: Membership) -> None:
    job = make_completed_job(client=default_client(owner.account))
    add_runs(job, 2, sandbox_layers=["bubblewrap"])
    assert text_of(open_log(owner, job)).count("private file system (bubblewrap)") == 1
    Run.objects.filter(job=job, shard=2).update(sandbox_layers=["seccomp"])
    text = text_of(open_log(owner, job))
    assert (text.count("private file system (bubblewrap)"), text.count("seccomp")) == (2, 1)


@pytest.mark.parametrize(("more", "is_folded"), [(job_page.OPEN_RUNS - 1, False), (job_page.OPEN_RUNS, True)])
def test_many_runs_are_folded(owner: Membership, *, more: int, is_folded: bool) -> None:
    job = make_completed_job(client=default_client(owner.account))
    add_runs(job, more)
    assert (f"Show {more + 1} runs" in text_of(open_log(owner, job))) == is_folded


def test_a_completed_job_begins_with_its_result(owner: Membership) -> None:
    text = open_job(owner, make_completed_job(client=default_client(owner.account))).content.decode()
    assert text.index("status-completed") < text.index("<h1>") < text.index('class="headline"')
    assert 'class="standing"' not in text
    assert 'class="ending"' not in text


def test_runs_of_shards_are_in_order(owner: Membership) -> None:
    job = make_completed_job(client=default_client(owner.account), slots_used=3)
    run = Run.objects.get(job=job)
    for shard, try_number in ((2, 1), (1, 2), (1, 1)):
        run.pk, run.shard, run.try_number = None, shard, try_number
        run.save(force_insert=True)
    text = " ".join(text_of(open_log(owner, job)).split())
    assert "Slots used 3" in text
    assert "Attempt Stage Shard Try Started" in text
    assert re.findall(r"1 1 (\d) (\d) \d\d:", text) == [("1", "1"), ("2", "1"), ("2", "2"), ("3", "1")]


def test_a_job_in_one_process_shows_no_shards(owner: Membership) -> None:
    text = text_of(open_log(owner, make_completed_job(client=default_client(owner.account))))
    assert [word for word in ("Slots used", "Shard", "Try", "Only the last") if word in text] == []


def test_only_the_last_runs_are_listed(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_page, "MAX_RUNS", 2)
    job = make_running_job(client=default_client(owner.account))
    run = Run.objects.get(job=job)
    for shard in (1, 2):
        run.pk, run.shard = None, shard
        run.save(force_insert=True)
    text = " ".join(text_of(open_log(owner, job)).split())
    assert re.findall(r"1 1 (\d) 1 \d\d:", text) == ["2", "3"]
    assert "Only the last 2 runs are listed." in text


def test_a_list_of_all_runs_does_not_say_that_there_are_more(
    owner: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_page, "MAX_RUNS", 1)
    job = make_running_job(client=default_client(owner.account))
    assert "Only the last" not in text_of(open_log(owner, job))


def test_every_transition_has_a_label() -> None:
    for source, to in JobMove.pairs():
        assert labels.event(JobEvent(from_status=source, to_status=to, attempt=2))


STATES: dict[str, Callable[[Client], Job]] = {
    "waiting": make_job,
    "running": lambda client: make_running_job(client=client),
    "completed": lambda client: make_completed_job(summary(*NAMES), client=client),
    "failed": lambda client: make_failed_job(client=client),
}


@pytest.mark.parametrize("state", STATES)
def test_a_job_page_needs_few_queries(
    owner: Membership, state: str, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    job, http = STATES[state](default_client(owner.account)), browser_of(owner)
    with django_assert_max_num_queries(MAX_QUERIES):
        http.get(job_path(job))
    for part in ("profile", "log", "files"):
        with django_assert_max_num_queries(MAX_QUERIES):
            assert http.get(f"{job_path(job)}/{part}").status_code == 200


def test_another_accounts_job_is_not_found(owner: Membership) -> None:
    job = make_job()
    assert browser_of(owner).get(f"/dashboard/{owner.account}/jobs/{job.pk}").status_code == 404


def test_a_fee_is_shown_until_it_is_released(owner: Membership) -> None:
    job = make_job(default_client(owner.account), priority=Priority.HIGH, priority_fee_credits=320)
    assert "High (fee: 320 credits)" in text_of(open_log(owner, job))
    assert job_moves.finish(job, job_moves.CANCELLED)
    text = text_of(open_log(owner, job))
    assert "High" in text
    assert "320 credits" not in text


def test_a_waiting_job_is_cancelled_at_once(owner: Membership) -> None:
    http, job = browser_of(owner), make_job(default_client(owner.account))
    path = job_path(job)
    for _ in range(2):
        assert "The job was cancelled before it ran." in text_of(http.post(f"{path}/cancel", follow=True))
    job.refresh_from_db()
    assert (job.status, job.error_code) == ("cancelled", "user_cancelled")


def test_cancelling_a_running_job_requests_a_stop(owner: Membership) -> None:
    http, job = browser_of(owner), make_running_job(client=default_client(owner.account))
    text = text_of(http.post(f"{job_path(job)}/cancel", follow=True))
    assert "Stopping" in text
    assert "Cancel job" not in text


def test_a_cancellation_says_first_what_it_will_bill(owner: Membership) -> None:
    client = default_client(owner.account)
    running = make_running_job(client=client)
    assert "The simulation time used so far will be billed." in text_of(open_job(owner, running))
    job_moves.requeue(running, reason="lost")
    assert "Only the finished parts of the simulation will be billed." in text_of(open_job(owner, running))
    assert "The job has not started, so nothing will be billed." in text_of(open_job(owner, make_job(client)))


def test_an_ended_job_cannot_be_cancelled(owner: Membership) -> None:
    http, job = browser_of(owner), make_completed_job(client=default_client(owner.account))
    text = text_of(http.post(f"{job_path(job)}/cancel", follow=True))
    assert "has already ended" in text


def test_a_paused_job_can_be_resumed(owner: Membership) -> None:
    http, job = browser_of(owner), make_job(default_client(owner.account))
    text = text_of(http.post(f"{job_path(job)}/pause", follow=True))
    for expected in ("Paused", "This job is paused. Unless it is resumed, it ends at 2", "Resume job"):
        assert expected in text, expected
    assert "Pause job" not in text
    assert "Paused" in text_of(open_log(owner, job))
    assert f"{job.title} Paused" in text_of(http.get(f"/dashboard/{owner.account}/"))
    text = text_of(http.post(f"{job_path(job)}/resume", follow=True))
    assert "Pause job" in text
    assert "Resumed" in text_of(open_log(owner, job))


def test_a_running_job_is_being_paused_until_its_worker_has_stopped(owner: Membership) -> None:
    http, job = browser_of(owner), make_running_job(client=default_client(owner.account))
    text = text_of(http.post(f"{job_path(job)}/pause", follow=True))
    assert "Pausing" in text
    assert "Resume job" in text
    assert "Running" in text_of(http.post(f"{job_path(job)}/resume", follow=True))


def test_a_refused_pause_or_resume_says_why(owner: Membership) -> None:
    http, job = browser_of(owner), make_job(default_client(owner.account), max_credits=6400, ceiling_credits=6400)
    http.post(f"{job_path(job)}/pause")
    ledger.correct(owner.account, 6390 - ledger.available(owner.account), reason="spent elsewhere")
    text = text_of(http.post(f"{job_path(job)}/resume", follow=True))
    assert "The account needs 9 more credits to resume this job." in text
    http.post(f"{job_path(job)}/cancel")
    for action in ("pause", "resume"):
        text = text_of(http.post(f"{job_path(job)}/{action}", follow=True))
        assert "The job has already ended or is being cancelled." in text


def test_a_viewer_cannot_cancel(owner: Membership) -> None:
    viewer, job = make_member(owner.account, role="viewer"), make_job(default_client(owner.account))
    text = text_of(open_job(viewer, job))
    assert "Cancel" not in text
    assert "Pause" not in text
    assert "Run this again" not in text
    assert browser_of(viewer).post(f"{job_path(job)}/cancel").status_code == 403
    job.refresh_from_db()
    assert job.status == Status.PENDING
