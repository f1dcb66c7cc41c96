"""When a waiting job will start: the sweep publishes a snapshot of the queue, and every estimate is made from it.

The snapshot is a hint in Redis. An estimate asks the database nothing, and is None while there is no snapshot.
"""

import json
import math
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import accumulate
from statistics import fmean
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection
from django.utils import timezone

from jobs.enums import HELD, WAITING, Priority, Status
from jobs.errors import QueueFull
from jobs.models import Job, Run
from jobs.progress import percents_of
from simservice.redis import worker_heartbeats
from simservice.redis.client import best_effort, redis

# Change the number with the snapshot's fields: during an upgrade, processes of two versions run.
KEY = "queue:snapshot:2"
KEPT_SECONDS = 10
MEASURED_RUNS = 200
MAX_MARKS = 1000
# After every id that was given out.
LAST_ID = 10**18

# Each lane's last job and every so many others, with the jobs and the seconds of work up to and with each.
MARKS = """
    SELECT priority, id, position, work FROM (
        SELECT priority, id, row_number() OVER line AS position, count(*) OVER () AS total,
            sum(coalesce((%s::float8[])[vcpus], %s)) OVER line AS work,
            lead(priority) OVER line IS DISTINCT FROM priority AS ends_lane
        FROM jobs_job WHERE status IN ('pending', 'queued')
        WINDOW line AS (ORDER BY priority, id ROWS UNBOUNDED PRECEDING)
    ) AS waiting WHERE ends_lane OR position %% ((total - 1) / %s + 1) = 0
    ORDER BY position
"""


class Mark(NamedTuple):
    """A waiting job whose place is known: how many jobs, and seconds of work, there are up to and with it."""

    priority: int
    job_id: int
    position: int
    work_seconds: float


class Ahead(NamedTuple):
    """What comes before a job: so many jobs, and seconds of work."""

    jobs: int
    work_seconds: float


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """In how many seconds a job is expected to start, as seen at `updated_at`."""

    seconds: int
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class Place:
    """How many jobs start before a waiting job, about, and in how many seconds it does, None when unknown."""

    ahead: int
    seconds: int | None


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The queue at one moment (`taken_at`, Unix seconds). Work is in seconds of one slot.

    `marks` are in the queue's order: every waiting job up to a thousand, and a sample of more. `free_in` has the
    seconds until each of the live `slots` is free, soonest first; unknown ones are left out. `run_seconds` has the
    mean run of each plan width, in vCPUs; it is empty until a run has been measured.
    """

    taken_at: float
    waiting: Mapping[str, int]
    marks: list[Mark]
    slots: int
    free_in: list[float]
    run_seconds: Mapping[str, float]
    oldest_wait_seconds: float

    def estimate(self, job: Job) -> Estimate | None:
        """Return when a waiting job will start; None when no worker lives or no run was ever measured."""
        seconds = self.place_of(job).seconds
        if seconds is None:
            return None
        return Estimate(seconds=seconds, updated_at=datetime.fromtimestamp(self.taken_at, UTC))

    def place_of(self, job: Job) -> Place:
        """Return a waiting job's place in the queue; a claimed job is about to start."""
        if job.status == Status.STARTING:
            return Place(ahead=0, seconds=0)
        ahead = self.ahead_of(job)
        return Place(ahead=ahead.jobs, seconds=self.seconds_until(ahead))

    def place_of_new(self, priority: Priority) -> Place:
        """Return where a job of a priority would stand that was submitted now."""
        return self.place_of(Job(pk=LAST_ID, priority=priority))

    def seconds_until(self, ahead: Ahead) -> int | None:
        """Return in how many seconds a slot is free for the job behind the jobs ahead; None if unknown.

        That is when each job ahead has a slot and one more is free, or when the slots have done all work ahead.
        """
        moments = self.free_in[ahead.jobs : ahead.jobs + 1]
        if self.run_seconds:
            # The minimum over the number of slots that help: each further slot first has to finish its own work.
            sums = enumerate(accumulate(self.free_in), start=1)
            moments += [(ahead.work_seconds + total) / count for count, total in sums]
        return math.ceil(min(moments)) if moments else None

    def ahead_of(self, job: Job) -> Ahead:
        """Return what starts before a job. Between two marks a job's id tells its place, about."""
        place = bisect_left(self.marks, (job.priority, job.pk))
        before = self.marks[place - 1] if place else Mark(-1, 0, 0, 0.0)
        after = self.marks[place] if place < len(self.marks) else None
        if after is None or after.priority != job.priority:
            # Submitted after the snapshot was taken.
            return Ahead(before.position, before.work_seconds)
        between = after.position - before.position - 1
        passed = (job.pk - before.job_id) / (after.job_id - before.job_id)
        share = passed if before.priority == job.priority else 0.5
        jobs = round(between * share)
        work = (after.work_seconds - before.work_seconds) * jobs / (between + 1)
        return Ahead(before.position + jobs, before.work_seconds + work)


def estimated_start(job: Job) -> Estimate | None:
    """Return when a waiting job is expected to start, or None when that is unknown. No database query."""
    if job.status == Status.STARTING:
        return Estimate(seconds=0, updated_at=job.updated_at)
    snapshot = current()
    return snapshot.estimate(job) if snapshot else None


def require_open_queue() -> None:
    """Raise QueueFull when as many jobs wait as may. What is not known does not stop a submission."""
    snapshot = current() if settings.MAX_QUEUE_LENGTH else None
    if snapshot and sum(snapshot.waiting.values()) >= settings.MAX_QUEUE_LENGTH:
        raise QueueFull


