"""Claims of work by slots: waiting jobs, and shards of jobs that run on other slots."""

import time
from collections.abc import Sequence

from jobs.enums import LaneRange, Priority
from jobs.lifecycle import job_moves, shard_moves
from jobs.lifecycle.shard_moves import ClaimedShard
from jobs.models import Job, ShardedStage
from jobs.queue import executables
from jobs.queue.expiring_set import ExpiringSet

# Branches without any build on this machine. A job that returns to the queue is the best one again, so without this
# list, it would keep the slots from all other jobs.
branches_without_builds = ExpiringSet[str](seconds=300)
# How long first ids are used. A job that is stored late, below them, waits this much longer.
FIRST_IDS_SECONDS = 2.0


class FirstIds:
    """The id in each lane from which claims search, read again every FIRST_IDS_SECONDS. Threads can share it."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._until = float("-inf")

    def current(self) -> dict[int, int]:
        """Return the first ids. Some calls take one statement."""
        if time.monotonic() > self._until:
            self._known, self._until = job_moves.find_first_ids(), time.monotonic() + FIRST_IDS_SECONDS
        return self._known


first_ids = FirstIds()


def claim_work(worker: str, *, lanes: Sequence[Priority] = tuple(Priority)) -> Job | ClaimedShard | None:
    """Claim and return the best waiting job or shard in `lanes`, or None.

    A shard comes after all waiting jobs of its job's priority or a better one, and before those of a worse one
    (`docs/reference/api.md#parallel-slots`). Branches without a build on this machine, and stages that it
    cannot help with, are left to others.
    """
    for adjacent in _ranges(lanes):
        if (claimed := _claim(worker, adjacent)) is not None:
            return claimed
    return None


def _ranges(lanes: Sequence[Priority]) -> list[LaneRange]:
    """Return lanes as ranges, the best first. One index search finds the best job of a range."""
    ranges: list[LaneRange] = []
    for lane in lanes:
        if ranges and ranges[-1].last == lane - 1:
            ranges[-1] = LaneRange(ranges[-1].first, lane)
        else:
            ranges.append(LaneRange(lane, lane))
    return ranges


def _claim(worker: str, lanes: LaneRange) -> Job | ClaimedShard | None:
    """Claim and return the best waiting job or shard in a range of lanes, or None."""
    skipped, branches = executables.skipped.current(), branches_without_builds.current()
    while True:
        job = job_moves.claim_job(
            worker,
            lanes=lanes,
            skipped_stages=skipped,
            skipped_branches=branches,
            first_ids=first_ids.current(),
        )
        if job is not None:
            return job
        stage_id = shard_moves.find_open_stage(skipped, lanes=lanes)
        if stage_id is None:
            return None
        if _can_help(stage_id):
            shard = shard_moves.claim_shard(stage_id, worker=worker, lanes=lanes)
            if shard is not None:
                return shard
        # Another slot was faster, or a job that comes first is being claimed.
        skipped.add(stage_id)


def _can_help(stage_id: int) -> bool:
    """Return whether this machine has the stage's build. If not, skip the stage for a while."""
    stage = ShardedStage.objects.select_related("build").defer("base_text").filter(pk=stage_id).first()
    if stage is not None and executables.is_same(stage):
        return True
    executables.skipped.add(stage_id)
    return False
