"""The sharded stages that earlier attempts of a job left: which of them this attempt can continue."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial

from jobs.enums import TERMINAL
from jobs.execution import shard_files, shard_plan
from jobs.execution.lease import Lease, LeaseLost
from jobs.execution.shard_plan import ShardPlan
from jobs.execution.simulator_run import tried_twice
from jobs.lifecycle import shard_moves
from jobs.models import Build, Job, ShardedStage
from jobs.planning.multistage import Stage
from jobs.queue import executables
from simc.profiles.analysis import Analysis


class KeptStages:
    """The stages of earlier attempts, by number."""

    def __init__(self, job: Job, build: Build, lease: Lease, *, may_exist: bool) -> None:
        """Read the stages if there may be any. One query, else none."""
        self.job, self.build, self.lease = job, build, lease
        self.stages: dict[int, ShardedStage] = {}
        if may_exist:
            # A version before adoption can have left more than one row of a stage.
            rows = lease.retry(lambda: list(ShardedStage.objects.filter(job=job).order_by("attempt")))
            self.stages = {row.stage: row for row in rows}

    def plan(
        self,
        stage: Stage,
        *,
        text: str,
        analysis: Analysis,
        culled: AbstractSet[str],
        replicates: Mapping[str, str],
    ) -> ShardPlan | None:
        """Return the plan that continues a stage, or None if it has to start.

        If its rows cannot be continued, they and those of later stages are removed. At most one query unless they
        are. Raises LeaseLost, BuildBroken or a database error.
        """
        kept = self.stages.get(stage.number)
        if kept is None:
            return None
        if not self._has_same_build(kept):
            self._start_again(stage, "its build is no longer available on this machine")
            return None
        kept.job, kept.build = self.job, self.build
        shards = self.lease.retry(
            lambda: list(kept.shards.order_by("number").only("number", "text", "profilesets"))
        )
        plan = shard_plan.continued(
            kept, shards, stage, text=text, analysis=analysis, culled=culled, replicates=replicates
        )
        if plan is None:
            self._start_again(stage, "it has other profilesets than before")
        return plan

    def _has_same_build(self, kept: ShardedStage) -> bool:
        """Return whether a stage ran on the same file as this attempt would. Raises LeaseLost or BuildBroken."""
        if kept.build_id != self.build.pk:
            return False
        sha256_of = partial(executables.sha256_of, self.build)
        return tried_twice(sha256_of, OSError, lease=self.lease) == kept.executable_sha256

    def _start_again(self, stage: Stage, problem: str) -> None:
        """Remove a stage and later ones with their files, and record why. Raises LeaseLost or a database error."""
        reason = f"stage {stage.number} starts again: {problem}"
        removed = self.lease.retry(lambda: shard_moves.discard_stages(self.job, first=stage.number, reason=reason))
        if removed is None:
            raise LeaseLost
        late = [kept for number, kept in self.stages.items() if number >= stage.number]
        for kept in late:
            tries = {number: tries for stage_id, number, tries in removed if stage_id == kept.pk}
            shard_files.remove_all(kept, tries)
            del self.stages[kept.stage]


def remove(job: Job) -> None:
    """Remove the files and the rows of a job's sharded stages if the job has ended; safe to repeat.

    Raises a database error.
    """
    for stage in ShardedStage.objects.filter(job=job, job__status__in=TERMINAL).defer("base_text"):
        shard_files.remove_all(stage, dict(stage.shards.values_list("number", "try_number")))
        shard_moves.remove_stage(stage.pk)