def current() -> Snapshot | None:
    """Return the last published snapshot, or None when there is none."""
    stored = best_effort(lambda: redis().get(KEY), default=None)
    return None if stored is None else read(str(stored))


@lru_cache(maxsize=1)
def read(text: str) -> Snapshot:
    """Return the snapshot that a text stands for; all who ask between two sweeps get the same."""
    fields: dict[str, Any] = json.loads(text)
    return Snapshot(**fields | {"marks": [Mark(*mark) for mark in fields["marks"]]})


def publish() -> None:
    """Take a snapshot and leave it in Redis for a few rounds of the sweep."""
    slots = live_slots()
    if slots is None:
        return
    text = json.dumps(asdict(take(slots=slots)))
    kept = max(KEPT_SECONDS, settings.SWEEP_SECONDS * 5)
    best_effort(lambda: redis().set(KEY, text, ex=kept), default=None)


def live_slots() -> int | None:
    """Return how many simulations the live workers can run at a time; None if Redis does not answer."""
    return best_effort(lambda: worker_heartbeats.total_slots(worker_heartbeats.simulation_workers()), default=None)


def take(*, slots: int) -> Snapshot:
    """Return a snapshot of the queue, with this many live slots. Four queries and one request to Redis."""
    run_seconds = measured_run_seconds()
    marks = read_marks(run_seconds)
    return Snapshot(
        taken_at=time.time(),
        waiting=lengths(marks),
        marks=marks,
        slots=slots,
        free_in=free_in(held_jobs(), run_seconds=run_seconds, slots=slots),
        run_seconds=run_seconds,
        oldest_wait_seconds=oldest_wait_seconds(),
    )


def measured_run_seconds() -> dict[str, float]:
    """Return the mean simulator seconds of a recent attempt, by the job's vCPUs."""
    runs = Run.objects.filter(wall_ms__isnull=False).order_by("-id")[:MEASURED_RUNS]
    attempts: dict[tuple[int, int, int], float] = defaultdict(float)
    for vcpus, job_id, attempt, wall_ms in runs.values_list("job__vcpus", "job_id", "attempt", "wall_ms"):
        attempts[vcpus, job_id, attempt] += (wall_ms or 0) / 1000
    widths = {vcpus for vcpus, _, _ in attempts}
    return {str(width): fmean(s for key, s in attempts.items() if key[0] == width) for width in sorted(widths)}


def expected_seconds(run_seconds: Mapping[str, float], vcpus: int) -> float:
    """Return how long a job of a width runs: as others of it did, else as all did, 0 when none did."""
    return run_seconds.get(str(vcpus), overall(run_seconds))


def overall(run_seconds: Mapping[str, float]) -> float:
    """Return the mean over all widths, 0 when nothing was measured."""
    return fmean(run_seconds.values()) if run_seconds else 0.0


def held_jobs() -> list[Job]:
    """Return the jobs that workers have claimed. One query."""
    held = Job.objects.filter(status__in=HELD)
    return list(held.only("id", "attempt", "vcpus", "started_at", "ceiling_runtime_seconds"))


def free_in(held: Sequence[Job], *, run_seconds: Mapping[str, float], slots: int) -> list[float]:
    """Return in how many seconds each slot is free, soonest first; slots that cannot be estimated are left out."""
    idle = [0.0] * (slots - len(held))
    left = (remaining_seconds(job, run_seconds, percent=percent) for job, percent in with_percents(held))
    return sorted([*idle, *(seconds for seconds in left if seconds is not None)])[:slots]


def with_percents(jobs: Sequence[Job]) -> Iterator[tuple[Job, float]]:
    """Yield jobs with their progress in percent."""
    return zip(jobs, percents_of(jobs), strict=True)


def remaining_seconds(job: Job, run_seconds: Mapping[str, float], *, percent: float) -> float | None:
    """Return how many more seconds a claimed job runs, at most until its ceiling; None if unknown.

    The estimate uses its progress, or else the duration of other jobs.
    """
    now = timezone.now()
    elapsed = (now - (job.started_at or now)).total_seconds()
    if percent:
        total = elapsed * 100 / percent
    elif run_seconds:
        total = expected_seconds(run_seconds, job.vcpus)
    else:
        return None
    return max(min(total, job.ceiling_runtime_seconds) - elapsed, 0.0)


def read_marks(run_seconds: Mapping[str, float]) -> list[Mark]:
    """Return the queue's marks. One scan of the index on waiting jobs."""
    widest = max(map(int, run_seconds), default=0)
    by_width = [expected_seconds(run_seconds, width) for width in range(1, widest + 1)]
    with connection.cursor() as cursor:
        cursor.execute(MARKS, [by_width, overall(run_seconds), MAX_MARKS])
        return [Mark(*row) for row in cursor.fetchall()]


def lengths(marks: list[Mark]) -> dict[str, int]:
    """Return how many jobs wait in each lane."""
    last = {mark.priority: mark.position for mark in marks}
    counts, before = {}, 0
    for priority in Priority:
        upto = last.get(priority, before)
        counts[priority.name.lower()], before = upto - before, upto
    return counts


def oldest_wait_seconds() -> float:
    """Return how long the job that was submitted first has waited, 0 when none waits. One query."""
    lanes = [Job.objects.filter(status__in=WAITING, priority=priority) for priority in Priority]
    heads = [lane.order_by("id").values_list("created_at", flat=True)[:1] for lane in lanes]
    submitted = list(heads[0].union(*heads[1:], all=True))
    return (timezone.now() - min(submitted)).total_seconds() if submitted else 0.0
