"""Changes that members make to a job: its title, its public links and what they show (`docs/reference/api.md`)."""

from django.db import transaction

from clients import audit
from clients.audit import Action, Actor
from jobs.models import TITLE_LENGTH, Artifact, Job, is_visible
from simservice.ids import new_token


def cleaned(text: str) -> str:
    """Return a title on one line and within its length, empty if the text has no visible characters."""
    return " ".join(text.split())[:TITLE_LENGTH].rstrip() if is_visible(text) else ""


@transaction.atomic
def rename(job: Job, title: str, *, by: Actor) -> None:
    """Give a job a title, or its default title if the text has no visible characters. The last change wins."""
    given = cleaned(title)
    if Job.objects.filter(pk=job.pk).exclude(given_title=given).update(given_title=given):
        audit.record(job.account_id, Action.JOB_RENAMED, by=by, target_id=job.pk, target=job, title=given)


@transaction.atomic
def replace_links(job: Job, *, by: Actor) -> None:
    """Give a job and its artifacts new tokens, so that nobody can open the links that are known."""
    job.share_token = new_token()
    # Locks the job, so that the second of two requests replaces the links of the first.
    Job.objects.filter(pk=job.pk).update(share_token=job.share_token)
    artifacts = list(Artifact.objects.filter(job=job).only("pk"))
    for artifact in artifacts:
        artifact.token = new_token()
    Artifact.objects.bulk_update(artifacts, ["token"])
    audit.record(job.account_id, Action.JOB_LINKS_REPLACED, by=by, target_id=job.pk, target=job)


@transaction.atomic
def set_shares_inputs(job: Job, *, shown: bool, by: Actor) -> None:
    """Choose whether a job's share link shows its profile and logs. The last change wins."""
    if Job.objects.filter(pk=job.pk).exclude(shares_inputs=shown).update(shares_inputs=shown):
        new = "shown" if shown else "hidden"
        audit.record(job.account_id, Action.JOB_SHARING_CHANGED, by=by, target_id=job.pk, target=job, new=new)
