"""Idempotency keys of submissions: `docs/reference/api.md#idempotency-keys`."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property

from clients.models import ApiKey
from jobs.errors import IdempotencyKeyReused
from jobs.models import IdempotencyKey
from jobs.submission.accept import Accepted, Replay
from jobs.submission.request import Submission, fingerprints
from jobs.submission.store import KeyRecord


class ByIdempotencyKey:
    """A submission with its idempotency key. Without a key, every submission is new.

    `render` returns the response body of an accepted submission. The fingerprint of a whole batch replaces that of
    the submission.
    """

    def __init__(
        self,
        api_key: ApiKey,
        key: str | None,
        submission: Submission,
        *,
        render: Callable[[Accepted], str],
        batch_fingerprints: list[str] | None = None,
    ) -> None:
        self.api_key = api_key
        self.key = key
        self.submission = submission
        self.render = render
        self.batch_fingerprints = batch_fingerprints
        # The body of the response, once the job can be stored.
        self.response = ""

    @cached_property
    def fingerprints(self) -> list[str]:
        """The fingerprints of the normalised request: that of the current key first."""
        return self.batch_fingerprints or fingerprints(self.submission)

    def find_replay(self) -> Replay | None:
        """Return the response to the first request with this key, or None.

        Raises IdempotencyKeyReused if that request was different. One query.
        """
        if self.key is None:
            return None
        first = IdempotencyKey.objects.filter(api_key=self.api_key, key=self.key).first()
        if first is None:
            return None
        if first.fingerprint not in self.fingerprints:
            raise IdempotencyKeyReused(job_id=first.job_id)
        return Replay(first.response)

    def storing(self) -> AbstractContextManager[None]:
        """Return a context manager without effect: the message that stores the job is the whole transaction."""
        return nullcontext()

    def record(self, accepted: Accepted) -> KeyRecord | None:
        """Render the response, and return it with the key, if there is one."""
        self.response = self.render(accepted)
        if self.key is None:
            return None
        return KeyRecord(key=self.key, fingerprint=self.fingerprints[0], response=self.response)
