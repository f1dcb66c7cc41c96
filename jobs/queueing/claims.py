"""Claims of work by slots: waiting jobs, and shards of jobs that run on other slots."""

from jobs import lifecycle
from jobs.models import Job, ShardedStage
from jobs.shards import executables, moves
from jobs.shards.moves import ClaimedShard
from jobs.skipped import Skipped

# Branches without any build on this machine. A job that returns to the queue is the best one again, so without this
# list, it would keep the slots from all other jobs.
branches_without_builds = Skipped[str](seconds=300)


def claim(worker: str) -> Job | ClaimedShard | None:
    """Claim and return the best waiting job or shard, or None.

    A shard comes after all waiting jobs of its job's priority or a better one, and before those of a worse one
    (`docs/reference/contract.md#parallel-slots`). Branches without a build on this machine,
    and stages that it cannot help with, are left to others.
    """
    skipped, branches = executables.skipped.current(), branches_without_builds.current()
    while True:
        if (job := lifecycle.claim(worker, skipped_stages=skipped, skipped_branches=branches)) is not None:
            return job
        stage_id = moves.find_open(skipped)
        if stage_id is None:
            return None
        if _can_help(stage_id) and (shard := moves.claim(stage_id, worker=worker, conducts=False)) is not None:
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
