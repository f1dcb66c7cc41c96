"""A running job's progress: a hint in Redis, written at most twice a second, gone when Redis is emptied."""

import json
import time
from dataclasses import asdict, dataclass

from jobs.models import Job, Status
from simservice.hints import ask, redis

PUBLISHED_EVERY_SECONDS = 0.5
KEPT_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of an attempt: its number, how many there are, its label, and its own percent."""

    current: int
    total: int
    label: str
    percent: float


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a job is: 0 to 100 percent overall, and the stage it is in."""

    percent: float
    stage: Stage | None


class Publisher:
    """Publishes an attempt's progress. The attempt is part of the key, so a stale attempt shows nowhere."""

    def __init__(self, job: Job) -> None:
        self.key = key_of(job)
        self.next_at = 0.0

    def publish(self, progress: Progress) -> None:
        """Store progress unless the last was stored less than half a second ago."""
        now = time.monotonic()
        if now < self.next_at:
            return
        self.next_at = now + PUBLISHED_EVERY_SECONDS
        text = json.dumps(asdict(progress))
        ask(lambda: redis().set(self.key, text, ex=KEPT_SECONDS), otherwise=None)


def key_of(job: Job) -> str:
    """Return the Redis key of an attempt's progress."""
    return f"progress:{job.pk}:{job.attempt}"


def progress_of(job: Job) -> Progress:
    """Return a job's progress: nothing before it runs, all of it once completed, else what Redis has."""
    if job.status == Status.COMPLETED:
        return Progress(percent=100, stage=None)
    if job.status != Status.RUNNING:
        return Progress(percent=0, stage=None)
    stored = ask(lambda: redis().get(key_of(job)), otherwise=None)
    if stored is None:
        return Progress(percent=0, stage=None)
    fields = json.loads(str(stored))
    return Progress(percent=fields["percent"], stage=fields["stage"] and Stage(**fields["stage"]))
