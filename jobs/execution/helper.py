"""Run one shard of a job that another slot claimed."""

import logging
import time
from collections import deque
from contextlib import suppress

from django.db import Error as DatabaseError
from django.db.models import F

from jobs.artifacts.artifact_files import NotStored
from jobs.enums import CLAIMED
from jobs.errors import GivesUp, WorkerStops
from jobs.execution import progress, shard_plan
from jobs.execution.lease import LeaseLost
from jobs.execution.machine import LOST_PAUSE_SECONDS, MachineFault, RunLost, machine
from jobs.execution.simulator_run import Callbacks, ShardRun
from jobs.execution.time_limits import Allowance
from jobs.lifecycle import shard_moves
from jobs.lifecycle.shard_moves import ClaimedShard
from jobs.models import ShardedStage
from jobs.queue import executables
from simc.progress import FinishedRun, ProgressMeter
from simservice.telemetry import tracing
from simservice.telemetry.known_errors import machine_problem
from simservice.telemetry.logs import log_ids

logger = logging.getLogger(__name__)


def execute(shard: ClaimedShard) -> None:
    """Run a claimed shard to its end, or give it up. The conductor notices how it ended."""
    # The attempt may have ended since the claim of the shard, and another one may have begun.
    current = ShardedStage.objects.select_related("job", "build").filter(
        job__attempt=F("attempt"), job__status__in=CLAIMED
    )
    stage = current.filter(pk=shard.stage_id).first()
    if stage is None:
        with suppress(DatabaseError):
            shard_moves.return_shard(shard, losses=0)
        return
    name = f"job {stage.job_id} attempt {stage.attempt} shard {shard.number}"
    allowance = Allowance(stage.job, shard, slice_ms=stage.slice_ms)
    with (
        log_ids(**stage.job.log_ids),
        tracing.span("help", kind="CONSUMER", parent=stage.job.trace_parent, job_id=stage.job_id),
        allowance.lease,
    ):
        try:
            with machine.counts_failures():
                _run(shard, stage, allowance)
        except LeaseLost:
            # If the attempt ended before the simulator started, the shard waits for the next attempt.
            logger.warning("%s is given up: it belongs to another try, or its attempt is over", name)
            with suppress(DatabaseError):
                shard_moves.return_shard(shard, losses=0)
        except GivesUp as error:
            _return(shard, error)
        except DatabaseError:
            # The lease expires, and the conductor returns the shard to the queue.
            logger.exception("%s is given up: its end cannot be recorded", name)
        except Exception as error:
            logger.exception("%s failed with an internal error", name)
            _return(shard, error)


def _run(shard: ClaimedShard, stage: ShardedStage, allowance: Allowance) -> None:
    """Run a shard and publish its progress and finished runs. Raises what `run_shard` raises."""
    meter = ProgressMeter(expected_phases=1 + shard.profilesets)
    runs: deque[FinishedRun] = deque(maxlen=shard.profilesets)

    def on_line(stream: str, text: str) -> None:
        if stream == "stdout":
            meter.feed(text)
            runs.extend(meter.take_finished())

    def publish() -> None:
        progress.publish_shard(stage, number=shard.number, percent=meter.percent, runs=runs)

    callbacks = Callbacks(on_line=on_line, actions=[publish])
    try:
        ShardRun(shard, stage, allowance, callbacks).run_shard(shard_plan.input_of(shard, stage))
    except (OSError, RuntimeError) as error:
        if problem := machine_problem(error):
            raise MachineFault(problem) from error
        raise
    machine.record_success()
    publish()


def _return(shard: ClaimedShard, error: Exception) -> None:
    """Return a shard to its stage's queue, and count a loss unless the error has a reason to requeue.

    Unless it shuts down, this worker leaves the stage to others for a while: its build may work on the conductor's
    machine, and a machine whose storage fails would lose the same shard three times within a second, and thus the
    job. If the database is unavailable, the lease expires instead.
    """
    reason = error.requeue_reason if isinstance(error, GivesUp) else None
    logger.warning("shard %s of stage %s is returned: %s", shard.number, shard.stage_id, str(error) or reason)
    if not isinstance(error, WorkerStops):
        executables.skipped.add(shard.stage_id)
    with suppress(DatabaseError):
        shard_moves.return_shard(shard, losses=0 if reason else 1)
    if isinstance(error, RunLost | NotStored):
        time.sleep(LOST_PAUSE_SECONDS)
