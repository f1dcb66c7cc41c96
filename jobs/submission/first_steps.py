"""First steps of a new account: which of them are done, and the sample profile."""

from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.db.models import Exists

from billing.models import Account
from clients.models import ApiKey
from jobs import registry
from jobs.enums import Channel, Priority
from jobs.models import Build, Job
from jobs.submission.request import Submission
from webhooks.models import Endpoint

SAMPLE = Path(__file__).with_name("sample.simc")
SAMPLE_TITLE = "Sample: ratings of a frost mage"


class Done(NamedTuple):
    """Which steps are done. A step stays done, even if the key is revoked or the webhook disabled."""

    job: bool
    key: bool
    webhook: bool


def done_by(account: Account) -> Done:
    """Return which steps an account has done. One query that reads at most one row of each table."""
    steps = {
        "job": Exists(Job.objects.filter(account=account)),
        "key": Exists(ApiKey.objects.filter(client__account=account)),
        "webhook": Exists(Endpoint.objects.filter(client__account=account)),
    }
    return Done(*Account.objects.filter(pk=account.pk).values_list(*steps.values()).get())


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
