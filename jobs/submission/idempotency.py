"""Idempotency keys: the same submission sent again gets the answer it got before (contract, section 3)."""

from functools import cached_property

from clients.models import ApiKey
from jobs.models import IdempotencyKey, Job
from jobs.submission.request import Submission, fingerprint
from simservice.api.errors import IdempotencyKeyReuse


class Known:
    """What is known of a submission's idempotency key; a submission without one is never known."""

    def __init__(self, api_key: ApiKey, key: str | None, submission: Submission) -> None:
        self.api_key = api_key
        self.key = key
        self.submission = submission

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the normalised request."""
        return fingerprint(self.submission)

    def answer(self) -> str | None:
        """Return the body that the key's first request got, None for a new key.

        Raises IdempotencyKeyReuse when that request was a different one. One query.
        """
        if self.key is None:
            return None
        first = IdempotencyKey.objects.filter(api_key=self.api_key, key=self.key).first()
        if first is None:
            return None
        if first.fingerprint != self.fingerprint:
            raise IdempotencyKeyReuse({"reason": "different_request", "originalJobId": str(first.job_id)})
        return first.response

    def remember(self, job: Job, body: str) -> None:
        """Store the answer. Call in the transaction that stores the job, under the account's lock."""
        if self.key is not None:
            IdempotencyKey.objects.create(
                api_key=self.api_key, key=self.key, fingerprint=self.fingerprint, job=job, response=body
            )
