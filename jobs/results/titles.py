"""Titles that members give to jobs: `docs/reference/api.md#titles`."""

from django.db import transaction

from clients import audit
from clients.audit import Action, Actor
from jobs.models import TITLE_LENGTH, Job, is_visible


def cleaned(text: str) -> str:
    """Return a title on one line and within its length, empty if the text has no visible characters."""
    return " ".join(text.split())[:TITLE_LENGTH].rstrip() if is_visible(text) else ""


@transaction.atomic
def rename(job: Job, title: str, *, by: Actor) -> None:
    """Give a job a title, or its default title if the text has no visible characters. The last change wins."""
    given = cleaned(title)
    if Job.objects.filter(pk=job.pk).exclude(given_title=given).update(given_title=given):
        audit.record(job.account_id, Action.JOB_RENAMED, by=by, target_id=job.pk, target=job, title=given)
