"""What a job leaves behind: files in the storage, compressed at rest, and their rows."""

import gzip
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import IO, BinaryIO, cast

from django.core.files import File
from django.core.files.storage import default_storage
from django.utils import timezone

from jobs.models import Artifact, Job
from simservice.ids import new_token, next_id

CHUNK_BYTES = 64 * 1024
MIME_TYPES = {
    Artifact.Kind.JSON_REPORT: "application/json",
    Artifact.Kind.HTML_REPORT: "text/html; charset=utf-8",
    Artifact.Kind.CSV_REPORT: "text/csv; charset=utf-8",
    Artifact.Kind.INPUT: "text/plain; charset=utf-8",
    Artifact.Kind.STDOUT_LOG: "text/plain; charset=utf-8",
    Artifact.Kind.STDERR_LOG: "text/plain; charset=utf-8",
}


class Measured:
    """A writer that counts and hashes what passes through it."""

    def __init__(self, target: gzip.GzipFile) -> None:
        self.target = target
        self.bytes = 0
        self.hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.bytes += len(data)
        self.hash.update(data)
        return self.target.write(data)


def store(job: Job, kind: Artifact.Kind, content: BinaryIO, *, stage: int | None = None) -> Artifact:
    """Put a file into the storage and return its row, not yet saved. The content is streamed.

    The file's name names the attempt, so attempts never write to each other's files.
    """
    with tempfile.TemporaryFile() as compressed:
        with gzip.GzipFile(fileobj=compressed, mode="wb", compresslevel=6, mtime=0) as packer:
            measured = Measured(packer)
            shutil.copyfileobj(content, measured, CHUNK_BYTES)
        compressed.seek(0)
        name = default_storage.save(storage_name(job, kind, stage=stage), File(compressed))
    return Artifact(
        id=next_id(),
        job=job,
        attempt=job.attempt,
        stage=stage,
        kind=kind,
        mime_type=MIME_TYPES[kind],
        token=new_token(),
        storage_name=name,
        bytes=measured.bytes,
        sha256=measured.hash.hexdigest(),
        created_at=timezone.now(),
    )


def storage_name(job: Job, kind: Artifact.Kind, *, stage: int | None = None) -> str:
    """Return where an artifact is kept: folders by day-sized prefixes of the id keep directories small."""
    digits = str(job.pk)
    run = f"{job.attempt}" if stage is None else f"{job.attempt}.{stage}"
    return f"{digits[:5]}/{digits[5:8]}/{digits}-{run}-{kind}.gz"


def discard(artifacts: list[Artifact]) -> None:
    """Remove the files of those artifacts whose rows were never saved; a file that a row names stays.

    The database is asked, because a commit whose answer was lost may have saved them after all.
    """
    ids = [artifact.pk for artifact in artifacts]
    saved = set(Artifact.objects.filter(pk__in=ids).values_list("pk", flat=True))
    for artifact in artifacts:
        if artifact.pk not in saved:
            default_storage.delete(artifact.storage_name)


def open_stored(artifact: Artifact) -> IO[bytes]:
    """Open an artifact's compressed file. Raises FileNotFoundError when the storage has it no more."""
    return cast(IO[bytes], default_storage.open(artifact.storage_name))


def compressed_chunks(stored: IO[bytes]) -> Iterator[bytes]:
    """Yield a compressed file as it is, and close it."""
    with stored:
        yield from iter(lambda: stored.read(CHUNK_BYTES), b"")


def chunks(stored: IO[bytes], *, start: int, stop: int) -> Iterator[bytes]:
    """Yield the content of a compressed file from byte `start` up to `stop`, and close it."""
    with stored, gzip.GzipFile(fileobj=stored) as content:
        content.seek(start)
        left = stop - start
        while left > 0 and (data := content.read(min(CHUNK_BYTES, left))):
            left -= len(data)
            yield data
