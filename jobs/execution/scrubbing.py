"""Removal of a job's secrets from logs, reports and messages."""

import base64
import html
import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast
from urllib.parse import quote

from jobs.artifacts.credentials import GameCredentials

MARK = "[removed]"
# A shorter text is not a secret, and removing every occurrence of it would destroy a report.
MIN_CHARACTERS = 8
CHUNK_BYTES = 1 << 16


class Scrubber:
    """Replaces secrets by a mark, in each spelling that logs and reports use."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        unordered = {form for each in secrets if len(each) >= MIN_CHARACTERS for form in _spellings(each)}
        # The longest first, because one secret can begin with another.
        forms = sorted(unordered, key=len, reverse=True)
        self.longest = len(forms[0]) if forms else 0
        self.pattern = re.compile("|".join(map(re.escape, forms)))
        self.byte_pattern = re.compile(b"|".join(re.escape(form.encode()) for form in forms))

    def text(self, text: str) -> str:
        """Return a text with the secrets replaced."""
        return self.pattern.sub(MARK, text) if self.longest else text

    def stream(self, stream: BinaryIO) -> BinaryIO:
        """Return a copy with the secrets replaced, and close the file; without secrets, return the file."""
        if not self.longest:
            return stream
        clean = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the reader
        with stream:
            clean.writelines(self._pieces(stream))
        clean.seek(0)
        return cast(BinaryIO, clean)

    def _pieces(self, stream: BinaryIO) -> Iterator[bytes]:
        """Yield the content in pieces, holding back each end, which can be the start of a secret."""
        pending = b""
        while data := stream.read(CHUNK_BYTES):
            pending = self.byte_pattern.sub(MARK.encode(), pending + data)
            yield pending[: -self.longest]
            pending = pending[-self.longest :]
        yield pending


def _spellings(secret: str) -> set[str]:
    """Return the spellings of a secret in plain text, JSON, HTML and URLs."""
    return {secret, json.dumps(secret)[1:-1], html.escape(secret), quote(secret), quote(secret, safe="")}


def scrubber_of(credentials: GameCredentials | None) -> Scrubber:
    """Return the scrubber for a job's game credentials; without credentials it replaces nothing."""
    if credentials is None:
        return Scrubber()
    pair = f"{credentials.client_id}:{credentials.client_secret}"
    # As sent in a request for a token.
    basic = base64.b64encode(pair.encode()).decode()
    return Scrubber([credentials.client_id, credentials.client_secret, basic])
