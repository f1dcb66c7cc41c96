"""Usage and limits of the account: `GET /v1/{resource}/usage`."""

from datetime import UTC, datetime
from typing import Annotated, TypedDict

from rest_framework.request import Request
from rest_framework.response import Response

from billing.models import Plan, Pool
from clients import rate_limits
from clients.rate_limits import Window
from jobs import api_mode
from jobs.api.base import Credits, JobsEndpoint, Seconds
from jobs.lifecycle import usage
from simservice.api.operations import Operation, ResponseSpec, documented
from simservice.api.times import iso
from simservice.shapes import Count, Rule, Time


class Period(TypedDict):
    """Usage in the current calendar month (UTC), and reads in the last minute."""

    start: Time
    end: Time
    simsRun: Annotated[Count, "Number of jobs that ran"]
    avgRuntimeSeconds: Annotated[float | None, Rule(minimum=0), "Null if no job has run"]
    readsUsed: Annotated[Count | None, "Null if the counter is unavailable"]
    readsLimit: Annotated[Count, "Maximum number of reads per minute"]
    readsCapResetAt: Annotated[Time | None, "When the next read is allowed. Null if the counter is unavailable"]


class Snapshot(TypedDict):
    """Current number of unfinished jobs, in total and by state."""

    activeJobs: Count
    queuedJobs: Count
    runningJobs: Count


class PriorityFees(TypedDict):
    """Fees for priorities above `standard`."""

    high: Credits


class PlanLimits(TypedDict):
    """Limits of the account's plan."""

    maxActiveJobs: Count
    maxCreditsPerJob: Credits
    defaultCreditsPerJob: Annotated[Credits | None, "Null if a job without a cap can use up to `maxCreditsPerJob`"]
    maxRuntimeSeconds: Seconds
    defaultRuntimeSeconds: Seconds | None
    maxQueueSeconds: Seconds
    defaultQueueSeconds: Seconds
    creditsPerSecond: Credits
    vcpuPerJob: Count
    maxParallelSlots: Annotated[Count, "Maximum number of slots that a job with many profilesets can use at a time"]
    maxSimcVariants: Annotated[Count, "Maximum number of variants in a profile"]
    pool: Annotated[Pool, "The workers that run the plan's jobs"]
    priorityFeeCredits: PriorityFees


class Usage(TypedDict):
    """Usage and limits of an account."""

    period: Period
    snapshot: Snapshot
    plan: PlanLimits
    limits: Annotated[PlanLimits, "The same as `plan`"]


EXAMPLE_PLAN: PlanLimits = {
    "maxActiveJobs": 200,
    "maxCreditsPerJob": 57600,
    "defaultCreditsPerJob": None,
    "maxRuntimeSeconds": 1800,
    "defaultRuntimeSeconds": api_mode.current().default_runtime_seconds,
    "maxQueueSeconds": 86400,
    "defaultQueueSeconds": 1800,
    "creditsPerSecond": 32,
    "vcpuPerJob": 2,
    "maxParallelSlots": 8,
    "maxSimcVariants": 10000,
    "pool": Pool.STANDARD,
    "priorityFeeCredits": {"high": 320},
}
EXAMPLE_USAGE: Usage = {
    "period": {
        "start": "2026-11-01T00:00:00.000Z",
        "end": "2026-12-01T00:00:00.000Z",
        "simsRun": 120,
        "avgRuntimeSeconds": 12.4,
        "readsUsed": 7,
        "readsLimit": 6000,
        "readsCapResetAt": "2026-11-20T08:11:00.000Z",
    },
    "snapshot": {"activeJobs": 1, "queuedJobs": 0, "runningJobs": 1},
    "plan": EXAMPLE_PLAN,
    "limits": EXAMPLE_PLAN,
}
GET_USAGE = Operation(
    id="getUsage",
    tag="Account",
    summary="Get usage and limits",
    returns=ResponseSpec(description="Usage and limits of the account.", shape=Usage, example=EXAMPLE_USAGE),
)


class UsageView(JobsEndpoint):
    """`GET /v1/{resource}/usage`"""

    @documented(GET_USAGE)
    def get(self, request: Request) -> Response:  # noqa: ARG002
        caller = self.caller()
        period, snapshot = usage.this_month(caller.account), usage.snapshot(caller.account)
        reads = rate_limits.reads(caller)
        return Response(_usage_object(period, snapshot, plan=caller.plan, reads=reads))


def _usage_object(
    period: usage.UsagePeriod, snapshot: usage.ActiveJobs, *, plan: Plan, reads: Window | None
) -> Usage:
    """Return the body of `GET usage`; `reads` is None without Redis (docs/reference/api.md#usage)."""
    limits = _plan_limits(plan)
    return {
        "period": {
            "start": iso(period.start),
            "end": iso(period.end),
            "simsRun": period.sims_run,
            "avgRuntimeSeconds": period.average_runtime_seconds,
            "readsUsed": reads.used if reads else None,
            "readsLimit": plan.reads_per_minute,
            "readsCapResetAt": iso(datetime.fromtimestamp(reads.reset_at, UTC)) if reads else None,
        },
        "snapshot": {
            "activeJobs": snapshot.active,
            "queuedJobs": snapshot.waiting,
            "runningJobs": snapshot.running,
        },
        "plan": limits,
        "limits": limits,
    }


def _plan_limits(plan: Plan) -> PlanLimits:
    variant = api_mode.current()
    default_seconds = variant.default_runtime_for(plan)
    return {
        "maxActiveJobs": plan.max_active_jobs,
        "maxCreditsPerJob": plan.max_credits_per_job,
        "defaultCreditsPerJob": default_seconds and default_seconds * plan.credits_per_second,
        "maxRuntimeSeconds": plan.max_runtime_seconds,
        "defaultRuntimeSeconds": default_seconds,
        "maxQueueSeconds": plan.max_queue_seconds,
        "defaultQueueSeconds": variant.default_queue_for(plan),
        "creditsPerSecond": plan.credits_per_second,
        "vcpuPerJob": plan.vcpu_per_job,
        "maxParallelSlots": plan.max_parallel_slots,
        "maxSimcVariants": plan.max_variants,
        "pool": Pool(plan.pool),
        "priorityFeeCredits": {"high": plan.high_priority_fee_credits},
    }
