"""Queries of jobs, artifacts and builds for the API and the dashboard."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q
from django.db.models.functions import Now

from billing.models import Account
from jobs.artifacts import retention
from jobs.enums import ErrorCode
from jobs.errors import ArtifactRemoved, NotFound, ProfilePrivate
from jobs.lifecycle import transitions
from jobs.models import Artifact, Build, Job, JobProfile
from simservice.ids import first_id_of, parse_id
from simservice.postgresql.statements import RowReader, load, run

TITLED = ("created_at", "metadata", "given_title", "character", "other_characters")
BILLED = (
    "sim_duration_ms",
    "credits_per_second",
    "priority_fee_credits",
    "credits_consumed",
    "slots_used",
    "status",
)
# The fields that a status shows or is derived from
POLLED = (
    "id priority metadata status attempt error_code status_reason simulator_exit_code percent created_at "
    "started_at updated_at paused_at"
).split()
RECENT_JOBS = 100
# As many characters of a title as its index contains
SEARCHED_CHARACTERS = 100
# Jobs that ended with an error in the past hour. The index `job_ended` supports this condition.
RECENT_ERROR = Q(completed_at__gte=Now() - timedelta(hours=1), error_code__isnull=False) & ~Q(
    error_code=ErrorCode.USER_CANCELLED
)

_SUMMARIZED, _PLAIN = RowReader(Job), RowReader(Job, without=["summary"])
# A build can list thousands of files.
_BUILD = RowReader(Build, without=["profiles", "includable"])
_TITLED = RowReader(Job, only=["id", *TITLED, "retention_days", "cleared_at"])
_POLLED = RowReader(Job, only=POLLED)
SQL = load(
    __file__,
    transitions.GROUPS,
    summarized=_SUMMARIZED.columns,
    plain=_PLAIN.columns,
    build=_BUILD.columns,
    titled=_TITLED.columns,
    polled=_POLLED.columns,
)


def active_jobs(account: Account) -> int:
    """Return the number of the account's unfinished jobs."""
    ((count,),) = run(SQL["count_active_jobs"], values={"account_id": account.pk})
    return int(count)


def find_job(account: Account, job_id: str) -> Job:
    """Return a job of the account with its build. Raises NotFound like `read_job`."""
    return _find(account, job_id, statement=SQL["find_job"], reader=_PLAIN)[0]


def read_job(account: Account, job_id: str, *, with_summary: bool = False) -> tuple[Job, int]:
    """Return a job of the account with its build, and the number of unfinished jobs.

    Raises NotFound if the id is malformed, unknown, or that of another account's job.
    """
    reader, name = (_SUMMARIZED, "read_job_with_summary") if with_summary else (_PLAIN, "read_job")
    return _find(account, job_id, statement=SQL[name], reader=reader)


def _find(account: Account, job_id: str, *, statement: str, reader: RowReader[Job]) -> tuple[Job, Any]:
    """Return a job with its build, and the last value of its row. Raises NotFound."""
    rows = run(statement, values={"id": _number(job_id), "account_id": account.pk})
    if not rows:
        raise NotFound
    (row,) = rows
    job = reader.instance(row)
    if job.build_id is not None:
        job.build = _BUILD.instance(row[reader.width :])
    return job, row[-1]


def poll_job(account: Account, job_id: str) -> tuple[Job, int]:
    """Return the fields of an account's job that its status shows, and the number of unfinished jobs.

    Raises NotFound if the id is malformed, unknown, or that of another account's job.
    """
    rows = run(SQL["poll_job"], values={"id": _number(job_id), "account_id": account.pk})
    if not rows:
        raise NotFound
    return _POLLED.instance(rows[0]), rows[0][-1]


def _number(job_id: str) -> int:
    """Return the number of an id. Raises NotFound if it is malformed."""
    number = parse_id(job_id)
    if number is None:
        raise NotFound
    return number


def recent_profiles(account: Account, *, count: int) -> list[Job]:
    """Return the newest job of each title among the account's last RECENT_JOBS jobs, newest first.

    They are within the retention period, so their profiles are still stored.
    """
    bounds = {"first": first_id_of(retention.window_start(account)), "limit": RECENT_JOBS}
    with connection.cursor() as cursor:
        cursor.execute(SQL["latest_jobs"], {"account_id": account.pk, **bounds})
        jobs = [job for job in map(_TITLED.instance, cursor.fetchall()) if retention.is_kept(job)]
    newest = {job.title: job for job in reversed(jobs)}
    return sorted(newest.values(), key=lambda job: -job.pk)[:count]


