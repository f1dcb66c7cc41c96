"""Builds: resolution of channels and pins, and retention."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from jobs import registry
from jobs.enums import Channel, Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Build, Job
from tests.admin_actions import act
from tests.factories import BuildFactory, make_job, make_running_job
from tests.jobs.simulators import build_of

pytestmark = pytest.mark.django_db
# A Wednesday; the week starts on Monday the 16th.
NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


def built(day: int, hour: int = 6) -> Build:
    """Return a build created on a day of that November."""
    build: Build = BuildFactory.create(created_at=datetime(2026, 11, day, hour, tzinfo=UTC))
    return build


@pytest.mark.parametrize(
    ("channel", "days", "expected"),
    [
        ("latest", [(10, 6), (17, 6), (18, 1)], (18, 1)),
        ("nightly", [(10, 6), (17, 6), (17, 23), (18, 1)], (17, 23)),
        ("nightly", [(10, 6), (14, 6), (18, 1)], (14, 6)),
        ("nightly", [(17, 23), (18, 0)], (17, 23)),
        ("nightly", [(18, 9), (18, 1)], (18, 1)),
        ("weekly", [(10, 6), (15, 23), (16, 0), (17, 6), (18, 1)], (16, 0)),
        ("weekly", [(9, 6), (14, 6), (15, 23)], (15, 23)),
        ("weekly", [(2, 6)], (2, 6)),
        ("weekly", [(17, 6)], (17, 6)),
        ("weekly", [(25, 6), (19, 6)], (19, 6)),
        ("latest", [], None),
        ("weekly", [], None),
    ],
)
def test_a_channel_resolves_to_the_expected_build(
    channel: str, days: list[tuple[int, int]], expected: tuple[int, int] | None
) -> None:
    for day, hour in days:
        built(day, hour)
    build = registry.for_channel(Channel(channel), "midnight", now=NOW)
    assert (build and (build.created_at.day, build.created_at.hour)) == expected


def test_other_branches_and_withdrawn_builds_do_not_count() -> None:
    BuildFactory.create(git_branch="other")
    withdrawn = BuildFactory.create()
    registry.withdraw(Build.objects.filter(pk=withdrawn.pk))
    assert build_of(make_job()) is None
    assert registry.restore(Build.objects.all()) == 1
    assert build_of(make_job()) == withdrawn


def test_a_pin_wins_over_the_channel_unless_its_build_is_gone() -> None:
    pin, newest = built(2), BuildFactory.create()
    job = make_job(pinned_build=pin)
    assert build_of(job) == pin
    registry.withdraw(Build.objects.filter(pk=pin.pk))
    assert build_of(Job.objects.get(pk=job.pk)) == newest
    pin.delete()
    assert build_of(Job.objects.get(pk=job.pk)) == newest


def old_build() -> Build:
    """Return a build past its retention; all channels of its branch have newer builds."""
    BuildFactory.create()
    BuildFactory.create(created_at=timezone.now() - timedelta(days=10))
    build: Build = BuildFactory.create(created_at=timezone.now() - timedelta(days=100))
    return build


def test_an_old_unused_build_is_withdrawn() -> None:
    build = old_build()
    assert registry.withdraw_old() == 1
    build.refresh_from_db()
    assert build.withdrawn_at is not None
    assert registry.withdraw_old() == 0


def test_the_newest_build_of_a_branch_is_never_withdrawn() -> None:
    BuildFactory.create(created_at=timezone.now() - timedelta(days=1000))
    assert registry.withdraw_old() == 0


def test_a_build_in_use_is_not_withdrawn() -> None:
    build = old_build()
    pinned = make_job(pinned_build=build)
    assert registry.withdraw_old() == 0
    job_moves.finish(pinned, Outcome(status=Status.CANCELLED, error_code="user_cancelled"))
    running = make_running_job()
    Job.objects.filter(pk=running.pk).update(build=build)
    assert registry.withdraw_old() == 0


def test_a_withdrawn_build_stays_with_its_jobs() -> None:
    build = old_build()
    job = make_running_job()
    Job.objects.filter(pk=job.pk).update(build=build)
    job_moves.finish(job, Outcome(status=Status.CANCELLED, error_code="user_cancelled"))
    assert registry.withdraw_old() == 1
    build.refresh_from_db()
    assert build.withdrawn_at is not None
    assert Job.objects.get(pk=job.pk).build == build


def test_a_build_broken_for_a_long_time_is_cleared() -> None:
    build = old_build()
    registry.mark_broken(build, "cannot start")
    assert registry.withdraw_old() == 0, "it may be the build that jobs still need"
    long_ago = timezone.now() - timedelta(days=91)
    Build.objects.filter(pk=build.pk).update(withdrawn_at=long_ago)
    assert [registry.withdraw_old(), registry.withdraw_old()] == [1, 0]
    build.refresh_from_db()
    assert (build.withdrawn_at, build.broken_reason) == (long_ago, "")


def test_operators_can_withdraw_builds(operator: HttpClient) -> None:
    build = BuildFactory.create()
    act(operator, "/admin/jobs/build/", "withdraw", [build.pk])
    build.refresh_from_db()
    assert build.withdrawn_at is not None


@pytest.mark.django_db
def test_names_of_bundled_profiles_are_loaded_lazily(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    BuildFactory.create(profiles=["a.simc"])
    with django_assert_num_queries(0):
        names = registry.BundledNames("midnight", build_id=None)
    with django_assert_num_queries(1):
        assert ["a.simc" in names, "b.simc" in names] == [True, False]
