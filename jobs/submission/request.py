"""The normalised request for a job, and its fingerprints."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from jobs.artifacts.credentials import GameCredentials
from jobs.enums import Channel, Priority
from simservice.encryption import Purpose, digests


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
    # Whether the share link hides the profile and the logs
    hides_inputs: bool = False


def fingerprints(submission: Submission) -> list[str]:
    """Return the SHA-256 of a request without its metadata, for each of the deployment's keys, newest first.

    Game credentials are included as a keyed hash, so that the database does not allow guesses at them. Without
    credentials, all fingerprints are equal. Empty fields are left out, so a new field of the API does not change
    the fingerprints of earlier requests.
    """
    fields: dict[str, Any] = asdict(submission)
    del fields["metadata"], fields["credentials"]
    given = {
        name: value for name, value in fields.items() if value is not None and value is not False and value != ()
    }
    pair = submission.credentials
    hashed = digests(
        f"{pair.client_id}\n{pair.client_secret}" if pair else "", purpose=Purpose.REQUEST_FINGERPRINTS
    )
    return [_sha256(given | {"credentials": digest} if pair else given) for digest in hashed]


def _sha256(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True, default=str).encode()).hexdigest()
