"""The live overview of the admin."""

import time
from datetime import timedelta
from itertools import chain

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext
from redis.exceptions import RedisError

from dashboard.console import overview
from jobs import registry
from jobs.enums import Priority, Status
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Build, Job
from jobs.queue import forecast
from simservice import worker_heartbeats
from simservice.redis.client import redis
from tests.dashboard.console.conftest import Staff
from tests.factories import BuildFactory, make_account, make_client, make_job, make_running_job
from tests.jobs.plans import forget_statistics, plan_of
from tests.webhooks.helpers import end_job, make_client_with_events
from webhooks.models import Endpoint

pytestmark = pytest.mark.django_db
ADDRESS = "/admin/overview/"
FAILED = Outcome(status=Status.FAILED, error_code="invalid_profile", reason="x")


@pytest.fixture(autouse=True)
def _own_redis_keys() -> None:
    redis().delete(worker_heartbeats.KEY, forecast.KEY)


def text_of(browser: Browser) -> str:
    return browser.get(ADDRESS).content.decode()


def listed(browser: Browser, query: str) -> int:
    """Return how many jobs the list with a query contains. The overview must link to it."""
    assert f'href="/admin/jobs/job/{query}"' in text_of(browser)
    return int(browser.get("/admin/jobs/job/" + query.replace("&amp;", "&")).context["cl"].result_count)


def fail_job() -> Job:
    return end_job(make_client(make_account()), FAILED, wants_webhook=False)


def test_lanes_show_waiting_jobs_and_the_age_of_the_oldest(operator: Browser) -> None:
    job = make_job(priority=Priority.HIGH)
    Job.objects.filter(pk=job.pk).update(created_at=Now() - timedelta(minutes=5))
    forecast.publish()
    text = text_of(operator)
    assert '<th scope="row">High</th><td class="number">1</td>' in text
    assert '<dd class="console-small">oldest 5 min</dd>' in text
    assert "Queue as of <time" in text
    snapshot = forecast.current()
    assert snapshot
    as_of = operator.get(ADDRESS).context["queue_as_of"]
    assert as_of.timestamp() == pytest.approx(snapshot.taken_at, abs=0.001)


def test_without_a_snapshot_the_queue_is_unknown(operator: Browser) -> None:
    assert "The state of the queue is unknown." in text_of(operator)


def test_the_weakest_workers_come_first(operator: Browser) -> None:
    strong = ["bubblewrap", "own_uid", "network_namespace", "seccomp", "rlimits"]
    worker_heartbeats.report("sim@a-strong", slots=3, layers=strong)
    worker_heartbeats.report("sim@b-weak", slots=2, layers=["own_uid", "seccomp", "rlimits"])
    text = text_of(operator)
    assert text.index("<bdi>sim@b-weak</bdi>") < text.index("<bdi>sim@a-strong</bdi>")
    assert "Sandbox lacks: file system view, network namespace" in text
    assert "All protections active" in text


def test_workers_that_no_longer_respond_come_first(operator: Browser) -> None:
    worker_heartbeats.report("sim@live", slots=3)
    redis().zadd(worker_heartbeats.KEY, {"sim@silent 2": time.time() - 30.5, "sim@live 9": time.time() - 30.5})
    text = text_of(operator)
    assert text.index("<bdi>sim@silent</bdi>") < text.index("<bdi>sim@live</bdi>")
    assert text.count("Last seen 30 s ago") == 1
    assert '<th scope="row">Slots of live workers</th><td class="number">3</td>' in text


def test_running_jobs_are_counted(operator: Browser) -> None:
    make_running_job()
    forecast.publish()
    assert "<dt>Running</dt><dd>1</dd>" in text_of(operator)


def test_the_page_says_that_no_worker_is_running(operator: Browser) -> None:
    assert "No simulation workers are running." in text_of(operator)


def test_stalled_and_unannounced_jobs_need_attention(operator: Browser) -> None:
    assert "no longer responds" not in text_of(operator)
    jobs = [make_running_job() for _ in range(3)]
    Job.objects.filter(pk__in=[job.pk for job in jobs[:2]]).update(lease_expires_at=Now() - timedelta(seconds=1))
    Job.objects.filter(pk=make_job().pk).update(created_at=Now() + timedelta(hours=1))
    Job.objects.filter(pk=make_job().pk).update(created_at=Now() - timedelta(hours=1))
    text = text_of(operator)
    assert "2 jobs</a> are on a worker that no longer responds" in text
    assert "The next sweep returns them to the queue or ends them." in text
    assert "1 pending job</a> has not been announced to the workers" in text
    assert (listed(operator, "?attention=stalled"), listed(operator, "?attention=unannounced")) == (2, 1)


def test_error_codes_of_the_last_hour_are_counted(operator: Browser) -> None:
    jobs = [fail_job() for _ in range(3)]
    Job.objects.filter(pk=jobs[0].pk).update(error_code="internal")
    earlier = fail_job()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
    Job.objects.filter(pk=earlier.pk).update(completed_at=Now() - timedelta(minutes=61))
    service, simulator, user = operator.get(ADDRESS).context["faults"]
    assert (service.codes, simulator.codes, user.codes) == ([("invalid_profile", 2), ("internal", 1)], [], [])
    assert listed(operator, "?attention=error&amp;error_code=invalid_profile") == 2


def test_current_and_broken_builds_are_shown(operator: Browser) -> None:
    build, broken = BuildFactory.create(), BuildFactory.create(git_branch="<b>branch")
    registry.mark_broken(broken, "cannot start")
    text = text_of(operator)
    assert f'{build.pk}/change/">{build}</a>' in text
    assert "Broken: <bdi>cannot start</bdi>" in text
    assert "<b>branch" not in text