def profile_of(account: Account, job_id: str) -> str:
    """Return the profile text of a job of the account, within the retention period. Raises NotFound."""
    number = parse_id(job_id)
    own = JobProfile.objects.filter(job__account=account).select_related("job").defer("job__summary")
    profile = own.filter(pk=number).first() if number is not None else None
    if profile is None or not retention.is_kept(profile.job):
        raise NotFound
    return profile.text


def shared_profile(token: str) -> tuple[Job, str]:
    """Return the job of a share link with its profile text, if the link also shows the input of its runs.

    Credentials are removed from inputs, but not from the text, so the text of a job with credentials stays private.
    Raises NotFound like `find_shared`, or ProfilePrivate.
    """
    job = find_shared(token)
    if job is None:
        raise NotFound
    if not shares_profile(job, shared_artifacts_of(job)):
        raise ProfilePrivate
    return job, profile_of(job.account, str(job.pk))


def shares_profile(job: Job, shared: Iterable[Artifact]) -> bool:
    """Return whether a share link shows the profile text, given the artifacts that it lists."""
    return not job.has_credentials and any(each.kind == Artifact.Kind.INPUT for each in shared)


def titles_of(account: Account, job_ids: Iterable[int]) -> dict[int, str]:
    """Return the titles of the account's jobs with these ids."""
    jobs = Job.objects.filter(account=account, pk__in=set(job_ids)).only(*TITLED)
    return {job.pk: job.title for job in jobs}


def find_by_title(start: str, *, limit: int) -> list[int]:
    """Return the ids of jobs of any account whose title or character starts with a text, the newest first.

    Ended and claimed jobs are found, waiting ones are not.
    """
    values = {"start": start[:SEARCHED_CHARACTERS], "limit": limit}
    return [int(pk) for (pk,) in run(SQL["find_by_title"], values=values)]


def billed_jobs(account: Account, job_ids: Iterable[int]) -> dict[int, Job]:
    """Return the account's jobs with these ids, with their titles and the figures of their bills."""
    jobs = Job.objects.filter(account=account, pk__in=set(job_ids))
    return {job.pk: job for job in jobs.only(*TITLED, *BILLED)}


def find_shared(token: str, *, with_profile: bool = False) -> Job | None:
    """Return the job of a share link with its build and account, None if unknown or after its retention.

    One query, also with the profile, which a job can lack.
    """
    related = ["build", "account", *(["profile"] if with_profile else [])]
    job = Job.objects.select_related(*related).filter(share_token=token).first()
    return job if job is not None and retention.is_kept(job) else None


def poll_shared(token: str) -> Job | None:
    """Return a share link's job with the fields that its progress needs, or None as in `find_shared`. One query."""
    job = Job.objects.filter(share_token=token).only(*POLLED, "retention_days", "cleared_at").first()
    return job if job is not None and retention.is_kept(job) else None


def artifacts_of(job: Job) -> list[Artifact]:
    """Return the artifacts of the latest attempt in the order of storage, none after the retention period."""
    if not retention.is_kept(job):
        return []
    return list(Artifact.objects.filter(job=job, attempt=job.attempt).order_by("id"))


def shared_artifacts_of(job: Job) -> list[Artifact]:
    """Return the artifacts that a share link lists: all of `artifacts_of`, or those without the inputs."""
    return [each for each in artifacts_of(job) if job.shows_inputs or each.kind not in Artifact.PRIVATE_KINDS]


def find_artifact(account: Account, artifact_id: str) -> Artifact:
    """Return an artifact of the account. Raises NotFound, or ArtifactRemoved after the retention period."""
    number = parse_id(artifact_id)
    artifacts = Artifact.objects.select_related("job").defer("job__summary").filter(job__account=account)
    artifact = artifacts.filter(pk=number).first() if number is not None else None
    if artifact is None:
        raise NotFound
    if not retention.is_kept(artifact.job):
        raise ArtifactRemoved
    return artifact


def find_download(token: str) -> Artifact | None:
    """Return the artifact of a download link, None if there is none or its retention has ended."""
    artifact = Artifact.objects.select_related("job").defer("job__summary").filter(token=token).first()
    return artifact if artifact is not None and retention.is_kept(artifact.job) else None


def find_build(build_id: str) -> Build:
    """Return a build, even if it is withdrawn. Raises NotFound."""
    try:
        number = UUID(build_id)
    except ValueError:
        raise NotFound from None
    build = Build.objects.filter(pk=number).first()
    if build is None:
        raise NotFound
    return build
