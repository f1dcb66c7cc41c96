"""Progress, latest output and preview of running jobs.

They are in Redis, written at most twice a second and only if they changed, and may be lost. The final progress of a
job is in its row.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, cast

from jobs.enums import Status
from jobs.live.preview import Preview, preview_key_of
from jobs.models import Job
from simservice.redis.client import best_effort, redis

PUBLISH_INTERVAL_SECONDS = 0.5
PREVIEW_INTERVAL_SECONDS = 1.0
# Unchanged progress is written again after this time, in case Redis was emptied.
REFRESH_SECONDS = 10.0
KEPT_SECONDS = 600
LISTED_ENTRIES = 200
ENTRY_CHARACTERS = 500


@dataclass(frozen=True, kw_only=True)
class StageProgress:
    """The current stage of an attempt: its number, the number of stages, its label and its progress in percent."""

    current: int
    total: int
    label: str
    percent: float


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of a job, 0 to 100 percent, and its current stage.

    `variants` are the profilesets with figures of any stage, and `widening` is the factor by which their replicates
    differed more than reported. The margins in the preview depend on them. They are not part of the preview,
    because web processes of an earlier version read no preview with further fields.
    """

    percent: float
    stage: StageProgress | None
    variants: int = 0
    widening: float = 1.0


@dataclass(frozen=True, kw_only=True)
class LogEntry:
    """A line that the simulator printed; `ts` is the time in milliseconds since 1970."""

    source: Literal["stdout", "stderr"]
    message: str
    ts: int


# The stream, the text, and the time in seconds since 1970
Line = tuple[str, str, float]


class LogBuffer:
    """Output that is not published yet: the latest complete lines, and the open line of each stream.

    A line that is redrawn, such as a progress bar, is one entry. A hostile simulator can print millions of lines,
    so the methods use only atomic operations on a dict and a deque, and no lock.
    """

    def __init__(self) -> None:
        self.complete: deque[Line] = deque(maxlen=LISTED_ENTRIES)
        self.open: dict[str, Line] = {}

    def update(self, source: str, text: str) -> None:
        """Set the open line of a stream."""
        self.open[source] = (source, text, time.time())

    def end_line(self, source: str) -> None:
        """Complete the open line of a stream."""
        line = self.open.pop(source, None)
        if line is not None:
            self.complete.append(line)

    def take(self) -> tuple[list[Line], list[Line]]:
        """Return the lines completed since the last call, and the open lines. Call from one thread only."""
        complete = [self.complete.popleft() for _ in range(len(self.complete))]
        return complete, list(self.open.values())


