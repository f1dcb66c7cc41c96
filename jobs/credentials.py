"""Game credentials that came along with a job: encrypted, in Redis only, and only for as long as they are needed.

They never touch the database, a message, a log or a command line (specification, Resources; design, section 7).
"""

import json
import logging
from dataclasses import dataclass, field

from cryptography.fernet import InvalidToken, MultiFernet
from django.conf import settings
from redis.exceptions import RedisError

from simservice import sealing
from simservice.api.errors import SecretStoreUnavailable
from simservice.hints import ask, redis

logger = logging.getLogger(__name__)

# Beyond the time that a job may wait and run: for starting it, and for clocks that differ.
SPARE_SECONDS = 600
PREFIX = "credentials:"
SCANNED_AT_ONCE = 1000


@dataclass(frozen=True, kw_only=True)
class GameCredentials:
    """A client of the game platform's API, for one job only."""

    client_id: str = field(repr=False)
    client_secret: str = field(repr=False)


def store(job_id: int, credentials: GameCredentials, *, seconds: int) -> None:
    """Keep a job's credentials for as long as it may wait and run. Raises SecretStoreUnavailable."""
    content = json.dumps([job_id, credentials.client_id, credentials.client_secret])
    sealed = cipher().encrypt(content.encode()).decode()
    # During an outage at once: a caller who waits for Redis holds one of a few threads.
    if not ask(lambda: redis().set(key_of(job_id), sealed, ex=seconds + SPARE_SECONDS), otherwise=None):
        raise SecretStoreUnavailable({"reason": "redis_unavailable"})


def fetch(job_id: int, *, seconds: int) -> GameCredentials | None:
    """Return a job's credentials, None when they are lost, and keep them for so long once more.

    An attempt may be lost, and the next one needs them again. Raises SecretStoreUnavailable.
    """
    try:
        stored = redis().getex(key_of(job_id), ex=seconds + SPARE_SECONDS)
    except RedisError:
        raise SecretStoreUnavailable({"reason": "redis_unavailable"}) from None
    try:
        owner, client_id, client_secret = json.loads(cipher().decrypt(str(stored)))
    except (InvalidToken, ValueError):
        owner = None
    if owner != job_id:
        logger.warning("the credentials of job %s are lost", job_id)
        return None
    return GameCredentials(client_id=client_id, client_secret=client_secret)


def forget(job_id: int) -> None:
    """Remove a job's credentials; where Redis does not answer, their time runs out by itself."""
    ask(lambda: redis().delete(key_of(job_id)), otherwise=0)


def kept() -> list[int]:
    """Return the jobs whose credentials Redis has. Raises RedisError."""
    keys = redis().scan_iter(match=f"{PREFIX}*", count=SCANNED_AT_ONCE)
    return [int(str(key).removeprefix(PREFIX)) for key in keys]


def cipher() -> MultiFernet:
    """Return what encrypts the credentials, with a key made from the deployment's."""
    return sealing.cipher([settings.CREDENTIALS_KEY], purpose="game credentials")


def key_of(job_id: int) -> str:
    """Return the Redis key of a job's credentials."""
    return f"{PREFIX}{job_id}"
