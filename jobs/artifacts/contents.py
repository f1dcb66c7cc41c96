"""What a download sends: a stored file, the beginning of one with text after it, or text alone."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from jobs.artifacts import artifact_files
from jobs.artifacts.artifact_files import OpenArtifact
from jobs.models import Artifact
from simservice.storages import seekable_gzip

# Each download compresses the text again, so speed matters more than size.
LEVEL = 1


@dataclass(frozen=True, kw_only=True)
class Content:
    """The first `kept` bytes of a stored file, if there is one, then the bytes `added`.

    `digest` identifies the whole content.
    """

    digest: str
    name: str
    mime_type: str
    artifact: Artifact | None = None
    kept: int = 0
    added: bytes = b""

    @property
    def size(self) -> int:
        return self.kept + len(self.added)


@dataclass(frozen=True, kw_only=True)
class OpenContent:
    """A part of the content, read once. `size` is its number of bytes, or None if not known yet."""

    size: int | None
    stored: OpenArtifact | None = None
    added: bytes = b""
    is_compressed: bool = False

    def chunks(self) -> Iterator[bytes]:
        """Yield all bytes, then close the file."""
        return _compressed(self._plain()) if self.is_compressed else self._plain()

    def _plain(self) -> Iterator[bytes]:
        if self.stored is not None:
            yield from self.stored.chunks()
        if self.added:
            yield self.added

    def close(self) -> None:
        if self.stored is not None:
            self.stored.close()


def of_artifact(artifact: Artifact, *, name: str = "") -> Content:
    """Return a stored file as it is. Its name is that of the artifact unless another one is given."""
    return Content(
        digest=artifact.sha256,
        name=name or artifact_files.file_name(Artifact.Kind(artifact.kind), stage=artifact.stage),
        mime_type=artifact.mime_type,
        artifact=artifact,
        kept=artifact.bytes,
    )


def open_part(content: Content, *, start: int, stop: int) -> OpenContent:
    """Open content from byte `start` up to `stop`.

    Raises FileNotFoundError if the storage no longer has the file, another OSError if it is unavailable.
    """
    stored = None
    if content.artifact is not None and (start < content.kept or not content.added):
        stored = artifact_files.open_part(content.artifact, start=start, stop=min(stop, content.kept))
    added = content.added[max(0, start - content.kept) : max(0, stop - content.kept)]
    return OpenContent(size=stop - start, stored=stored, added=added)


def open_compressed(content: Content) -> OpenContent:
    """Open content compressed with gzip; a stored file stays as it is stored. Raises like `open_part`."""
    if content.artifact is not None and not content.added:
        stored = artifact_files.open_compressed(content.artifact)
        return OpenContent(size=stored.size, stored=stored)
    opened = open_part(content, start=0, stop=content.size)
    return OpenContent(size=None, stored=opened.stored, added=opened.added, is_compressed=True)


def _compressed(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a gzip file of the chunks."""
    deflate = zlib.compressobj(LEVEL, wbits=seekable_gzip.WITH_HEADER)
    for chunk in chunks:
        if data := deflate.compress(chunk):
            yield data
    yield deflate.flush()
