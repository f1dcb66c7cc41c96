"""Overview of an account: credits, jobs, charts, queue and builds."""

from datetime import UTC, date

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from billing.models import Account
from clients.accounts import default_client
from clients.models import Membership
from dashboard.results.day_charts import bars_by_day
from jobs.lifecycle import usage
from jobs.queue import forecast
from tests.dashboard.browsing import browser_of, text_of
from tests.dashboard.summaries import EVIL, make_completed_job, summary
from tests.factories import BuildFactory, make_account, make_job, make_member, make_running_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner() -> Membership:
    return make_member(make_account(credits=50_000))


def overview(owner: Membership) -> str:
    """Return the text of the page."""
    response = browser_of(owner).get(f"/dashboard/{owner.account}/")
    assert response.status_code == 200
    assert "<img" not in response.content.decode()
    return text_of(response)


def test_a_new_account_shows_empty_states(owner: Membership) -> None:
    text = overview(owner)
    for expected in (
        "Available credits 50,000",
        "No jobs yet",
        "No jobs ended in this period.",
        "No credits used in this period.",
        "No builds yet",
        "status is unavailable",
    ):
        assert expected in text, expected


def test_the_overview_shows_jobs_usage_queue_and_builds(owner: Membership) -> None:
    client = default_client(owner.account)
    make_completed_job(summary(name=EVIL), client=client)
    make_running_job(client=client)
    make_job(client)
    forecast.publish()
    text = overview(owner)
    for expected in (
        "Reserved for jobs 6,400",
        "Jobs waiting 1",
        "Jobs running 1",
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
