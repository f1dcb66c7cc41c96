"""Several submissions in one request: `docs/reference/api.md#batches`."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from clients.models import ApiKey
from jobs.errors import IdempotencyKeyReused, JobsError
from jobs.models import IdempotencyKey
from jobs.submission import accept
from jobs.submission.accept import Accepted, Replay
from jobs.submission.idempotency import ByIdempotencyKey
from jobs.submission.request import Submission, fingerprints
from jobs.submission.validation import Sender
from simservice.postgresql.connections import DATABASE_UNAVAILABLE

MAX_JOBS = 100


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The readable submissions of a request by their position, and the idempotency key of the request.

    `render` returns the response body of an accepted submission.
    """

    api_key: ApiKey
    key: str | None
    submissions: Mapping[int, Submission]
    render: Callable[[Accepted], str]

    def submit(self) -> Iterator[tuple[int, str | Replay | Exception]]:
        """Make the submissions in order. Yield each position with its response, its earlier response, or its error.

        Raises IdempotencyKeyReused, before anything is stored, if an earlier batch with this key was different.
        Each submission is a transaction of its own. Once the database does not respond, the rest is not tried.
        """
        whole = self._fingerprints()
        known = self._replays(whole)
        outage: Exception | None = None
        for position, submission in self.submissions.items():
            replay = known.get(position)
            try:
                yield position, outage or replay or self._submit_one(position, submission, whole)
            except JobsError as error:
                yield position, error
            except DATABASE_UNAVAILABLE as error:
                outage = error
                yield position, error

    def _submit_one(self, position: int, submission: Submission, whole: list[str]) -> str | Replay:
        """Return the response to a submission. Raises JobsError."""
        key = None if self.key is None else key_of_entry(self.key, position)
        keyed = ByIdempotencyKey(self.api_key, key, submission, render=self.render, batch_fingerprints=whole)
        sender = Sender(self.api_key.client, self.api_key)
        outcome = accept.submit(submission, sender=sender, once=keyed)
        return outcome if isinstance(outcome, Replay) else keyed.response

    def _replays(self, whole: list[str]) -> dict[int, Replay]:
        """Return the responses of an earlier, equal batch by position. Raises IdempotencyKeyReused. One query."""
        if self.key is None:
            return {}
        positions = {key_of_entry(self.key, position): position for position in range(MAX_JOBS)}
        known = list(IdempotencyKey.objects.filter(api_key=self.api_key, key__in=positions))
        for entry in known:
            if entry.fingerprint not in whole:
                raise IdempotencyKeyReused(job_id=entry.job_id)
        return {positions[entry.key]: Replay(entry.response) for entry in known}

    def _fingerprints(self) -> list[str]:
        """Return the SHA-256 of all submissions without their metadata, for each of the deployment's keys."""
        by_key = zip(*map(fingerprints, self.submissions.values()), strict=True)
        return [self._fingerprint(parts) for parts in by_key]

    def _fingerprint(self, parts: Iterable[str]) -> str:
        """Return the SHA-256 of the fingerprints of all submissions."""
        lines = [f"{position} {part}" for position, part in zip(self.submissions, parts, strict=True)]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def key_of_entry(key: str, position: int) -> str:
    """Return the idempotency key of one submission. No client can send it, because of the control character."""
    return f"\x1fbatch {position} {hashlib.sha256(key.encode()).hexdigest()}"
