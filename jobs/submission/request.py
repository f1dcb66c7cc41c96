"""The normalised request for a job, and its fingerprint."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from jobs.credentials import GameCredentials
from jobs.enums import Channel, Priority


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A request for a job, from any source. Times are in seconds; None if the request has no value."""

    channel: Channel
    git_branch: str
    build_id: UUID | None
    profile_text: str
    multi_stage: bool
    max_credits: int | None
    max_runtime_seconds: int | None
    max_queue_seconds: int | None
    priority: Priority
    metadata: Mapping[str, str]
    credentials: GameCredentials | None
    html: bool
    csv: bool
    json_version: int
    webhook_events: tuple[str, ...]


def fingerprint(submission: Submission) -> str:
    """Return the SHA-256 of a request without its metadata. Credentials are included as a hash.

    Empty fields are left out, so a new field of the API does not change the fingerprints of earlier requests.
    """
    fields: dict[str, Any] = asdict(submission)
    del fields["metadata"]
    if submission.credentials is not None:
        pair = f"{submission.credentials.client_id}\n{submission.credentials.client_secret}"
        fields["credentials"] = hashlib.sha256(pair.encode()).hexdigest()
    given = {
        name: value for name, value in fields.items() if value is not None and value is not False and value != ()
    }
    return hashlib.sha256(json.dumps(given, sort_keys=True, default=str).encode()).hexdigest()
