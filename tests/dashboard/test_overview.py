"""Overview of an account: credits, jobs, charts, queue and builds."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from billing import ledger
from billing.models import Account, GrantReason
from clients.accounts import default_client
from clients.audit import SYSTEM
from clients.models import Membership
from dashboard.jobs import attention
from dashboard.jobs.compare import LISTED_JOBS
from dashboard.jobs.overview import lanes_of
from dashboard.results.day_charts import bars_by_day
from jobs.lifecycle import usage
from jobs.models import DailyUsage
from jobs.queue import forecast
from simservice.redis.client import redis
from tests.dashboard.browsing import browser_of, text_of
from tests.dashboard.summaries import EVIL, make_completed_job, summary
from tests.factories import BuildFactory, make_account, make_client, make_job, make_member, make_running_job
from webhooks import endpoints
from webhooks.models import Endpoint

pytestmark = pytest.mark.django_db
TODAY = datetime.now(tz=UTC).date()


@pytest.fixture
def owner() -> Membership:
    return make_member(make_account(credits=50_000))


def overview(owner: Membership) -> str:
    """Return the text of the page."""
    response = browser_of(owner).get(f"/dashboard/{owner.account}/")
    assert response.status_code == 200
    assert "<img" not in response.content.decode()
    return text_of(response)


def page_of(owner: Membership) -> str:
    """Return the HTML of the page."""
    return str(browser_of(owner).get(f"/dashboard/{owner.account}/").content.decode())


def test_a_new_account_shows_its_credits_and_the_first_steps(owner: Membership) -> None:
    text = overview(owner)
    for expected in ("Available credits 50,000", "About 26 min of simulation.", "First steps", attention.NO_BUILD):
        assert expected in text, expected
    for empty in ("Reserved for jobs", "Recent results", "Last 30 days", "Running and waiting"):
        assert empty not in text, empty


def test_without_first_steps_a_new_account_is_told_that_it_has_no_jobs(owner: Membership) -> None:
    Membership.objects.update(hides_first_steps=True)
    assert "No jobs yet" in overview(owner)


def test_running_jobs_come_first_with_their_progress(owner: Membership) -> None:
    client = default_client(owner.account)
    job = make_running_job(client=client, character=EVIL)
    make_job(client)
    make_completed_job(client=client)
    redis().set(f"progress:{job.pk}:{job.attempt}", json.dumps({"percent": 41.7, "stage": None}))
    text = overview(owner)
    running, _, rest = text.partition("Recent results")
    assert "&lt;img src=x" in running
    assert "41 %" in running
    assert "Start unknown" in running
    assert "41 %" not in rest


@pytest.mark.parametrize("page", ["", "compare"])
def test_results_stay_listed_below_many_unfinished_jobs(owner: Membership, page: str) -> None:
    client = default_client(owner.account)
    ended = make_completed_job(client=client)
    for _ in range(LISTED_JOBS):
        make_job(client)
    assert str(ended.pk) in browser_of(owner).get(f"/dashboard/{owner.account}/{page}").content.decode()


def use_credits(owner: Membership, *, per_day: int) -> None:
    """Let the jobs of the last seven days use credits."""
    client, build = default_client(owner.account), BuildFactory.create()
    DailyUsage.objects.bulk_create(
        DailyUsage(
            account=owner.account, client=client, build=build, day=TODAY - timedelta(days=number),
            jobs=1, runs=1, sim_ms=1, credits=per_day,
        )
        for number in range(1, 8)
    )  # fmt: skip


def test_credits_that_end_soon_need_attention(owner: Membership) -> None:
    assert "pace" not in overview(owner)
    use_credits(owner, per_day=100)
    assert "Lasts more than a year at the pace of the last 7 days." in overview(owner)
    DailyUsage.objects.update(credits=5_000)
    ledger.correct(owner.account, 35_000 - ledger.available(owner.account), reason="Test")
    assert f"Lasts until {TODAY + timedelta(days=7)} at the pace of the last 7 days." in overview(owner)
    assert "Credits last" not in overview(owner)
    ledger.correct(owner.account, -1, reason="Test")
    last = TODAY + timedelta(days=6)
    assert f"Credits last until {last:%B} {last.day} at the pace of the last 7 days. View credits" in overview(
        owner
    )
    ledger.correct(owner.account, -30_000, reason="Test")
    assert "Credits last only for today at the pace" in overview(owner)


def test_a_grant_that_expires_soon_needs_attention(owner: Membership) -> None:
    soon = timezone.now() + timedelta(days=2)
    for reason, note, expires_at in (
        (GrantReason.GRANT_PROMO, EVIL, soon),
        (GrantReason.GRANT_BETA, "Later", soon + timedelta(days=30)),
        (GrantReason.GRANT_BETA, "Never", None),
    ):
        ledger.grant(owner.account, 1_500, reason=reason, note=note, expires_at=expires_at)
    text = overview(owner)
    assert f"1,500 credits of “&lt;img src=x onerror=alert(1)&gt;” expire on {soon:%B} {soon.day}." in text
    assert text.count("expire on") == 1


def test_the_end_of_a_monthly_allowance_is_no_news(owner: Membership) -> None:
    ledger.grant(owner.account, 9, reason=GrantReason.ALLOWANCE, expires_at=timezone.now() + timedelta(days=1))
    assert "expire on" not in overview(owner)


@pytest.mark.parametrize("is_disabled", [False, True])
def test_failing_webhooks_need_attention(owner: Membership, *, is_disabled: bool) -> None:
    client = make_client(owner.account, "guild-bot")
    endpoints.install(client, "https://example.org/hook", by=SYSTEM)
    assert "guild-bot" not in overview(owner)
    endpoints.install(make_client(make_account(), "foreign"), "https://example.org/hook", by=SYSTEM)
    Endpoint.objects.update(failing_since=timezone.now())
    if is_disabled:
        endpoints.switch_off(Endpoint.objects.get(client=client), because=Endpoint.Disabled.FAILING, by=SYSTEM)
    text = overview(owner)
    assert ("A webhook was disabled" in text) is is_disabled
    assert ("Deliveries to the webhook of guild-bot have failed since" in text) is not is_disabled
    assert "foreign" not in text


def test_a_queue_that_waits_is_unfolded(owner: Membership) -> None:
    make_completed_job(client=default_client(owner.account))
    snapshot = forecast.QueueSnapshot(
        taken_at=0.0, length=0, waiting=dict.fromkeys(("background", "standard", "high"), 0), marks=[],
        read_to=(0, 0), slots=1, free_in=[5.0], run_seconds={}, oldest_wait_seconds=0.0,
    )  # fmt: skip
    assert [lane["waits"] for lane in lanes_of(snapshot)] == [False] * 3
    assert [lane["waits"] for lane in lanes_of(replace(snapshot, free_in=[60.0]))] == [True] * 3
    assert [lane["waits"] for lane in lanes_of(replace(snapshot, free_in=[]))] == [True] * 3
    assert 'overview-service" open' in page_of(owner)


def test_the_overview_shows_jobs_usage_queue_and_builds(owner: Membership) -> None:
    client = default_client(owner.account)
    make_completed_job(summary(name=EVIL), client=client)
    make_running_job(client=client)
    make_job(client)
    forecast.publish()
    text = overview(owner)
    for expected in (
        "Reserved for jobs 6,400",
        "Running and waiting",
        "Standard 1",
        "&lt;img src=x",
        "64 in 30 days, at most 64 on one day",
        "Latest 1120-01",
        "Background 0",
    ):
        assert expected in text, expected


def test_a_suspended_account_shows_a_note(owner: Membership) -> None:
    Account.objects.filter(pk=owner.account_id).update(suspended_at=timezone.now())
    assert "This account is suspended" in overview(owner)


def test_days_without_jobs_are_included(owner: Membership) -> None:
    make_completed_job(client=default_client(owner.account))
    make_completed_job()
    days = usage.last_days(owner.account, count=3)
    assert [(day.jobs, day.credits) for day in days] == [(0, 0), (0, 0), (1, 64)]
    assert days[-1].day == timezone.now().astimezone(UTC).date()


def test_bars_of_a_chart() -> None:
    chart = bars_by_day([(date(2026, 1, 1), 0), (date(2026, 1, 2), 1), (date(2026, 1, 3), 1000)])
    assert [bar["height"] for bar in chart["bars"]] == ["0.00%", "1.00%", "100.00%"]
    assert [bar["y"] for bar in chart["bars"]] == ["100.00%", "99.00%", "0.00%"]
    assert (chart["largest"], chart["total"]) == (1000, 1001)
    assert [(tick["value"], tick["y"]) for tick in chart["ticks"]] == [
        (250, "75.00%"), (500, "50.00%"), (750, "25.00%"), (1000, "0.00%"),
    ]  # fmt: skip


@pytest.mark.parametrize(("largest", "ticks"), [(0, []), (1, [1]), (3, [1, 2, 3]), (11, [5, 10, 15])])
def test_a_scale_has_round_whole_numbers(largest: int, ticks: list[int]) -> None:
    chart = bars_by_day([(date(2026, 1, 1), largest)])
    assert [tick["value"] for tick in chart["ticks"]] == ticks


def test_a_chart_without_days_is_empty() -> None:
    assert bars_by_day([])["bars"] == []


def test_the_overview_makes_few_queries(
    owner: Membership, settings: Settings, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    settings.GIT_BRANCHES = ["midnight", "other"]
    for branch in settings.GIT_BRANCHES:
        BuildFactory.create(git_branch=branch)
    for _ in range(3):
        make_completed_job(client=default_client(owner.account))
    http = browser_of(owner)
    with django_assert_max_num_queries(13):
        http.get(f"/dashboard/{owner.account}/")
