"""Broken variants of the service, each without one protection.

They are patched into the processes of a fault run, which must detect them.
"""

import time
from collections.abc import Callable
from copy import copy
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from jobs.enums import CLAIMED, WAITING, Renewal, Status, StopReason
from jobs.execution import verdict
from jobs.execution.shard_results import CollectedShard, ShardResults
from jobs.execution.time_limits import Allowance
from jobs.lifecycle import job_moves, shard_moves
from jobs.models import Job, JobEvent, Shard
from jobs.queue import claims, sweep
from simservice.redis.client import redis


def without_fencing() -> None:
    """Write to a job whatever its current attempt is."""
    for name in ("move", "start_run", "finish"):
        setattr(job_moves, name, _unfenced(getattr(job_moves, name)))

    def renew(job: Job) -> Renewal:
        running = Job.objects.filter(pk=job.pk, status__in=CLAIMED)
        return Renewal.DONE if running.update(lease_expires_at=job_moves.lease_end()) else Renewal.LOST

    job_moves.renew_lease = renew


def _unfenced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of `lifecycle` that uses the job's current attempt instead of the caller's."""

    def unfenced(job: Job, *args: Any, **named: Any) -> Any:
        current = copy(job)
        current.attempt = Job.objects.values_list("attempt", flat=True).get(pk=job.pk)
        result = function(current, *args, **named)
        job.status = current.status
        return result

    return unfenced


def without_lease() -> None:
    """Never recover jobs whose lease has expired."""
    sweep.recover_expired_leases = lambda: 0


def announced_instead_of_claimed() -> None:
    """Run the job that was announced first, without checking that no other worker has claimed it."""

    def take(worker: str, **_: object) -> Job | None:
        job = Job.objects.filter(status__in=WAITING).order_by("id").first()
        if job is None:
            return None
        # Wait until another worker does the same, and until a better job waits, if that happens.
        seen, deadline = f"seen:{job.pk}", time.monotonic() + 5
        better = Job.objects.filter(status__in=WAITING, priority__lt=job.priority)
        redis().incr(seen)
        while time.monotonic() < deadline and not (int(redis().get(seen) or 0) > 1 and better.exists()):
            time.sleep(0.02)
        with transaction.atomic():
            Job.objects.filter(pk=job.pk).update(
                status=Status.STARTING,
                attempt=F("attempt") + 1,
                worker=worker,
                lease_expires_at=job_moves.lease_end(),
            )
            attempt = Job.objects.values_list("attempt", flat=True).get(pk=job.pk)
            JobEvent.objects.create(
                job=job,
                at=Now(),
                from_status=job.status,
                to_status=Status.STARTING,
                attempt=attempt,
                reason=worker,
            )
        return Job.objects.get(pk=job.pk)

    vars(claims)["claim_work"] = take


def without_fencing_of_tries() -> None:
    """Let outdated tries write to their shards."""
    for module, name in (
        (job_moves, "start_run"),
        (shard_moves, "renew_shard"),
        (shard_moves, "end_shard"),
        (shard_moves, "return_shard"),
    ):
        module.SQL[name] = module.SQL[name].replace("AND try_number = %(try_number)s", "", 1)


def merged_without_missing_shards() -> None:
    """Merge the shards with usable reports, leave out the others, and do not count the results."""

    def leave_out(self: ShardResults, shard: Shard, reason: str) -> None:
        self.collected[shard.number] = CollectedShard(shard, None)

    setattr(ShardResults, "_reject", leave_out)  # noqa: B010 - a private method
    # Completed jobs are checked again.
    verdict.incomplete = lambda *_: None


def without_allowances() -> None:
    """Let shards run beyond their allowances, until the supervisor stops them at the job's limit."""

    def stop_reason(self: Allowance) -> StopReason | None:
        return self.stop_request

    Allowance.stop_reason = stop_reason  # type: ignore[method-assign]
    Allowance.has_more_time = lambda self: False  # type: ignore[method-assign]  # noqa: ARG005


VARIANTS: dict[str, Callable[[], None]] = {
    "no fencing": without_fencing,
    "no lease": without_lease,
    "announcement instead of claim": announced_instead_of_claimed,
    "no fencing of tries": without_fencing_of_tries,
    "merge without a missing shard": merged_without_missing_shards,
    "allowance ignored": without_allowances,
}
