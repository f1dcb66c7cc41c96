"""Taking a job's secrets out of whatever others may read."""

import base64
import html
import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast
from urllib.parse import quote

from jobs.credentials import GameCredentials

MARK = "[removed]"
# A shorter one is no secret, and taking every occurrence of a letter out of a report would destroy it.
LEAST_CHARACTERS = 8
CHUNK_BYTES = 1 << 16


class Scrubber:
    """Replaces some secrets by a mark, in every spelling that logs and reports have for them."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        found = {form for secret in secrets if len(secret) >= LEAST_CHARACTERS for form in spellings(secret)}
        # The longest first: one secret may begin with another.
        forms = sorted(found, key=len, reverse=True)
        self.longest = len(forms[0]) if forms else 0
        self.pattern = re.compile("|".join(map(re.escape, forms)))
        self.byte_pattern = re.compile(b"|".join(re.escape(form.encode()) for form in forms))

    def text(self, text: str) -> str:
        """Return a text without the secrets."""
        return self.pattern.sub(MARK, text) if self.longest else text

    def stream(self, stream: BinaryIO) -> BinaryIO:
        """Return a file without the secrets, which takes the place of the one given."""
        if not self.longest:
            return stream
        clean = tempfile.TemporaryFile()  # noqa: SIM115 - whoever reads it closes it
        with stream:
            clean.writelines(self._pieces(stream))
        clean.seek(0)
        return cast(BinaryIO, clean)

    def _pieces(self, stream: BinaryIO) -> Iterator[bytes]:
        """Yield the content piece by piece, keeping back what may be the beginning of a secret."""
        kept = b""
        while data := stream.read(CHUNK_BYTES):
            kept = self.byte_pattern.sub(MARK.encode(), kept + data)
            yield kept[: -self.longest]
            kept = kept[-self.longest :]
        yield kept


def spellings(secret: str) -> set[str]:
    """Return a secret as it stands in plain text, in JSON, in HTML and in an address."""
    return {secret, json.dumps(secret)[1:-1], html.escape(secret), quote(secret), quote(secret, safe="")}


def scrubber_of(credentials: GameCredentials | None) -> Scrubber:
    """Return the scrubber for a job's game credentials; without any there is nothing to take out."""
    if credentials is None:
        return Scrubber()
    pair = f"{credentials.client_id}:{credentials.client_secret}"
    # As they are sent to ask for a token.
    basic = base64.b64encode(pair.encode()).decode()
    return Scrubber([credentials.client_id, credentials.client_secret, basic])
