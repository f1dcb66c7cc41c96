"""Comparison of the rows of artifacts with the files in the storage, which can differ after a restore.

It proceeds by folder (`artifacts.folder_of`), so that only the files of 100 seconds are in memory.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import cast

from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import QuerySet

from jobs.artifacts import artifact_files, retention, storage
from jobs.execution.outputs import missing
from jobs.models import Artifact, Job
from simservice.ids import first_id_of, parse_id
from simservice.storages import MAX_REMOVED_AT_ONCE, ArtifactStorage

# The jobs of a folder have ids with the same first digits.
IDS_OF_A_FOLDER = 10**10
LOST = "the file was lost"
FIELDS = "job_id storage_name job__created_at job__retention_days job__cleared_at".split()


def missing_files() -> Iterator[list[Artifact]]:
    """Yield for each folder the artifacts within the retention period whose files are missing. Raises OSError.

    Two queries and one listing for each folder. The listing comes last, because a file is saved before its row.
    Retention removes files before it changes rows, so expired jobs do not count.
    """
    start = first_id_of(retention.longest_window_start())
    kept_from = _kept().order_by("job_id").values_list("job_id", flat=True)
    while (first := kept_from.filter(job_id__gte=start).first()) is not None:
        start = first - first % IDS_OF_A_FOLDER + IDS_OF_A_FOLDER
        rows = _kept().filter(job_id__gte=first, job_id__lt=start).order_by("pk").select_related("job")
        kept = [row for row in rows.only(*FIELDS) if retention.is_kept(row.job)]
        folder = artifact_files.folder_of(first)
        listed = {f"{folder}/{name}" for name in default_storage.listdir(folder)[1]}
        yield [row for row in kept if row.storage_name not in listed]


def _kept() -> QuerySet[Artifact]:
    return Artifact.objects.filter(job__cleared_at=None)


def record_missing(rows: Sequence[Artifact]) -> None:
    """Move artifacts from the list of a job's files to that of its missing files, unless the job has expired."""
    by_job = defaultdict(list)
    for row in rows:
        by_job[row.job_id].append(row)
    for job_id, lost in by_job.items():
        _record_missing(job_id, [row.pk for row in lost])


@transaction.atomic
def _record_missing(job_id: int, ids: Sequence[int]) -> None:
    job = Job.objects.select_for_update(no_key=True).filter(pk=job_id).first()
    if job is None or not retention.is_kept(job):
        return
    lost = Artifact.objects.filter(pk__in=ids)
    entries = [missing(Artifact.Kind(row.kind), stage=row.stage, reason=LOST) for row in lost]
    Job.objects.filter(pk=job_id).update(missing_artifacts=[*job.missing_artifacts, *entries])
    storage.subtract_bytes(job.account_id, sum(row.bytes for row in lost))
    lost.delete()


def files_without_job() -> Iterator[list[str]]:
    """Yield for each folder the names of the files of jobs that do not exist or were cleared. Raises OSError.

    A restore can bring back files of jobs that retention had already cleared.

    One listing and one query for each folder. The query comes last, because a job is committed before it has files.
    """
    for parent in default_storage.listdir("")[0]:
        for child in default_storage.listdir(parent)[0]:
            folder = f"{parent}/{child}"
            # Files with other names are not ours.
            owners = {name: parse_id(name.partition("-")[0]) for name in default_storage.listdir(folder)[1]}
            uncleared = Job.objects.filter(cleared_at=None, pk__in={owner for owner in owners.values() if owner})
            needing = set(uncleared.values_list("pk", flat=True))
            yield [f"{folder}/{name}" for name, owner in owners.items() if owner and owner not in needing]


def remove_files(names: Sequence[str]) -> None:
    """Remove files. Raises OSError."""
    for start in range(0, len(names), MAX_REMOVED_AT_ONCE):
        cast(ArtifactStorage, default_storage).delete_many(names[start : start + MAX_REMOVED_AT_ONCE])
