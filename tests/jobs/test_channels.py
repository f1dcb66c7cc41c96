"""Builds of channels and retention, compared with a naive model of the rules."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries, Settings

from jobs import registry
from jobs.enums import Channel
from jobs.models import Build
from tests.factories import BuildFactory
from tests.jobs.plans import forget_statistics

pytestmark = pytest.mark.django_db

BRANCHES = ["midnight", "thewarwithin", "retired"]
ROUNDS = 30
# A Monday, a Wednesday and a Sunday, at any hour.
NOWS = [datetime(2026, 11, day, hour, 30, tzinfo=UTC) for day in (16, 18, 22) for hour in (0, 12, 23)]
# Hours before now: around midnight, around Monday, past the retention, and in the future.
AGES = [-30, -2, 0, 1, 5, 11, 13, 24, 36, 60, 84, 100, 168, 400, 2000, 2200, 2500, 5000]


def meaning(channel: Channel, created: Sequence[datetime], now: datetime) -> datetime | None:
    """Return the creation time of the channel's build by a naive model of the rules."""
    midnight = datetime(now.year, now.month, now.day, tzinfo=UTC)
    monday = midnight - timedelta(days=midnight.weekday())
    if not created or channel == Channel.LATEST:
        return max(created, default=None)
    if channel == Channel.NIGHTLY:
        before = [moment for moment in created if moment < midnight]
        return max(before) if before else min(created)
    this_week = [moment for moment in created if monday <= moment <= now]
    before = [moment for moment in created if moment < monday]
    return min(this_week) if this_week else max(before) if before else min(created)


def random_builds(random: Random, now: datetime) -> dict[str, list[datetime]]:
    """Create builds on branches, some withdrawn; return the creation times of the available ones."""
    available: dict[str, list[datetime]] = {branch: [] for branch in BRANCHES}
    for branch in BRANCHES:
        for age in random.sample(AGES, random.randint(0, 5)):
            created = now - timedelta(hours=age)
            gone = random.random() < 0.3
            BuildFactory.create(git_branch=branch, created_at=created, withdrawn_at=now if gone else None)
            available[branch] += [] if gone else [created]
    return available


@pytest.fixture(params=range(3))
def random(request: pytest.FixtureRequest) -> Random:
    return Random(request.param)  # noqa: S311 - made-up builds, no secret


def test_channels_agree_with_a_naive_model(random: Random) -> None:
    for _ in range(ROUNDS):
        now = random.choice(NOWS)
        available = random_builds(random, now)
        for branch in BRANCHES:
            for channel in Channel:
                build = registry.for_channel(channel, branch, now=now)
                assert (build and build.created_at) == meaning(channel, available[branch], now)
        Build.objects.all().delete()


def test_a_branch_with_a_build_has_no_empty_channel(random: Random) -> None:
    for _ in range(ROUNDS):
        now = random.choice(NOWS)
        has_builds = {branch for branch, created in random_builds(random, now).items() if created}
        complete = {branch for branch in BRANCHES if all(registry.for_channel(c, branch, now=now) for c in Channel)}
        assert complete == has_builds
        Build.objects.all().delete()


def test_retention_keeps_the_build_of_each_channel(
    random: Random, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So does a branch that is no longer available.
    settings.GIT_BRANCHES = BRANCHES[:2]
    for _ in range(ROUNDS):
        now = random.choice(NOWS)
        monkeypatch.setattr(registry, "database_time", lambda now=now: now)
        available = random_builds(random, now)
        oldest = now - timedelta(days=settings.BUILD_RETENTION_DAYS)
        registry.withdraw_old()
        for branch, created in available.items():
            meant = {meaning(channel, created, now) for channel in Channel}
            remaining = set(registry.available(branch).values_list("created_at", flat=True))
            assert remaining == {moment for moment in created if moment >= oldest or moment in meant}
        Build.objects.all().delete()


def test_resolving_all_channels_takes_two_queries(
    settings: Settings, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    settings.GIT_BRANCHES = BRANCHES
    for branch in BRANCHES[:2]:
        BuildFactory.create_batch(5, git_branch=branch)
    with django_assert_num_queries(2):
        builds = registry.current()
    assert [(channels.git_branch, channel) for channel, channels in builds] == [
        (branch, channel) for branch in BRANCHES[:2] for channel in Channel
    ]


def plan_of(sql: str) -> str:
    """Return the database's plan for a query."""
    with connection.cursor() as cursor:
        # The costs of all plans are equal for the few builds of a test.
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
        cursor.execute(f"EXPLAIN {sql}")
        return "\n".join(line for (line,) in cursor.fetchall())


@pytest.mark.parametrize("channel", Channel)
def test_a_channel_lookup_uses_the_index_of_available_builds(channel: Channel) -> None:
    forget_statistics(Build)
    with CaptureQueriesContext(connection) as queries:
        registry.for_channel(channel, "midnight", now=NOWS[0])
    assert "build_available" in plan_of(queries[0]["sql"])
