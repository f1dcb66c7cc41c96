"""What a running job shows of itself: its progress and the last lines of its output.

Both are hints in Redis, written at most twice a second, gone when Redis is emptied. The last percent of a job that
ended is in its row.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, cast

from jobs.enums import Status
from jobs.models import Job
from simservice.redis.client import best_effort, redis

PUBLISHED_EVERY_SECONDS = 0.5
KEPT_SECONDS = 600
LISTED_ENTRIES = 200
ENTRY_CHARACTERS = 500


@dataclass(frozen=True, kw_only=True)
class StageProgress:
    """One stage of an attempt: its number, how many there are, its label, and its own percent."""

    current: int
    total: int
    label: str
    percent: float


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a job is: 0 to 100 percent overall, and the stage it is in."""

    percent: float
    stage: StageProgress | None


@dataclass(frozen=True, kw_only=True)
class LogEntry:
    """One line that the simulator printed to `stdout` or `stderr`; `ts` is when, in milliseconds since 1970."""

    source: Literal["stdout", "stderr"]
    message: str
    ts: int


# The stream, the text, and when it was printed, in seconds since 1970.
Line = tuple[str, str, float]


def unchanged(text: str) -> str:
    """Return a text in which there is nothing to hide."""
    return text


class LogBuffer:
    """What was printed since it was last taken: the last lines that are complete, and one open line a stream.

    A line that is redrawn, as a progress bar is, stays one entry. A hostile simulator prints millions of lines, so
    to take one in is two steps that need no lock: each is one operation on a dict or a deque.
    """

    def __init__(self) -> None:
        self.complete: deque[Line] = deque(maxlen=LISTED_ENTRIES)
        self.open: dict[str, Line] = {}

    def update(self, source: str, text: str) -> None:
        """Take a stream's open line as it looks now."""
        self.open[source] = (source, text, time.time())

    def end_line(self, source: str) -> None:
        """Say that a stream's open line is redrawn no more."""
        line = self.open.pop(source, None)
        if line is not None:
            self.complete.append(line)

    def take(self) -> tuple[list[Line], list[Line]]:
        """Return the lines completed since the last time, and those that are open. For one thread only."""
        complete = [self.complete.popleft() for _ in range(len(self.complete))]
        return complete, list(self.open.values())


class Publisher:
    """Publishes an attempt's progress and output. The attempt is part of the keys: a stale one shows nowhere.

    `scrub` takes out of a line what nobody may read.
    """

    def __init__(self, job: Job, *, scrub: Callable[[str], str] = unchanged) -> None:
        self.key, self.log_key = key_of(job), log_key_of(job)
        self.scrub = scrub
        self.log = LogBuffer()
        self.open_published = 0
        self.next_at = 0.0

    def publish(self, progress: Progress) -> None:
        """Store the progress and the output so far, unless that was done less than half a second ago."""
        now = time.monotonic()
        if now < self.next_at:
            return
        self.next_at = now + PUBLISHED_EVERY_SECONDS
        best_effort(lambda: self._store(progress), default=None)

    def _store(self, progress: Progress) -> None:
        """Put the lines behind those stored before, in the place of those that were open then."""
        complete, still_open = self.log.take()
        entries = [self._serialised(line) for line in (*complete, *still_open)]
        with redis().pipeline() as pipeline:
            pipeline.set(self.key, json.dumps(asdict(progress)), ex=KEPT_SECONDS)
            if self.open_published:
                pipeline.rpop(self.log_key, self.open_published)
            if entries:
                pipeline.rpush(self.log_key, *entries)
                pipeline.ltrim(self.log_key, -LISTED_ENTRIES, -1)
            pipeline.expire(self.log_key, KEPT_SECONDS)
            pipeline.execute()
        self.open_published = len(still_open)

    def _serialised(self, line: Line) -> str:
        source, text, printed_at = line
        message = printable(self.scrub(text)[: 2 * ENTRY_CHARACTERS])[:ENTRY_CHARACTERS]
        return json.dumps([source, message, round(printed_at * 1000)])


def printable(text: str) -> str:
    """Return a line without its control characters; tabs become blanks."""
    text = text.rstrip().replace("\t", " ")
    return text if text.isprintable() else "".join(filter(str.isprintable, text))


def key_of(job: Job) -> str:
    """Return the Redis key of an attempt's progress."""
    return f"progress:{job.pk}:{job.attempt}"


def log_key_of(job: Job) -> str:
    """Return the Redis key of an attempt's output."""
    return f"log:{job.pk}:{job.attempt}"


def progress_of(job: Job) -> Progress:
    """Return a job's progress: 0 before it runs, the value in Redis while it runs, then the last value."""
    if job.status == Status.COMPLETED:
        return Progress(percent=100, stage=None)
    if job.is_terminal:
        return Progress(percent=job.percent, stage=None)
    return published(job) if job.status == Status.RUNNING else Progress(percent=0, stage=None)


def published(job: Job) -> Progress:
    """Return the progress that a running job last published; 0 if Redis does not have it."""
    stored = best_effort(lambda: redis().get(key_of(job)), default=None)
    if stored is None:
        return Progress(percent=0, stage=None)
    fields = json.loads(str(stored))
    return Progress(percent=fields["percent"], stage=fields["stage"] and StageProgress(**fields["stage"]))


def percents_of(jobs: Sequence[Job]) -> list[float]:
    """Return the progress of each job from Redis, in percent; 0 if unknown. One request."""
    keys = [key_of(job) for job in jobs]
    nothing: list[str | None] = [None] * len(keys)
    stored = best_effort(lambda: cast(list[str | None], redis().mget(keys)), default=nothing) if keys else nothing
    return [float(json.loads(text)["percent"]) if text else 0.0 for text in stored]


def last_percent(job: Job) -> float:
    """Return the last published percent of a job, for processes that end a job without running it."""
    return published(job).percent if job.status == Status.RUNNING else 0.0


def log_entries_of(job: Job) -> list[LogEntry] | None:
    """Return the last lines, 200 at most, that a job's simulator printed; None unless the job is running."""
    if job.status != Status.RUNNING:
        return None
    nothing: list[str] = []
    stored = best_effort(
        lambda: cast(list[str], redis().lrange(log_key_of(job), -LISTED_ENTRIES, -1)), default=nothing
    )
    return [LogEntry(source=source, message=message, ts=ts) for source, message, ts in map(json.loads, stored)]
