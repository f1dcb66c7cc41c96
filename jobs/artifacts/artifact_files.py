"""Artifacts of jobs: compressed files in the storage, and their rows."""

import hashlib
import logging
import shutil
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import IO, BinaryIO, Self, cast

from django.core.files.storage import default_storage
from django.db import transaction
from django.utils import timezone

from jobs.errors import GivesUp, WorkerStops
from jobs.models import Artifact, Job
from simservice import shutdown, storages
from simservice.ids import new_token, next_id
from simservice.storages import seekable_gzip
from simservice.telemetry import tracing

logger = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024
# Waits between failed saves: a storage that restarts within half a minute does not fail the run.
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


class DamagedFile(OSError):
    """A stored file does not have the content of its artifact."""


class NotStored(GivesUp):
    """A file could not be stored because of the service; the attempt must not end without it."""


def store(job: Job, kind: Artifact.Kind, content: BinaryIO, *, stage: int | None = None) -> Artifact:
    """Store one file, close it, and return its unsaved row. Raises the same errors as `store_all`."""
    return store_all(job, [(kind, content)], stage=stage)[0]


def store_all(
    job: Job,
    contents: Iterable[tuple[Artifact.Kind, BinaryIO]],
    *,
    stage: int | None = None,
    ids: Iterator[int] | None = None,
) -> list[Artifact]:
    """Compress and store files, close them, and return their unsaved rows. Stores all files or none.

    The name of a file contains the attempt, so attempts never share a file, and a file can safely be stored again.
    The rows get their ids from `ids`; if it has too few, new ids are created. Raises NotStored, or WorkerStops if
    the worker stops while the storage is unavailable.
    """
    rows: list[Artifact] = []
    ids = ids or iter(())
    with _all_or_none() as batch:
        for kind, content in contents:
            name = storage_name(job, kind, stage=stage)
            packed = batch.pack(name, content)
            rows.append(_row(job, kind, name, packed, stage=stage, artifact_id=next(ids, None) or next_id()))
    return rows


def store_files(contents: Iterable[tuple[str, BinaryIO]]) -> dict[str, str]:
    """Compress and store files under these names, and close them. Store all or none.

    Return the SHA-256 of each content by name. Raises the same errors as `store_all`.
    """
    with _all_or_none() as batch:
        return {name: batch.pack(name, content).sha256 for name, content in contents}


def copy_file(name: str, target: BinaryIO) -> None:
    """Copy a stored, compressed file. Raises FileNotFoundError, or another OSError if the storage fails."""
    with default_storage.open(name) as stored:
        shutil.copyfileobj(stored, target, CHUNK_BYTES)


@contextmanager
def _all_or_none() -> Iterator["_Batch"]:
    """Save the files that the block packs when it ends. After an error, remove those already saved."""
    with tracing.span("store"), _Batch() as batch:
        try:
            yield batch
            batch.save()
        except Exception:
            remove(batch.names)
            raise


class _Batch:
    """Compressed files that are saved together, because that needs fewer disk writes than one after another."""

    def __init__(self) -> None:
        self.files: dict[str, IO[bytes]] = {}
        # The names of all files, including those already saved.
        self.names: list[str] = []
        self.opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.close()

    def pack(self, name: str, content: BinaryIO) -> seekable_gzip.Packed:
        """Compress a file, and close it. Raises NotStored or WorkerStops."""
        self.names.append(name)
        with content, _as_not_stored(name):
            return self._pack(name, content)

    def _pack(self, name: str, content: BinaryIO) -> seekable_gzip.Packed:
        self.files[name] = compressed = self.opened.enter_context(seekable_gzip.scratch())
        packed = seekable_gzip.pack(content, compressed)
        if compressed.tell() > seekable_gzip.MEMORY_BYTES:
            # Save large files at once, to limit the space that temporary files need.
            self.save()
        return packed

    def save(self) -> None:
        """Save the files that are not saved yet. Raises NotStored or WorkerStops."""
        with _as_not_stored(", ".join(self.files)):
            _save(self.files)
        self.opened.close()
        self.files.clear()


