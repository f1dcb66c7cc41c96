"""Replacement of a job's public links: `docs/reference/api.md#replace-public-links`."""

from django.db import transaction

from clients import audit
from clients.audit import Action, Actor
from jobs.models import Artifact, Job
from simservice.ids import new_token


@transaction.atomic
def replace_links(job: Job, *, by: Actor) -> None:
    """Give a job and its artifacts new tokens, so that nobody can open the links that are known. Four queries."""
    job.share_token = new_token()
    # Locks the job, so that the second of two requests replaces the links of the first.
    Job.objects.filter(pk=job.pk).update(share_token=job.share_token)
    artifacts = list(Artifact.objects.filter(job=job).only("pk"))
    for artifact in artifacts:
        artifact.token = new_token()
    Artifact.objects.bulk_update(artifacts, ["token"])
    audit.record(job.account_id, Action.JOB_LINKS_REPLACED, by=by, target_id=job.pk, target=job)
