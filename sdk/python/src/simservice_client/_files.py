"""Files that are written as they are downloaded."""

from __future__ import annotations

import contextlib
import hashlib
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import httpx

from simservice_client.errors import DownloadFailed

if TYPE_CHECKING:
    from typing_extensions import Self

# The service's entity tags are SHA-256 hashes of the content.
TAG = re.compile(r'"(?P<sha256>[0-9a-f]{64})"')
RANGE = re.compile(r"bytes (?P<start>[0-9]+)-[0-9]+/[0-9*]+")


class PartFile:
    """A hidden file beside its target that replaces the target when it is complete, and is removed otherwise."""

    def __init__(self, target: Path, *, size: int) -> None:
        self.target, self.size, self.written, self.tag = target, size, 0, ""
        self._path = target.with_name(f".{target.name[:100]}.{uuid.uuid4().hex}.part")
        self._hash = hashlib.sha256()

    def __enter__(self) -> Self:
        with self._explained():
            self.target.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("xb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # Closing a file on a full disk can fail once more.
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    @property
    def is_complete(self) -> bool:
        """Whether all bytes are there."""
        return self.written >= self.size

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the request for the missing bytes."""
        headers = {"Accept-Encoding": "identity"}
        if self.written and self.tag:
            headers |= {"Range": f"bytes={self.written}-", "If-Range": self.tag}
        return headers

    def begin(self, response: httpx.Response) -> None:
        """Prepare for the bytes of a response: the missing ones, or all of them."""
        match = RANGE.fullmatch(response.headers.get("content-range", ""))
        if response.status_code != 206:
            self._restart()
        elif match is None or int(match["start"]) != self.written:
            raise DownloadFailed(f"{self.target.name}: the service sent other bytes than those that are missing")
        self.tag = response.headers.get("etag", "")

    def write(self, chunk: bytes) -> None:
        """Append some bytes. Raises DownloadFailed if they are too many or cannot be written."""
        self.written += len(chunk)
        if self.written > self.size:
            raise DownloadFailed(f"{self.target.name}: the service sent more than {self.size} bytes")
        self._hash.update(chunk)
        with self._explained():
            self._file.write(chunk)

    def finish(self) -> Path:
        """Replace the target and return it. Raises DownloadFailed if the content is not the announced one."""
        announced = TAG.fullmatch(self.tag)
        if announced is not None and announced["sha256"] != self._hash.hexdigest():
            raise DownloadFailed(f"{self.target.name}: the content differs from what the service announced")
        with self._explained():
            self._file.close()
            self._path.replace(self.target)
        return self.target

    def _restart(self) -> None:
        """Forget what was written."""
        with self._explained():
            self._file.seek(0)
            self._file.truncate()
        self.written, self._hash = 0, hashlib.sha256()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise DownloadFailed for a problem of the disk."""
        try:
            yield
        except OSError as error:
            raise DownloadFailed(f"{self.target} cannot be written: {error.strerror or error}") from error


def safe_name(name: str) -> str:
    """Return a file name from the service without the characters that have a meaning in paths.

    >>> safe_name("../../stage 1/report.json")
    'stage-1-report.json'
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")
    return plain[:100] or "artifact"