def _row(
    job: Job,
    kind: Artifact.Kind,
    name: str,
    packed: seekable_gzip.Packed,
    *,
    stage: int | None,
    artifact_id: int,
) -> Artifact:
    """Return the row of a stored file."""
    return Artifact(
        id=artifact_id,
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
def _as_not_stored(subject: str) -> Iterator[None]:
    """Convert errors of disks and storages to NotStored."""
    try:
        yield
    except OSError as error:
        raise NotStored(f"{subject}: {error}") from error


def _save(files: Mapping[str, IO[bytes]]) -> None:
    """Save files by name, with retries. Raises OSError or WorkerStops."""
    for wait_seconds in SAVE_WAITS_SECONDS:
        try:
            return _save_once(files)
        except OSError as error:
            logger.warning("%s: not stored; trying again: %s", ", ".join(files), error)
        if not shutdown.stop.has_time():
            raise WorkerStops
        time.sleep(wait_seconds)
    return _save_once(files)


def _save_once(files: Mapping[str, IO[bytes]]) -> None:
    """Save files from their beginning. Raises OSError."""
    for content in files.values():
        content.seek(0)
    _storage().save_many(files)


def _storage() -> storages.ArtifactStorage:
    return cast(storages.ArtifactStorage, default_storage)


def storage_name(job: Job, kind: Artifact.Kind, *, stage: int | None = None) -> str:
    """Return the path of an artifact in the storage: the job's folder, and a name that begins with the job's id."""
    run = f"{job.attempt}" if stage is None else f"{job.attempt}.{stage}"
    return f"{folder_of(job.pk)}/{job.pk}-{run}-{kind}.gz"


def file_name(kind: Artifact.Kind, *, stage: int | None) -> str:
    """Return an artifact's name for callers: `docs/reference/api.md#artifacts`.

    `stage` is None for the CSV table, and if the job has no stages.
    """
    return FILE_NAMES[kind] if stage is None else f"stage-{stage}-{FILE_NAMES[kind]}"


def media_type(artifact: Artifact) -> str:
    """Return an artifact's media type without parameters, such as `text/html`."""
    return artifact.mime_type.partition(";")[0]


def folder_of(job_id: int) -> str:
    """Return the folder of a job's files, shared with the jobs of the same 100 seconds of the same 28 hours."""
    digits = str(job_id)
    return f"{digits[:5]}/{digits[5:8]}"


def remove_all(folder: str, job_ids: Collection[int], *, until: float) -> set[int]:
    """Remove all files of some jobs of one folder. Return the jobs that have no files left.

    The storage lists the files, so this includes files without a row, from workers that were killed between saving
    a file and committing its row. A file that cannot be removed delays only its own job. Raises OSError if the
    storage does not respond, or TimeoutError at `until` (monotonic).
    """
    found = _files_of(folder, job_ids)
    names = iter(found)
    while batch := list(islice(names, storages.MAX_REMOVED_AT_ONCE)):
        if time.monotonic() > until:
            raise TimeoutError("the removal of files took too long")
        try:
            _storage().delete_many(batch)
        except OSError as error:
            logger.warning("files of expired jobs were not removed: %s", error)
    # The list counts: a bucket can confirm a removal that it does not carry out.
    left = _files_of(folder, job_ids) if found else []
    return set(job_ids) - {int(name.rpartition("/")[2].partition("-")[0]) for name in left}


def _files_of(folder: str, job_ids: Collection[int]) -> list[str]:
    """Return the files of some jobs of one folder. Raises OSError."""
    owners = {str(job_id) for job_id in job_ids}
    listed = default_storage.listdir(folder)[1]
    return [f"{folder}/{name}" for name in listed if name.partition("-")[0] in owners]


def discard(artifacts: list[Artifact]) -> None:
    """Remove the files of a job's artifacts whose rows were not saved.

    The database is queried because a commit can succeed although its response is lost. The lock waits until a
    transaction that has the job's row and saves the rows has ended. It does not wait for one that PostgreSQL has
    not started yet, such as a statement that is still in the network after its connection was lost.
    """
    if not artifacts:
        return
    names = [artifact.storage_name for artifact in artifacts]
    with transaction.atomic():
        list(Job.objects.select_for_update(no_key=True).filter(pk=artifacts[0].job_id).values_list("pk"))
        saved = set(Artifact.objects.filter(storage_name__in=names).values_list("storage_name", flat=True))
    remove([name for name in names if name not in saved])


def remove(names: list[str]) -> None:
    """Remove files that have no rows, if the storage allows it."""
    try:
        if names:
            _storage().delete_many(names)
    except OSError as error:
        logger.warning("%s: stays until its job's retention ends: %s", ", ".join(names), error)


@dataclass(frozen=True)
class OpenArtifact:
    """An open artifact, read once: a part of its content, or the whole compressed file if `file_range` is None.

    `size` is the number of bytes to read.
    """

    stored: IO[bytes]
    artifact: Artifact
    size: int
    file_range: seekable_gzip.FileRange | None = None

    def chunks(self) -> Iterator[bytes]:
        """Yield all bytes, then close the file. Raises OSError, or DamagedFile before the last bytes.

        A client can tell an incomplete response from a complete one, so no damaged file passes as a whole one. A
        part of the content has no hash to compare it with.
        """
        with self.stored:
            try:
                yield from self._checked()
            except (EOFError, zlib.error) as error:
                raise DamagedFile(f"{self.artifact.storage_name}: {error}") from error

    def _checked(self) -> Iterator[bytes]:
        """Yield all bytes; the last ones only if the whole content has the artifact's hash."""
        found, last = hashlib.sha256(), b""
        for data in self._read(found):
            if last:
                yield last
            last = data
        is_whole = self.file_range is None or self.size == self.artifact.bytes
        if is_whole and found.hexdigest() != self.artifact.sha256:
            raise DamagedFile(f"{self.artifact.storage_name} does not have the content that was stored")
        yield last

    def _read(self, found: "hashlib._Hash") -> Iterator[bytes]:
        """Yield all bytes, and add the content to a hash."""
        if self.file_range is None:
            yield from seekable_gzip.read_packed(self.stored, found)
            return
        for data in seekable_gzip.unpack(self.stored, file_range=self.file_range, size=self.size):
            found.update(data)
            yield data

    def close(self) -> None:
        self.stored.close()


def open_compressed(artifact: Artifact) -> OpenArtifact:
    """Open an artifact's compressed file.

    Raises FileNotFoundError if the storage no longer has it, another OSError if the storage is unavailable.
    """
    stored = default_storage.open(artifact.storage_name)
    if not stored.size:
        # A response without a body would be complete before the content is compared.
        stored.close()
        raise DamagedFile(f"{artifact.storage_name} is empty")
    return OpenArtifact(cast(IO[bytes], stored), artifact, stored.size)


def open_part(artifact: Artifact, *, start: int, stop: int) -> OpenArtifact:
    """Open an artifact's content from byte `start` up to `stop`. Raises like `open_compressed`.

    Decompresses at most one segment before the part.
    """
    storage, header = _storage(), b""
    if start >= seekable_gzip.SEGMENT_BYTES:
        size = seekable_gzip.header_size(artifact.bytes)
        with storage.open_range(artifact.storage_name, 0, size) as beginning:
            header = beginning.read(size)
        if not seekable_gzip.is_header(header, size=size):
            raise DamagedFile(f"{artifact.storage_name} has a different header")
    file_range = seekable_gzip.locate(header, start=start, stop=stop)
    stored = storage.open_range(artifact.storage_name, file_range.start, file_range.stop)
    return OpenArtifact(stored, artifact, stop - start, file_range)
