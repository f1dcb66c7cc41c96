"""The data that an attempt reads before it runs, compared with a separate query for each part."""

from datetime import timedelta
from random import Random

import pytest
from django.utils import timezone

from billing.models import Hold
from jobs import registry
from jobs.enums import Channel
from jobs.lifecycle import job_moves
from jobs.models import Build, Job, JobProfile
from jobs.registry import prepare
from tests.factories import BuildFactory, make_job, make_running_job
from tests.statements import traffic

pytestmark = pytest.mark.django_db

ROUNDS = 40
BRANCHES = ["midnight", "other"]


def resolved(job: Job) -> Build | None:
    """Return the build of a job by the registry's queries: its pin if available, else its channel's."""
    pin = next((build for build in registry.available(job.git_branch) if build == job.pinned_build), None)
    return pin or registry.for_channel(Channel(job.channel), job.git_branch, now=timezone.now())


def random_builds(random: Random) -> list[Build]:
    """Create builds on two branches around now, today's midnight and Monday, some of them withdrawn."""
    now = timezone.now()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    monday = midnight - timedelta(days=midnight.weekday())
    return [
        BuildFactory.create(
            git_branch=random.choice(BRANCHES),
            created_at=random.choice([now, midnight, monday]) + timedelta(hours=random.randint(-60, 60)),
            withdrawn_at=random.choice([None, None, now]),
        )
        for _ in range(random.randint(0, 6))
    ]


@pytest.mark.parametrize("seed", range(3))
def test_the_build_is_the_one_that_the_registry_names(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - made-up builds, no secret
    job = make_job()
    for _ in range(ROUNDS):
        Job.objects.update(pinned_build=None)
        Build.objects.all().delete()
        builds = random_builds(random)
        job.channel, job.git_branch = random.choice(list(Channel)), random.choice(BRANCHES)
        job.pinned_build = random.choice([None, *builds])
        prepared = prepare(job)
        assert (prepared and prepared.build) == resolved(job)


def test_everything_is_read_with_one_statement() -> None:
    job = make_running_job(text="mage=A\n", held_credits=64, priority_fee_credits=320)
    build = BuildFactory.create(readable_paths=["/opt/a", "/opt/b"], profiles_path="/opt/a")
    job_moves.request_cancel(job)
    with traffic() as sent:
        prepared = prepare(job)
        assert prepared
        assert (str(prepared.build), prepared.build.readable_paths) == (str(build), ["/opt/a", "/opt/b"])
    assert len(sent.statements) == 1
    assert (prepared.build.executable, prepared.build.simc_version) == (build.executable, build.simc_version)
    assert prepared.profile_text == JobProfile.objects.get(job=job).text
    assert prepared.hold_credits == Hold.objects.get(job_id=job.pk).credits
    assert prepared.cancel_requested is True


def test_files_of_a_build_are_read_when_they_are_used() -> None:
    BuildFactory.create(includable=["mage.simc"])
    prepared = prepare(make_job())
    assert prepared
    assert prepared.build.includable == ["mage.simc"]


def test_a_job_without_a_cancellation_request_continues() -> None:
    BuildFactory.create()
    prepared = prepare(make_running_job())
    assert prepared
    assert prepared.cancel_requested is False
