"""First steps of a new account: which of them are done, and the sample profile."""

from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.db.models import BooleanField, ExpressionWrapper, Q

from billing.models import Account
from jobs import registry
from jobs.enums import Channel, Priority
from jobs.models import Build, Job
from jobs.submission.request import Submission

SAMPLE = Path(__file__).with_name("sample.simc")
SAMPLE_TITLE = "Sample: ratings of a frost mage"
SAMPLE_CHARACTER = "Sample mage"
# Accounts with this many jobs need no first steps.
MANY_JOBS = 20


class Done(NamedTuple):
    """Which steps are done: any job, a job of an own character, and one of those that compares variants."""

    job: bool
    own: bool
    compared: bool


def done_by(account: Account) -> Done | None:
    """Return which steps an account has done, or None if it has so many jobs that it needs no first steps.

    One query that reads a few of the account's newest jobs.
    """
    compares = Q(other_characters__gt=0) | Q(summary__mainActor__profilesets__isnull=False)
    newest = (
        Job.objects.filter(account=account)
        .order_by("-pk")
        .annotate(compares=ExpressionWrapper(compares, BooleanField()))
    )
    jobs = list(newest.values_list("character", "compares")[:MANY_JOBS])
    if len(jobs) == MANY_JOBS:
        return None
    own = [compares for character, compares in jobs if character != SAMPLE_CHARACTER]
    return Done(job=bool(jobs), own=bool(own), compared=any(own))


def runs_sample(channel: Channel, build: Build) -> bool:
    """Return whether the sample would run on a channel's current build."""
    return (channel, build.git_branch) == (Channel.LATEST, settings.GIT_BRANCHES[0])


def can_run_sample() -> bool:
    """Return whether there is a build for the sample. One query."""
    return registry.available(settings.GIT_BRANCHES[0]).exists()


def sample_submission() -> Submission:
    """Return a request that runs the sample profile on the default build channel."""
    return Submission(
        channel=Channel.LATEST,
        git_branch=settings.GIT_BRANCHES[0],
        build_id=None,
        profile_text=SAMPLE.read_text(),
        multi_stage=False,
        max_credits=None,
        max_runtime_seconds=None,
        max_queue_seconds=None,
        priority=Priority.STANDARD,
        metadata={"title": SAMPLE_TITLE},
        credentials=None,
        html=False,
        csv=True,
        json_version=2,
        webhook_events=(),
    )