class Publisher:
    """Publishes progress, output and preview of an attempt.

    The keys contain the attempt, so a stale one is never shown. `scrub` removes secrets from a text; `preview`
    returns the current preview, None while there is nothing to show.
    """

    def __init__(
        self,
        job: Job,
        *,
        scrub: Callable[[str], str] = str,
        preview: Callable[[], Preview | None] = lambda: None,
    ) -> None:
        self.key, self.log_key, self.preview_key = _key_of(job), log_key_of(job), preview_key_of(job)
        self.scrub, self.preview = scrub, preview
        self.log = LogBuffer()
        self.published: Progress | None = None
        self.open_published: list[Line] = []
        self.preview_published: Preview | None = None
        self.next_at = self.next_preview_at = self.refresh_at = 0.0

    def publish(self, progress: Progress) -> None:
        """Store the progress and the new output, at most every half second.

        If neither has changed, store them only every ten seconds.
        """
        now = time.monotonic()
        if now < self.next_at or (now < self.refresh_at and not self._has_changed(progress)):
            return
        self.next_at = now + PUBLISH_INTERVAL_SECONDS
        best_effort(lambda: self._store(progress), default=None)

    def _has_changed(self, progress: Progress) -> bool:
        """Return whether the progress or the output differs from the stored one."""
        return bool(
            progress != self.published or self.log.complete or list(self.log.open.values()) != self.open_published
        )

    def _store(self, progress: Progress) -> None:
        """Append the new lines; they replace the lines that were open at the last call."""
        complete, still_open = self.log.take()
        entries = [self._as_json(line) for line in (*complete, *still_open)]
        preview = self._new_preview()
        with redis().pipeline() as pipeline:
            pipeline.set(self.key, json.dumps(asdict(progress)), ex=KEPT_SECONDS)
            if self.open_published:
                pipeline.rpop(self.log_key, len(self.open_published))
            if entries:
                pipeline.rpush(self.log_key, *entries)
                pipeline.ltrim(self.log_key, -LISTED_ENTRIES, -1)
            pipeline.expire(self.log_key, KEPT_SECONDS)
            if preview is not None:
                pipeline.set(self.preview_key, preview.as_json(clean=self._clean_name), ex=KEPT_SECONDS)
            pipeline.execute()
        if preview is not None:
            self.preview_published = preview
        self.published, self.open_published = progress, still_open
        self.refresh_at = time.monotonic() + REFRESH_SECONDS

    def _new_preview(self) -> Preview | None:
        """Return the preview if it is time to store it: at most once a second, and only if it changed."""
        now = time.monotonic()
        if now < self.next_preview_at:
            return None
        preview = self.preview()
        if preview is None or (preview == self.preview_published and now < self.refresh_at):
            return None
        self.next_preview_at = now + PREVIEW_INTERVAL_SECONDS
        return preview

    def _as_json(self, line: Line) -> str:
        source, text, printed_at = line
        return json.dumps([source, self._clean(text), round(printed_at * 1000)])

    def _clean_name(self, name: str) -> str:
        """Return a name, whole, without secrets and control characters."""
        return _printable(self.scrub(name))

    def _clean(self, text: str) -> str:
        """Return a text without secrets and control characters, cut to the length of an entry."""
        return _printable(self.scrub(text)[: 2 * ENTRY_CHARACTERS])[:ENTRY_CHARACTERS]


def _printable(text: str) -> str:
    """Return a line without control characters; tabs become spaces."""
    text = text.rstrip().replace("\t", " ")
    return text if text.isprintable() else "".join(filter(str.isprintable, text))


def _key_of(job: Job) -> str:
    return f"progress:{job.pk}:{job.attempt}"


def log_key_of(job: Job) -> str:
    """Return the Redis key of the output of an attempt."""
    return f"log:{job.pk}:{job.attempt}"


def progress_of(job: Job) -> Progress:
    """Return the progress of a job: 0 before it runs, the value in Redis while it runs, then the final value."""
    if job.status == Status.COMPLETED:
        return Progress(percent=100, stage=None)
    if job.is_terminal:
        return Progress(percent=job.percent, stage=None)
    return _published(job) if job.status == Status.RUNNING else Progress(percent=0, stage=None)


def _published(job: Job) -> Progress:
    """Return the last published progress of a running job, 0 if unknown."""
    stored = best_effort(lambda: redis().get(_key_of(job)), default=None)
    if stored is None:
        return Progress(percent=0, stage=None)
    fields = json.loads(str(stored))
    stage = fields["stage"]
    return Progress(
        percent=fields["percent"],
        stage=stage and StageProgress(**stage),
        # Workers of an earlier version do not write them.
        variants=fields.get("variants", 0),
        widening=fields.get("widening", 1.0),
    )


def percents_of(jobs: Sequence[Job]) -> list[float]:
    """Return the published progress of each job in percent, 0 if unknown. One request to Redis."""
    keys = [_key_of(job) for job in jobs]
    unknown: list[str | None] = [None] * len(keys)
    stored = best_effort(lambda: cast(list[str | None], redis().mget(keys)), default=unknown) if keys else unknown
    return [float(json.loads(text)["percent"]) if text else 0.0 for text in stored]


def last_percent(job: Job) -> float:
    """Return the last published progress in percent, for processes that end a job without running it."""
    return _published(job).percent if job.status == Status.RUNNING else 0.0


def log_entries_of(job: Job) -> list[LogEntry] | None:
    """Return the last 200 lines that the simulator printed, None unless the job is running."""
    if job.status != Status.RUNNING:
        return None
    nothing: list[str] = []
    stored = best_effort(
        lambda: cast(list[str], redis().lrange(log_key_of(job), -LISTED_ENTRIES, -1)), default=nothing
    )
    return [LogEntry(source=source, message=message, ts=ts) for source, message, ts in map(json.loads, stored)]