def test_only_some_broken_builds_are_listed(operator: Browser) -> None:
    for _ in range(11):
        registry.mark_broken(BuildFactory.create(), "cannot start")
    text = text_of(operator)
    assert text.count("Broken: <bdi>cannot start</bdi>") == 10
    assert "Only the 10 newest broken builds are shown." in text


def test_failing_endpoints_and_due_events_are_shown(operator: Browser) -> None:
    client = make_client_with_events(3)
    assert "No enabled endpoint is failing, and none was disabled" in text_of(operator)
    Endpoint.objects.update(failing_since=Now() - timedelta(hours=2))
    text = text_of(operator)
    assert f"<bdi>{client}</bdi>" in text
    assert '<th scope="row">Events to deliver</th><td class="number">3</td>' in text


def test_large_numbers_are_counted_up_to_a_limit(operator: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "MAX_COUNTED", 2)
    make_client_with_events(4)
    for _ in range(4):
        Job.objects.filter(pk=make_job().pk).update(created_at=Now() - timedelta(hours=1))
    text = text_of(operator)
    assert '<th scope="row">Events to deliver</th><td class="number">2+</td>' in text
    assert "2+ pending jobs</a> have not been announced" in text
    context = operator.get(ADDRESS).context
    assert (context["backlog"].size, context["unannounced"]) == (3, 3), "no more than needed is read"


@pytest.mark.parametrize(
    ("hours", "disabled_for", "count"), [(23, "failing", 1), (25, "failing", 0), (1, "owner", 0)]
)
def test_endpoints_disabled_for_failing_are_shown(
    operator: Browser, hours: int, disabled_for: str, count: int
) -> None:
    client = make_client_with_events(0)
    disabled_at = Now() - timedelta(hours=hours)
    Endpoint.objects.update(
        disabled_at=disabled_at, disabled_for=disabled_for, secret="", failing_since=disabled_at
    )
    text = text_of(operator)
    assert (text.count('<td class="console-bad">Disabled 20'), text.count(f"<bdi>{client}</bdi>")) == (count, count)


def test_only_some_failing_endpoints_are_listed(operator: Browser) -> None:
    for _ in range(12):
        make_client_with_events(0)
    Endpoint.objects.update(failing_since=Now())
    text = text_of(operator)
    assert text.count("/admin/webhooks/endpoint/") == 10 + text_of_other_pages(operator)
    assert "Only the 10 enabled ones that have failed longest are shown." in text


def text_of_other_pages(operator: Browser) -> int:
    """Return how many links to endpoints every page of the admin has, in its side bar."""
    return operator.get("/admin/search/").content.decode().count("/admin/webhooks/endpoint/")


def test_a_part_needs_its_permission(staff: Staff) -> None:
    make_client_with_events(1)
    for permission, caption in (
        ("view_job", "Errors in the last hour"),
        ("view_build", "Builds"),
        ("view_endpoint", "Failing endpoints"),
    ):
        text = text_of(staff(permission))
        captions = ("Errors in the last hour", "Builds", "Failing endpoints")
        assert [each for each in captions if f"<caption>{each}</caption>" in text] == [caption]


def test_strangers_are_sent_to_the_login(client: Browser) -> None:
    assert client.get(ADDRESS).headers["Location"].startswith("/admin/login/")


def test_nothing_can_be_sent_to_the_page(operator: Browser) -> None:
    assert operator.post(ADDRESS).status_code == 405


def test_a_lost_redis_leaves_the_rest_of_the_page(operator: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_job()
    monkeypatch.setattr(worker_heartbeats, "redis", _lost)
    monkeypatch.setattr(forecast, "redis", _lost)
    text = text_of(operator)
    assert "Unknown, because Redis does not respond." in text
    assert "invalid_profile" in text


def _lost() -> None:
    raise RedisError


def queries_of(operator: Browser) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        operator.get(ADDRESS)
    return [query["sql"] for query in captured]


def test_the_number_of_queries_is_constant(operator: Browser) -> None:
    queries_of(operator)
    before = len(queries_of(operator))
    for _ in range(3):
        make_client_with_events(1)
        fail_job()
        make_running_job()
        registry.mark_broken(BuildFactory.create(), "x")
    Endpoint.objects.update(failing_since=Now())
    assert len(queries_of(operator)) == before + 1 <= 20, "one more, because a build exists"


def test_no_query_reads_a_large_table_as_a_whole(operator: Browser) -> None:
    make_client_with_events(1)
    fail_job()
    forget_statistics(Job)
    with connection.cursor() as cursor:
        # With few rows, a bitmap of all rows is as cheap as an index that fits.
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
    plans = [plan_of(sql) for sql in queries_of(operator) if " FROM " in sql or "\nFROM " in sql]
    scanned = set(chain.from_iterable(plan.scanned for plan in plans))
    # `pg_database` has a row for each database of the server.
    assert scanned - {"pg_database"} <= {Build._meta.db_table, Endpoint._meta.db_table}, (
        "one row for each build or client"
    )
    indexes = set(chain.from_iterable(plan.indexes for plan in plans))
    assert {"job_held", "job_ended", "endpoint_failing", "event_waiting"} <= indexes


def test_lists_of_bundled_files_are_not_read(operator: Browser) -> None:
    BuildFactory.create()
    assert not [sql for sql in queries_of(operator) if '"includable"' in sql]


def test_the_page_refreshes_itself_without_scripts_of_its_own(operator: Browser) -> None:
    text = text_of(operator)
    assert 'hx-get="/admin/overview/" hx-trigger="every 5s" hx-target="#live"' in text
    assert "<noscript>Reload the page to update it.</noscript>" in text
