"""What a job leaves behind: files in the storage, compressed at rest, and their rows."""

import logging
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import IO, BinaryIO, cast

from django.core.files import File
from django.core.files.storage import default_storage
from django.utils import timezone

from jobs import shutdown
from jobs.models import Artifact, Job
from simservice import storages
from simservice.ids import new_token, next_id
from simservice.storages import seekable_gzip

logger = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024
# How long to wait after each failed save but the last: a storage that restarts costs half a minute, not the run.
SAVE_WAITS_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0, 8.0)
MIME_TYPES = {
    Artifact.Kind.JSON_REPORT: "application/json",
    Artifact.Kind.HTML_REPORT: "text/html; charset=utf-8",
    Artifact.Kind.CSV_REPORT: "text/csv; charset=utf-8",
    Artifact.Kind.INPUT: "text/plain; charset=utf-8",
    Artifact.Kind.STDOUT_LOG: "text/plain; charset=utf-8",
    Artifact.Kind.STDERR_LOG: "text/plain; charset=utf-8",
}


FILE_NAMES = {
    Artifact.Kind.JSON_REPORT: "report.json",
    Artifact.Kind.HTML_REPORT: "report.html",
    Artifact.Kind.CSV_REPORT: "result.csv",
    Artifact.Kind.INPUT: "input.simc",
    Artifact.Kind.STDOUT_LOG: "stdout.log",
    Artifact.Kind.STDERR_LOG: "stderr.log",
}


class NotStored(Exception):
    """A file could not be stored, for reasons of ours; the attempt must not end without it."""


def store(job: Job, kind: Artifact.Kind, content: BinaryIO, *, stage: int | None = None) -> Artifact:
    """Put a file into the storage and return its row, not yet saved. The content is streamed.

    The file's name names the attempt, so attempts never write to each other's files, and saving one again replaces
    it by the same. Raises NotStored, or WorkerStops when the worker cannot wait for the storage.
    """
    with not_stored(kind), tempfile.TemporaryFile() as compressed:
        packed = seekable_gzip.pack(content, compressed)
        name = save(storage_name(job, kind, stage=stage), compressed)
    return Artifact(
        id=next_id(),
        job=job,
        attempt=job.attempt,
        stage=stage,
        kind=kind,
        mime_type=MIME_TYPES[kind],
        token=new_token(),
        storage_name=name,
        bytes=packed.bytes,
        sha256=packed.sha256,
        created_at=timezone.now(),
    )


@contextmanager
def not_stored(kind: Artifact.Kind) -> Iterator[None]:
    """Raise NotStored for whatever disks and storages fail with."""
    try:
        yield
    except OSError as error:
        raise NotStored(f"{kind}: {error}") from error


def save(name: str, content: IO[bytes]) -> str:
    """Save a file under its name, trying again for a while. Raises OSError or WorkerStops."""
    for wait_seconds in SAVE_WAITS_SECONDS:
        try:
            return save_once(name, content)
        except OSError as error:
            logger.warning("%s is not stored yet: %s", name, error)
        shutdown.stop.require_time()
        time.sleep(wait_seconds)
    return save_once(name, content)


def save_once(name: str, content: IO[bytes]) -> str:
    """Save a file from its beginning. Raises OSError."""
    content.seek(0)
    return default_storage.save(name, File(content))


def storage_name(job: Job, kind: Artifact.Kind, *, stage: int | None = None) -> str:
    """Return where an artifact is kept: below the job's folder, beginning with the job's id."""
    run = f"{job.attempt}" if stage is None else f"{job.attempt}.{stage}"
    return f"{folder_of(job.pk)}/{job.pk}-{run}-{kind}.gz"


def file_name(kind: Artifact.Kind, *, stage: int | None) -> str:
    """Return an artifact's name for callers: `docs/reference/contract.md#artifacts`.

    `stage` is None for the table, and if the job has no stages.
    """
    return FILE_NAMES[kind] if stage is None else f"stage-{stage}-{FILE_NAMES[kind]}"


def media_type(artifact: Artifact) -> str:
    """Return an artifact's media type without parameters, such as `text/html`."""
    return artifact.mime_type.partition(";")[0]


def folder_of(job_id: int) -> str:
    """Return the folder of a job's files, shared with the jobs of the same 100 seconds of the same 28 hours."""
    digits = str(job_id)
    return f"{digits[:5]}/{digits[5:8]}"


def remove_all(folder: str, job_ids: Collection[int], *, until: float) -> None:
    """Remove every file of some jobs of one folder. Raises OSError, also when not done `until` then (monotonic).

    The storage is asked which there are, so that those go too that no row names: of workers killed between saving
    a file and committing its row.
    """
    owners = {str(job_id) for job_id in job_ids}
    listed = default_storage.listdir(folder)[1]
    names = iter([f"{folder}/{name}" for name in listed if name.partition("-")[0] in owners])
    while batch := list(islice(names, storages.MAX_REMOVED_AT_ONCE)):
        if time.monotonic() > until:
            raise TimeoutError("removing the files takes too long")
        cast(storages.ArtifactStorage, default_storage).delete_many(batch)


def discard(artifacts: list[Artifact]) -> None:
    """Remove the files of those artifacts whose rows were never saved; a file that a row names stays.

    The database is asked, because a commit whose answer was lost may have saved them after all.
    """
    ids = [artifact.pk for artifact in artifacts]
    saved = set(Artifact.objects.filter(pk__in=ids).values_list("pk", flat=True))
    for artifact in artifacts:
        if artifact.pk not in saved:
            try:
                default_storage.delete(artifact.storage_name)
            except OSError as error:
                logger.warning("%s stays until its job's retention ends: %s", artifact.storage_name, error)


@dataclass(frozen=True)
class Opened:
    """An artifact to be read once: a part of its content, or the whole compressed file if there is no `place`.

    `size` is the number of bytes to read.
    """

    stored: IO[bytes]
    size: int
    file_range: seekable_gzip.FileRange | None = None

    def chunks(self) -> Iterator[bytes]:
        """Yield all bytes, then close the file."""
        with self.stored:
            if self.file_range is None:
                yield from iter(lambda: self.stored.read(CHUNK_BYTES), b"")
            else:
                yield from seekable_gzip.unpack(self.stored, file_range=self.file_range, size=self.size)

    def close(self) -> None:
        self.stored.close()


def open_compressed(artifact: Artifact) -> Opened:
    """Open an artifact's compressed file.

    Raises FileNotFoundError if the storage no longer has it, another OSError if the storage does not answer.
    """
    stored = default_storage.open(artifact.storage_name)
    return Opened(cast(IO[bytes], stored), stored.size)


def open_part(artifact: Artifact, *, start: int, stop: int) -> Opened:
    """Open an artifact's content from byte `start` up to `stop`. Raises like `open_compressed`.

    Decompresses at most one segment before the part, or everything before it in files of earlier versions.
    """
    storage, header = cast(storages.ArtifactStorage, default_storage), b""
    if start >= seekable_gzip.SEGMENT_BYTES:
        size = seekable_gzip.header_size(artifact.bytes)
        with storage.open_range(artifact.storage_name, 0, size) as beginning:
            header = beginning.read(size)
    file_range = seekable_gzip.locate(header, start=start, stop=stop)
    stored = storage.open_range(artifact.storage_name, file_range.start, file_range.stop)
    return Opened(stored, stop - start, file_range)
