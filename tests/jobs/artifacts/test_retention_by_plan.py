"""Retention by plan: each job is kept for the days of its plan at submission."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError
from django.utils import timezone

from billing.models import Account, Plan
from clients.accounts import default_client
from clients.models import ApiKey
from jobs.artifacts import retention
from jobs.enums import Status
from jobs.errors import NotFound
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job
from jobs.results import queries
from simservice.ids import first_id_of
from tests.conftest import Api
from tests.dashboard.browsing import browser_of, text_of
from tests.factories import PROFILE, BuildFactory, make_account, make_job, make_member

pytestmark = pytest.mark.django_db
BODY = {"build": {"channel": "latest"}, "profile": {"text": PROFILE}}


def make_ended(account: Account, *, retention_days: int | None, age: float) -> Job:
    """Make an ended job that was submitted `age` days ago."""
    at = timezone.now() - timedelta(days=age)
    job = make_job(default_client(account), id=first_id_of(at), retention_days=retention_days)
    assert job_moves.finish(job, Outcome(status=Status.CANCELLED, error_code="user_cancelled"))
    Job.objects.filter(pk=job.pk).update(created_at=at)
    job.refresh_from_db()
    return job


def test_a_job_keeps_the_days_of_its_submission(api: Api, key: tuple[ApiKey, str]) -> None:
    BuildFactory.create()
    plans = Plan.objects.filter(pk=key[0].client.account.plan_id)
    plans.update(retention_days=7)
    path = f"jobs/{api.post('jobs', BODY).json()['id']}"
    assert api.get(path).json()["retentionDays"] == 7
    plans.update(retention_days=90)
    assert api.get(path).json()["retentionDays"] == 7
    assert api.get(f"jobs/{api.post('jobs', BODY).json()['id']}").json()["retentionDays"] == 90


def test_a_plan_without_days_follows_the_setting(api: Api, settings: Any) -> None:
    BuildFactory.create()
    path = f"jobs/{api.post('jobs', BODY).json()['id']}"
    assert api.get(path).json()["retentionDays"] == 30
    settings.RETENTION_DAYS = 60
    assert api.get(path).json()["retentionDays"] == 60


@pytest.mark.parametrize(
    ("days", "age", "is_kept"), [(7, 6.9, True), (7, 7.1, False), (90, 89, True), (None, 31, False)]
)
def test_access_ends_with_the_days_of_the_job(*, days: int | None, age: float, is_kept: bool) -> None:
    account = make_account()
    job = make_ended(account, retention_days=days, age=age)
    assert retention.is_kept(job) is is_kept
    if is_kept:
        assert queries.profile_of(account, str(job.pk)) == PROFILE
    else:
        with pytest.raises(NotFound):
            queries.profile_of(account, str(job.pk))


def test_each_period_is_cleared_by_itself() -> None:
    account = make_account()
    ages = {7: (6, 8), 90: (40, 91), None: (29, 31)}
    jobs = {age: make_ended(account, retention_days=days, age=age) for days, pair in ages.items() for age in pair}
    assert retention.clear_expired() == 3
    uncleared = set(Job.objects.filter(cleared_at=None).values_list("pk", flat=True))
    assert uncleared == {jobs[age].pk for age in (6, 40, 29)}


def test_lists_show_the_period_of_the_current_plan(api: Api, key: tuple[ApiKey, str]) -> None:
    account = key[0].client.account
    jobs = [make_ended(account, retention_days=90, age=age) for age in (1, 20)]
    listed: dict[int | None, list[Job]] = {None: jobs, 7: jobs[:1], 90: jobs}
    for days, expected in listed.items():
        Plan.objects.filter(pk=account.plan_id).update(retention_days=days)
        assert [one["id"] for one in api.get("jobs").json()["jobs"]] == [str(job.pk) for job in expected]


def test_pages_show_how_long_files_are_kept() -> None:
    owner = make_member(make_account(retention_days=7))
    job = make_ended(owner.account, retention_days=7, age=1)
    page = text_of(browser_of(owner).get(f"/dashboard/{owner.account}/jobs/{job.pk}"))
    assert f"Kept until {job.created_at + timedelta(days=7):%Y-%m-%d %H:%M} UTC" in page
    assert "kept for 7 days" in text_of(browser_of(owner).get(f"/dashboard/{owner.account}/credits"))


@pytest.mark.parametrize("days", [0, 3_651])
def test_a_plan_has_a_sensible_number_of_days(days: int) -> None:
    with pytest.raises(IntegrityError):
        make_account(retention_days=days)
