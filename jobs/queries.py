"""Reading jobs: what the API and the pages ask the database."""

from uuid import UUID

from billing.models import Account
from jobs.models import Artifact, Build, Job
from simservice.api.errors import NotFound
from simservice.ids import parse_id


def find_job(account: Account, job_id: str, *, with_summary: bool = False) -> Job:
    """Return one of the account's jobs with its build. One query.

    Raises NotFound alike for an id that is malformed, unknown or another account's.
    """
    number = parse_id(job_id)
    query = Job.objects.select_related("build")
    if not with_summary:
        query = query.defer("summary")
    job = query.filter(pk=number, account=account).first() if number is not None else None
    if job is None:
        raise NotFound
    return job


def find_shared(token: str) -> Job | None:
    """Return the job of a share link with its build, or None."""
    return Job.objects.select_related("build").filter(share_token=token).first()


def artifacts_of(job: Job) -> list[Artifact]:
    """Return the artifacts of the attempt that counts, the latest, in the order they were stored."""
    return list(Artifact.objects.filter(job=job, attempt=job.attempt).order_by("id"))


def find_artifact(account: Account, artifact_id: str) -> Artifact:
    """Return an artifact of one of the account's jobs. Raises NotFound."""
    number = parse_id(artifact_id)
    artifact = Artifact.objects.filter(pk=number, job__account=account).first() if number is not None else None
    if artifact is None:
        raise NotFound
    return artifact


def find_build(build_id: str) -> Build:
    """Return a build by its id, also one that no further job can run on. Raises NotFound."""
    try:
        number = UUID(build_id)
    except ValueError:
        raise NotFound from None
    build = Build.objects.filter(pk=number).first()
    if build is None:
        raise NotFound
    return build
