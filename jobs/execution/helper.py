"""Help with a shard of a job that another slot conducts."""

import logging
import time
from collections import deque
from contextlib import suppress

from django.db import Error as DatabaseError
from django.db.models import F

from jobs.artifacts.artifact_files import NotStored
from jobs.execution import shard_progress
from jobs.execution.conductor import input_of
from jobs.execution.lease import LeaseLost
from jobs.execution.machine import machine
from jobs.execution.shard_lease import ShardLease
from jobs.execution.shard_run import BuildReplaced, ShardRun
from jobs.execution.simulation import BuildBroken, MachineFault, RunLost
from jobs.lifecycle import shard_moves
from jobs.lifecycle.shard_moves import ClaimedShard
from jobs.models import ShardedStage
from jobs.queue import executables
from simc.progress import FinishedRun, ProgressMeter
from simservice.shutdown import WorkerStops
from simservice.telemetry import tracing
from simservice.telemetry.known_errors import machine_problem
from simservice.telemetry.logs import log_ids

logger = logging.getLogger(__name__)

# A pause, so that a slot whose launcher or storage fails does not fail one shard after another.
LOST_PAUSE_SECONDS = 5.0


def execute(shard: ClaimedShard) -> None:
    """Run a claimed shard to its end, or give it up. The conductor notices how it ended."""
    # The job may have been claimed again since the claim of the shard, which then belongs to an earlier attempt.
    current = ShardedStage.objects.select_related("job", "build").filter(job__attempt=F("attempt"))
    stage = current.filter(pk=shard.stage_id).first()
    if stage is None:
        return
    with (
        log_ids(**stage.job.log_ids),
        tracing.span("help", kind="CONSUMER", parent=stage.job.trace_parent, job_id=stage.job_id),
        ShardLease(stage.job, shard, slice_ms=stage.slice_ms) as lease,
    ):
        try:
            with machine.counts_failures():
                _run(shard, stage, lease)
        except LeaseLost:
            logger.warning("%s is given up: it belongs to another try, or its attempt is over", lease)
        except WorkerStops:
            _give_back(shard, reason="the worker was shut down", losses=0)
        except (BuildBroken, BuildReplaced, MachineFault) as error:
            # The build may work on the conductor's machine, so this worker leaves the stage to others.
            executables.skipped.add(stage.pk)
            _give_back(shard, reason=str(error), losses=0)
        except (RunLost, NotStored) as error:
            _lose(shard, reason=str(error))
            time.sleep(LOST_PAUSE_SECONDS)
        except DatabaseError:
            # The lease expires, and the conductor returns the shard to the queue.
            logger.exception("%s is given up: its end cannot be recorded", lease)
        except Exception:
            logger.exception("shard %s failed with an internal error", shard.shard_id)
            _lose(shard, reason="an internal error")


def _run(shard: ClaimedShard, stage: ShardedStage, lease: ShardLease) -> None:
    """Run a shard and publish its progress and finished runs. Raises what `ShardRun.run` raises."""
    meter = ProgressMeter(expected_phases=1 + shard.profilesets)
    runs: deque[FinishedRun] = deque(maxlen=shard.profilesets)

    def on_line(stream: str, text: str) -> None:
        if stream == "stdout":
            meter.feed(text)
            runs.extend(meter.take_finished())

    def publish() -> None:
        shard_progress.publish(stage, number=shard.number, percent=meter.percent, runs=runs)

    run = ShardRun(shard, stage, lease, text=input_of(shard, stage), on_line=on_line, actions=[publish])
    try:
        run.run()
    except (OSError, RuntimeError) as error:
        if problem := machine_problem(error):
            raise MachineFault(problem) from error
        raise
    machine.record_success()
    publish()


def _lose(shard: ClaimedShard, *, reason: str) -> None:
    """Return a shard and count a loss. This worker leaves the stage to others for a while.

    Otherwise, a machine whose disk is full would lose the same shard three times within a second, and thus the job.
    """
    executables.skipped.add(shard.stage_id)
    _give_back(shard, reason=reason, losses=1)


def _give_back(shard: ClaimedShard, *, reason: str, losses: int) -> None:
    """Return a shard to its stage's queue. If the database is unavailable, the lease expires instead."""
    logger.warning("shard %s of stage %s is returned: %s", shard.number, shard.stage_id, reason)
    with suppress(DatabaseError):
        shard_moves.give_back(shard, losses=losses)
