"""Game credentials of jobs: encrypted, in Redis only, and deleted when the job ends.

They are never in the database, a message, a log or a command line: `docs/reference/api.md#game-credentials`.
"""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from cryptography.fernet import InvalidToken
from redis.exceptions import RedisError

from jobs.errors import CredentialStoreUnavailable
from simservice import encryption
from simservice.encryption import EncryptedValue, Purpose
from simservice.redis.client import best_effort, redis

logger = logging.getLogger(__name__)

# Added to the time that a job can wait and run: for its start, and for differences between clocks
SPARE_SECONDS = 600
PREFIX = "credentials:"
SCAN_BATCH = 1000
# Replaces a value if it is unchanged, and keeps its time to live.
SWAP = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')"


@dataclass(frozen=True, kw_only=True)
class GameCredentials:
    """An API client of the game platform, used for one job."""

    client_id: str = field(repr=False)
    client_secret: str = field(repr=False)


def store(job_id: int, credentials: GameCredentials, *, seconds: int) -> None:
    """Store the credentials of a job for the `seconds` that it can wait and run.

    Raises CredentialStoreUnavailable.
    """
    content = json.dumps([job_id, credentials.client_id, credentials.client_secret])
    encrypted = encryption.encrypt(content, purpose=Purpose.GAME_CREDENTIALS)
    # `ask` fails at once during an outage, so that waiting requests do not use up all threads.
    if not best_effort(lambda: redis().set(key_of(job_id), encrypted, ex=seconds + SPARE_SECONDS), default=None):
        raise CredentialStoreUnavailable


def require_store() -> None:
    """Raise CredentialStoreUnavailable if credentials cannot be stored now."""
    if not best_effort(lambda: redis().ping(), default=None):
        raise CredentialStoreUnavailable


def fetch(job_id: int, *, seconds: int) -> GameCredentials | None:
    """Return the credentials of a job, None if they are lost, and keep them for another `seconds`.

    If the attempt is lost, the next one needs them. Raises CredentialStoreUnavailable.
    """
    try:
        stored = redis().getex(key_of(job_id), ex=seconds + SPARE_SECONDS)
    except RedisError:
        raise CredentialStoreUnavailable from None
    try:
        owner, client_id, client_secret = json.loads(
            encryption.decrypt(str(stored), purpose=Purpose.GAME_CREDENTIALS)
        )
    except (InvalidToken, ValueError):
        owner = None
    if owner != job_id:
        logger.warning("the credentials of job %s are lost", job_id)
        return None
    return GameCredentials(client_id=client_id, client_secret=client_secret)


def keep(job_id: int, *, seconds: int) -> None:
    """Keep the credentials of a job for another `seconds`, if Redis responds."""
    best_effort(lambda: redis().expire(key_of(job_id), seconds + SPARE_SECONDS), default=False)


def forget(job_id: int) -> None:
    """Delete the credentials of a job. If Redis does not respond, they expire."""
    best_effort(lambda: redis().delete(key_of(job_id)), default=0)


def stored_job_ids() -> list[int]:
    """Return the ids of the jobs whose credentials are stored. Raises RedisError."""
    keys = redis().scan_iter(match=f"{PREFIX}*", count=SCAN_BATCH)
    return [int(str(key).removeprefix(PREFIX)) for key in keys]


def encrypted_credentials() -> Iterator[EncryptedValue]:
    """Yield all stored credentials, still encrypted. Raises RedisError."""
    for job_id in stored_job_ids():
        text = redis().get(key_of(job_id))
        if text is not None:
            yield EncryptedValue(
                name=f"game credentials of job {job_id}", text=str(text), replace=partial(_swap, job_id, str(text))
            )


def _swap(job_id: int, old: str, new: str) -> bool:
    """Replace encrypted credentials and keep their time to live. Return False if they changed in the meantime."""
    return bool(redis().eval(SWAP, 1, key_of(job_id), old, new))


def key_of(job_id: int) -> str:
    """Return the Redis key of the credentials."""
    return f"{PREFIX}{job_id}"
