"""Estimates of when a waiting job starts, from a snapshot of the queue that each sweep publishes in Redis.

An estimate needs no database query. It is None while there is no snapshot.
"""

import json
import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import accumulate
from statistics import fmean
from typing import Any

from django.conf import settings
from django.db.models import F, QuerySet
from django.utils import timezone

from jobs.enums import CLAIMED, Priority, ShardStatus, Status
from jobs.errors import QueueFull
from jobs.live.progress import percents_of
from jobs.models import CLAIMABLE, Job, Run, Shard
from jobs.queue import position_samples
from jobs.queue.position_samples import Ahead, ExpectedSeconds, Key, PositionSample, PositionSamples
from simservice import worker_heartbeats
from simservice.redis.client import best_effort, redis

# Increase the number when the fields of the snapshot change: during an upgrade, processes of two versions run.
KEY = "queue:snapshot:5"
# The number of live slots, for announcements, which need no other part of the snapshot
SLOTS_KEY = "queue:slots"
KEPT_SECONDS = 10
MEASURED_RUNS = 200
# A slot that runs a shard for another slot's job is expected to be free after this time at the latest.
SHARD_SECONDS = 5.0
# Greater than every id in use.
LAST_ID = 10**18


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Seconds until a job is expected to start, as of `updated_at`."""

    seconds: int
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class QueuePosition:
    """The approximate number of jobs ahead of a waiting job, and the seconds until it starts, None if unknown."""

    ahead: int
    seconds: int | None


@dataclass(frozen=True, kw_only=True)
class QueueSnapshot:
    """The queue at one moment (`taken_at`, Unix seconds). Work is in seconds of one slot.

    `marks` are in queue order. They contain every job of a queue of up to 1000 jobs, and a sample of a longer
    queue. Sweeps read a long queue in parts; `read_to` is the end of the latest part. `free_in` contains the
    seconds until each of the live `slots` is free, soonest first, without slots whose time cannot be estimated.
    `run_seconds` maps vCPUs to the mean duration of an attempt; it is empty until a run was measured. `length` is
    the number of waiting jobs. For a queue of 5,000 jobs or more, it is counted in the database, up to
    MAX_QUEUE_LENGTH, because `waiting` may be out of date. If that is 0, it is not needed and 0. `paused` contains
    the lanes that operators have paused.
    """

    taken_at: float
    length: int
    waiting: Mapping[str, int]
    marks: list[PositionSample]
    read_to: Key
    slots: int
    free_in: list[float]
    run_seconds: Mapping[str, float]
    oldest_wait_seconds: float
    paused: Sequence[int] = ()

    def estimate(self, job: Job) -> Estimate | None:
        """Return when a waiting job is expected to start, None if unknown."""
        seconds = self.position_of(job).seconds
        if seconds is None:
            return None
        return Estimate(seconds=seconds, updated_at=datetime.fromtimestamp(self.taken_at, UTC))

    def position_of(self, job: Job) -> QueuePosition:
        """Return the position of a waiting job; a claimed job is about to start. A paused lane has no start."""
        if job.status == Status.STARTING:
            return QueuePosition(ahead=0, seconds=0)
        ahead = self.ahead_of(job)
        seconds = None if self.is_paused(job) else self.seconds_until(ahead)
        return QueuePosition(ahead=ahead.jobs, seconds=seconds)

    def is_paused(self, job: Job) -> bool:
        """Return whether operators have paused the lane of a waiting job."""
        return job.status != Status.STARTING and job.priority in self.paused

    def position_of_new(self, priority: Priority) -> QueuePosition:
        """Return the position that a job submitted now would have."""
        return self.position_of(Job(pk=LAST_ID, priority=priority))

    def seconds_until(self, ahead: Ahead) -> int | None:
        """Return the seconds until a slot is free for the job behind the jobs ahead, None if unknown.

        A slot is free once every job ahead has a slot and another one is idle, or once all work ahead is done.
        """
        moments = self.free_in[ahead.jobs : ahead.jobs + 1]
        if self.run_seconds:
            # The minimum over the number of slots that share the work; each first finishes its own job.
            sums = enumerate(accumulate(self.free_in), start=1)
            moments += [(ahead.work_seconds + total) / count for count, total in sums]
        return math.ceil(min(moments)) if moments else None

    def ahead_of(self, job: Job) -> Ahead:
        """Return the jobs and work ahead of a waiting job, without those of better lanes that are paused."""
        ahead = position_samples.ahead_of(self.marks, (job.priority, job.pk))
        for lane in self.paused:
            if lane < job.priority:
                first, last = (position_samples.ahead_of(self.marks, (lane, key)) for key in (0, LAST_ID))
                work_seconds = ahead.work_seconds - (last.work_seconds - first.work_seconds)
                ahead = Ahead(ahead.jobs - (last.jobs - first.jobs), work_seconds)
        return ahead


def estimated_start(job: Job) -> Estimate | None:
    """Return when a waiting job is expected to start, None if that is unknown, or it is paused or not waiting."""
    if not job.is_waiting or job.is_paused:
        return None
    if job.status == Status.STARTING:
        return Estimate(seconds=0, updated_at=job.updated_at)
    snapshot = current()
    return snapshot.estimate(job) if snapshot else None


def require_open_queue() -> None:
    """Raise QueueFull if the queue has reached MAX_QUEUE_LENGTH. Without a snapshot, the queue counts as open."""
    snapshot = current() if settings.MAX_QUEUE_LENGTH else None
    if snapshot and snapshot.length >= settings.MAX_QUEUE_LENGTH:
        raise QueueFull


def current() -> QueueSnapshot | None:
    """Return the last published snapshot, or None."""
    stored = best_effort(lambda: redis().get(KEY), default=None)
    return None if stored is None else _parse(str(stored))


@lru_cache(maxsize=1)
def _parse(text: str) -> QueueSnapshot:
    """Parse a published snapshot. The last one is cached, so it is parsed once between two sweeps."""
    fields: dict[str, Any] = json.loads(text)
    parsed = {"marks": [PositionSample(*mark) for mark in fields["marks"]], "read_to": tuple(fields["read_to"])}
    return QueueSnapshot(**fields | parsed)


def publish(*, paused: Sequence[int] = ()) -> None:
    """Store a new snapshot in Redis; it expires after a few sweeps. Does nothing if Redis does not respond.

    `paused` are the lanes that operators have paused.
    """
    slots = live_slots()
    if slots is not None:
        _store(take(slots=slots, previous=current(), paused=paused))


def publish_idle(*, latest_run: int | None, paused: Sequence[int] = ()) -> None:
    """Store a snapshot without unfinished jobs, as `publish` does. One query, or none if no run has ended since.

    `latest_run` is the id of the latest run that has ended, None if there is none.
    """
    slots = live_slots()
    if slots is not None:
        _store(take_idle(slots=slots, latest_run=latest_run, paused=paused))


def _store(snapshot: QueueSnapshot) -> None:
    """Store a snapshot in Redis for a few sweeps."""
    text = json.dumps(asdict(snapshot))
    seconds = max(KEPT_SECONDS, settings.SWEEP_SECONDS * 5)
    with redis().pipeline(transaction=False) as pipe:
        pipe.set(KEY, text, ex=seconds)
        pipe.set(SLOTS_KEY, snapshot.slots, ex=seconds)
        best_effort(pipe.execute, default=[])


def live_slots() -> int | None:
    """Return how many simulations the live workers can run at a time, None if Redis does not respond."""
    return best_effort(lambda: worker_heartbeats.total_slots(worker_heartbeats.simulation_workers()), default=None)


def take(*, slots: int, previous: QueueSnapshot | None = None, paused: Sequence[int] = ()) -> QueueSnapshot:
    """Return a snapshot of the queue with this number of live slots, given the previous one.

    At most seven queries and one request to Redis.
    """
    run_seconds = _measured_run_seconds()
    marks = PositionSamples(marks=previous.marks, read_to=previous.read_to) if previous else PositionSamples()
    queue = position_samples.read(marks, _expected_by_width(run_seconds))
    claimed = Job.objects.filter(status__in=CLAIMED)
    needed = ("id", "attempt", "vcpus", "parallel_slots", "started_at", "ceiling_runtime_seconds")
    return QueueSnapshot(
        taken_at=time.time(),
        length=_length(queue.marks),
        waiting=_lane_lengths(queue.marks),
        marks=list(queue.marks),
        read_to=queue.read_to,
        slots=slots,
        free_in=_seconds_until_free(list(claimed.only(*needed)), run_seconds=run_seconds, slots=slots),
        run_seconds=run_seconds,
        oldest_wait_seconds=oldest_wait_seconds(),
        paused=paused,
    )


def take_idle(*, slots: int, latest_run: int | None, paused: Sequence[int] = ()) -> QueueSnapshot:
    """Return the snapshot of `take` for a queue without unfinished jobs."""
    return QueueSnapshot(
        taken_at=time.time(),
        length=0,
        waiting=_lane_lengths([]),
        marks=[],
        read_to=position_samples.START,
        slots=slots,
        free_in=[0.0] * slots,
        run_seconds=_run_seconds_as_of(latest_run),
        oldest_wait_seconds=0.0,
        paused=paused,
    )


@lru_cache(maxsize=1)
def _run_seconds_as_of(_latest_run: int | None) -> dict[str, float]:
    """Return the measured run seconds, cached until a newer run has ended. Call only while no run is unfinished."""
    return _measured_run_seconds()


def _measured_run_seconds() -> dict[str, float]:
    """Return the mean simulator seconds of recent attempts by the number of vCPUs.

    The runs of an attempt are summed, because shards of one job could all run on one slot. An attempt with shards
    can have hundreds of runs, so the latest MEASURED_RUNS can belong to only one or two attempts.
    """
    runs = Run.objects.filter(wall_ms__isnull=False).order_by("-id")[:MEASURED_RUNS]
    attempts: dict[tuple[int, int, int], float] = defaultdict(float)
    for vcpus, job_id, attempt, wall_ms in runs.values_list("job__vcpus", "job_id", "attempt", "wall_ms"):
        attempts[vcpus, job_id, attempt] += (wall_ms or 0) / 1000
    widths = {vcpus for vcpus, _, _ in attempts}
    return {str(width): fmean(s for key, s in attempts.items() if key[0] == width) for width in sorted(widths)}


def _expected_seconds(run_seconds: Mapping[str, float], vcpus: int) -> float:
    """Return the expected duration of a job: the mean for its vCPUs, else of all; 0 if none was measured."""
    return run_seconds.get(str(vcpus), _overall_mean(run_seconds))


def _overall_mean(run_seconds: Mapping[str, float]) -> float:
    """Return the mean over all numbers of vCPUs, 0 if none was measured."""
    return fmean(run_seconds.values()) if run_seconds else 0.0


def helpers() -> QuerySet[Shard]:
    """Return the running shards of helpers, without those of lost attempts."""
    running = Shard.objects.filter(status=ShardStatus.RUNNING, seat__gt=0)
    return running.filter(stage__job__status__in=CLAIMED, stage__attempt=F("stage__job__attempt"))


def _helped_jobs(claimed: Sequence[Job]) -> list[int]:
    """Return the id of the job that each helping slot works on."""
    if all(job.parallel_slots == 1 for job in claimed):
        return []
    return list(helpers().values_list("stage__job_id", flat=True))


def _seconds_until_free(claimed: Sequence[Job], *, run_seconds: Mapping[str, float], slots: int) -> list[float]:
    """Return the seconds until each slot is free, soonest first, without slots that cannot be estimated.

    A slot that helps a job is free when its shard ends, because the slot then claims a waiting job first.
    """
    remaining = {
        job.pk: _remaining_seconds(job, run_seconds, percent=percent)
        for job, percent in zip(claimed, percents_of(claimed), strict=True)
    }
    ends = (remaining.get(job_id) for job_id in _helped_jobs(claimed))
    helping = [SHARD_SECONDS if seconds is None else min(SHARD_SECONDS, seconds) for seconds in ends]
    idle = [0.0] * (slots - len(claimed) - len(helping))
    return sorted([*idle, *helping, *(seconds for seconds in remaining.values() if seconds is not None)])[:slots]


def _remaining_seconds(job: Job, run_seconds: Mapping[str, float], *, percent: float) -> float | None:
    """Return how many more seconds a claimed job runs, within its ceiling, None if unknown.

    Estimated from its progress, or else from the duration of other jobs.
    """
    now = timezone.now()
    elapsed = (now - (job.started_at or now)).total_seconds()
    if percent:
        total = elapsed * 100 / percent
    elif run_seconds:
        total = _expected_seconds(run_seconds, job.vcpus)
    else:
        return None
    return max(min(total, job.ceiling_runtime_seconds) - elapsed, 0.0)


def _expected_by_width(run_seconds: Mapping[str, float]) -> ExpectedSeconds:
    """Return the expected durations of jobs by their vCPUs."""
    widest = max(map(int, run_seconds), default=0)
    by_width = [_expected_seconds(run_seconds, width) for width in range(1, widest + 1)]
    return ExpectedSeconds(by_width, _overall_mean(run_seconds))


def _length(read: Sequence[PositionSample]) -> int:
    """Return the number of waiting jobs, given the marks.

    A queue that a sweep may not have read completely is counted, up to MAX_QUEUE_LENGTH.
    """
    length = read[-1].position if read else 0
    if length < position_samples.FRONT_JOBS:
        return length
    return Job.objects.filter(CLAIMABLE)[: settings.MAX_QUEUE_LENGTH].count()


def _lane_lengths(marks: Sequence[PositionSample]) -> dict[str, int]:
    """Return how many jobs wait in each lane."""
    last = {mark.priority: mark.position for mark in marks}
    counts, before = {}, 0
    for priority in Priority:
        end = last.get(priority, before)
        counts[priority.api_name], before = end - before, end
    return counts


def waiting_in(priority: Priority) -> QuerySet[Job]:
    """Return the waiting jobs of a lane in order.

    The range condition and the two-column order make PostgreSQL use the index of waiting jobs. Otherwise, it would
    scan all jobs in the order of their ids when a lane is empty.
    """
    lane = Job.objects.filter(CLAIMABLE, priority__range=(priority, priority))
    return lane.order_by("priority", "id")


def oldest_wait_seconds() -> float:
    """Return the seconds since the earliest submission of a waiting job, 0 if none waits.

    A job that returned to the queue has not waited all this time.
    """
    heads = [waiting_in(priority).values_list("created_at", flat=True)[:1] for priority in Priority]
    submitted = list(heads[0].union(*heads[1:], all=True))
    return (timezone.now() - min(submitted)).total_seconds() if submitted else 0.0
