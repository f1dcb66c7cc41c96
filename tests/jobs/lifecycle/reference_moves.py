"""A reference implementation of the frequent moves, with `lifecycle.move`, the ORM, and a settlement in Python.

Tests compare its results with those of the statements in `jobs/lifecycle/job_moves.sql`.
"""

import json
from collections.abc import Sequence
from copy import copy
from datetime import UTC

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from billing.errors import HoldError
from billing.models import Balance, Entry, Grant, Hold, Pocket
from clients.models import Client
from jobs.enums import CLAIMED, WAITING, MoveResult, Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import ANY, Outcome
from jobs.models import CHARACTER_LENGTH, Artifact, Build, DailyUsage, Job, Run
from simservice.api.times import iso
from tests.factories import start_attempt
from webhooks.models import Event


@transaction.atomic
def claim(worker: str) -> Job | None:
    """Claim the best waiting job."""
    waiting = Job.objects.filter(status__in=WAITING, queue_deadline_at__gt=Now())
    job = waiting.select_for_update(skip_locked=True).order_by("priority", "id").first()
    if job is None or not start_attempt(job, worker=worker):
        return None
    return Job.objects.get(pk=job.pk)


@transaction.atomic
def start_run(job: Job, *, build: Build, stage: int = 1) -> Run | None:
    """Record the simulator process of a stage. The first one moves the job to running."""
    if stage == 1:
        if not job_moves.move(job, to=Status.RUNNING, build=build, started_at=Now()):
            return None
    elif not Job.objects.filter(pk=job.pk, attempt=job.attempt, status__in=CLAIMED).exists():
        return None
    return Run.objects.create(job=job, attempt=job.attempt, stage=stage, build=build, started_at=Now())


@transaction.atomic
def finish(job: Job, outcome: Outcome, *, guard: Q = ANY, artifacts: Sequence[Artifact] = ()) -> MoveResult:
    """End the job, settle its credits, record its usage, and write its webhook event and its artifacts."""
    require_hold(job, outcome, guard=guard)
    actor = (outcome.summary or {}).get("mainActor") or {}
    reason = outcome.reason and outcome.reason[:500]
    ended = job_moves.move(
        copy(job),
        to=outcome.status,
        reason=reason or "",
        guard=guard,
        error_code=outcome.error_code,
        status_reason=reason,
        simulator_exit_code=outcome.exit_code,
        sim_duration_ms=outcome.sim_duration_ms,
        slots_used=outcome.slots_used,
        credits_consumed=outcome.credits_consumed,
        summary=outcome.summary,
        character=actor.get("name", "")[:CHARACTER_LENGTH] or job.character,
        warnings=list(outcome.warnings),
        missing_artifacts=list(outcome.missing_artifacts),
        percent=outcome.percent,
        completed_at=Now(),
        worker="",
        lease_expires_at=None,
    )
    if ended:
        settle(job.pk, spent=outcome.credits_consumed)
        count(Job.objects.get(pk=job.pk))
        if job.wants_webhook:
            notify(job.client, job, outcome, reason)
        Artifact.objects.bulk_create(artifacts)
    return ended


def require_hold(job: Job, outcome: Outcome, *, guard: Q) -> None:
    """Raise HoldError if the job can be ended, but its hold cannot be settled."""
    if outcome.status not in job_moves.TRANSITIONS.get(job.status, ()):
        return
    current = Job.objects.filter(guard, pk=job.pk, status=job.status, attempt=job.attempt)
    enough = Hold.objects.filter(pk=job.pk, resolved_at=None, credits__gte=outcome.credits_consumed)
    if current.exists() and not enough.exists():
        raise HoldError


def settle(job_id: int, *, spent: int) -> None:
    """Charge `spent` credits of a job's hold, in spending order, and return the rest to their origins."""
    hold = Hold.objects.get(pk=job_id)
    balance = Balance.objects.get(pk=hold.account_id)
    balance.reserved -= hold.credits
    left, entries = spent, []
    for grant, held in held_credits(job_id):
        used = min(left, held)
        left -= used
        entries.append((grant, Pocket.SPENT, used))
        entries.append((grant, pocket_of(grant), held - used))
        if grant is None:
            balance.purchased += held - used
        elif pocket_of(grant) == Pocket.GRANT:
            Grant.objects.filter(pk=grant.pk).update(remaining=F("remaining") + held - used)
    for grant, target, amount in entries:
        if amount:
            Entry.objects.create(
                account_id=hold.account_id,
                source=Pocket.HELD,
                target=target,
                credits=amount,
                grant=grant,
                job_id=job_id,
            )
    Hold.objects.filter(pk=job_id).update(spent=spent, resolved_at=Now())
    balance.save()


def held_credits(job_id: int) -> list[tuple[Grant | None, int]]:
    """Return the held credits of each origin in spending order: grants by expiry, then purchased credits."""
    held: dict[Grant | None, int] = {}
    for entry in Entry.objects.filter(job_id=job_id, target=Pocket.HELD).select_related("grant"):
        held[entry.grant] = held.get(entry.grant, 0) + entry.credits
    never = timezone.now().max.replace(tzinfo=UTC)
    return sorted(
        held.items(),
        key=lambda origin: (origin[0] is None, origin[0] and (origin[0].expires_at or never, origin[0].pk)),
    )


def pocket_of(grant: Grant | None) -> Pocket:
    """Return the pocket that unused credits of an origin return to."""
    if grant is None:
        return Pocket.PURCHASED
    expired = grant.expires_at is not None and grant.expires_at <= timezone.now()
    return Pocket.EXPIRED if expired else Pocket.GRANT


def count(job: Job) -> None:
    """Add an ended job to the usage of its day (UTC)."""
    assert job.completed_at is not None
    day, _ = DailyUsage.objects.get_or_create(
        account_id=job.account_id,
        client_id=job.client_id,
        build=job.build,
        day=job.completed_at.astimezone(UTC).date(),
        defaults={"jobs": 0, "runs": 0, "sim_ms": 0, "credits": 0},
    )
    day.jobs += 1
    day.runs += job.sim_duration_ms is not None
    day.sim_ms += job.sim_duration_ms or 0
    day.credits += job.credits_consumed or 0
    day.save()


def notify(client: Client, job: Job, outcome: Outcome, reason: str | None) -> None:
    """Insert the webhook event of a job's end."""
    now = timezone.now()
    payload = {"id": str(job.pk), "status": outcome.status, "statusReason": reason, "errorCode": outcome.error_code}
    body = {"kind": "job.terminal", "version": "v1", "timestamp": iso(now), "payload": payload}
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    Event.objects.create(client=client, job_id=job.pk, body=text.encode(), created_at=now, next_attempt_at=now)
