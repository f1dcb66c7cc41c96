"""Game credentials that came along with a job: encrypted, in Redis only, and only for as long as they are needed.

They never reach the database, a message, a log or a command line: `docs/reference/contract.md#game-credentials`.
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

# Beyond the time that a job may wait and run: for starting it, and for clocks that differ.
SPARE_SECONDS = 600
PREFIX = "credentials:"
SCANNED_AT_ONCE = 1000
SWAP = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')"


@dataclass(frozen=True, kw_only=True)
class GameCredentials:
    """A client of the game platform's API, for one job only."""

    client_id: str = field(repr=False)
    client_secret: str = field(repr=False)


def store(job_id: int, credentials: GameCredentials, *, seconds: int) -> None:
    """Keep a job's credentials for as long as it may wait and run. Raises CredentialStoreUnavailable."""
    content = json.dumps([job_id, credentials.client_id, credentials.client_secret])
    encrypted = encryption.encrypt(content, purpose=Purpose.GAME_CREDENTIALS)
    # During an outage at once: a caller who waits for Redis holds one of a few threads.
    if not best_effort(lambda: redis().set(key_of(job_id), encrypted, ex=seconds + SPARE_SECONDS), default=None):
        raise CredentialStoreUnavailable


def fetch(job_id: int, *, seconds: int) -> GameCredentials | None:
    """Return a job's credentials, None when they are lost, and keep them for so long once more.

    An attempt may be lost, and the next one needs them again. Raises CredentialStoreUnavailable.
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


def forget(job_id: int) -> None:
    """Remove a job's credentials; where Redis does not answer, their time runs out by itself."""
    best_effort(lambda: redis().delete(key_of(job_id)), default=0)


def kept() -> list[int]:
    """Return the jobs whose credentials Redis has. Raises RedisError."""
    keys = redis().scan_iter(match=f"{PREFIX}*", count=SCANNED_AT_ONCE)
    return [int(str(key).removeprefix(PREFIX)) for key in keys]


def encrypted_credentials() -> Iterator[EncryptedValue]:
    """Yield the encrypted credentials in Redis. Raises RedisError."""
    for job_id in kept():
        text = redis().get(key_of(job_id))
        if text is not None:
            yield EncryptedValue(
                name=f"game credentials of job {job_id}", text=str(text), replace=partial(swap, job_id, str(text))
            )


def swap(job_id: int, old: str, new: str) -> bool:
    """Replace a job's encrypted credentials and keep their time to live. Return False if they have changed."""
    return bool(redis().eval(SWAP, 1, key_of(job_id), old, new))


def key_of(job_id: int) -> str:
    """Return the Redis key of a job's credentials."""
    return f"{PREFIX}{job_id}"
