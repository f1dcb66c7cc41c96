"""The structured results of tools: their shapes, and how they are made. Schemas are generated from the shapes."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from billing import ledger
from billing.api import Credits as Balances
from billing.api import credits_object
from billing.models import Account
from jobs import models
from jobs.api.base import Credits, ExitCode
from jobs.api.errors import ResultNotReady, ResultUnavailable
from jobs.api.jobs import Title, error_code
from jobs.api.links import LinkBuilder, Links
from jobs.api.polling import poll_after_seconds
from jobs.api.submission import RefusedSubmission, Submitted
from jobs.api.summary import Verdict, verdict_object
from jobs.api.validate import ExpectedStart, JobEstimate, PlannedRuntime
from jobs.enums import ErrorCode, PublicStatus
from jobs.live.progress import progress_of
from jobs.mcp.arguments import MAX_RANKED
from jobs.queue.forecast import estimated_start
from jobs.results import comparison, endings, labels, rankings
from jobs.results.common_variants import Pair
from jobs.results.comparison import Missing, Row, Side
from jobs.results.rankings import Entry
from jobs.results.verdicts import EVEN, Compared, actors_of, variants_of
from simservice.shapes import Count, Id, Percent, Rule, Url

# As many as the comparison page shows without expanding
MAX_COMPARED = 20
MAX_RUNS = 200
MAX_VALUE_CHARACTERS = 200


class JobState(TypedDict):
    """The state of a job."""

    id: Id
    title: Title
    status: PublicStatus
    hasEnded: Annotated[bool, "Whether the status is final"]
    percent: Percent
    pollAfterSeconds: Annotated[int | None, "Suggested time until the next call. Null if the job has ended"]
    errorCode: Annotated[ErrorCode | None, "Why the job did not complete, as a code"]
    statusReason: Annotated[str | None, "Why the job did not complete, as a sentence"]
    creditsConsumed: Annotated[Credits | None, "Null until the job has ended"]
    verdict: Annotated[Verdict | None, "What the result says. Null if there is none"]
    links: Links


class RunResult(TypedDict):
    """A submitted job."""

    job: JobState
    submission: NotRequired[Annotated[Submitted, "Limits, warnings and links. Absent from the result of a task"]]


class CostEstimate(TypedDict):
    """What a job is expected to cost, and what it can cost at most."""

    valid: Annotated[bool, "Whether the submission would be accepted and its job could run"]
    refusal: Annotated[RefusedSubmission | None, "Null if `valid`"]
    estimate: Annotated[JobEstimate | None, "Null if no past job is known, or the profile is refused"]
    runtime: PlannedRuntime
    start: Annotated[ExpectedStart | None, "Null if the queue is unknown"]
    variants: Count


class Baseline(TypedDict):
    """The result that the others are compared with."""

    name: str
    mean: float
    error: Annotated[float, "Half of the 95 % interval of the mean"]


class RankedEntry(Baseline):
    """The result of a profileset or an actor."""

    place: Annotated[int, Rule(minimum=1), "1 is the best"]
    stage: Annotated[int | None, "The last stage that it ran in"]
    changePercent: Annotated[float | None, "Difference from the baseline. Null if unknown"]
    marginPercent: Annotated[float | None, "Margin of error of the change. Null if unknown"]
    isClear: Annotated[bool, "Whether the change exceeds its margin of error"]


class Ranking(TypedDict):
    """The profilesets or actors of a job, best first."""

    job: Id
    metric: Literal["dps", "raid_dps"]
    isPartial: Annotated[bool, "Whether the run ended before it had simulated everything"]
    baseline: Baseline
    count: Annotated[Count, "Number of entries; `results` may contain fewer"]
    results: Annotated[list[RankedEntry], Rule(maxItems=MAX_RANKED)]
    verdict: Annotated[Verdict | None, "What the result says, with the corrections for many comparisons"]


class Change(TypedDict):
    """How the result of a job differs from that of the first one."""

    percent: float | None
    marginPercent: Annotated[float | None, "Null if unknown"]
    isClear: Annotated[bool, "Whether the difference exceeds its margin of error"]


class ComparedJob(TypedDict):
    """A job of a comparison."""

    id: Id
    title: Title
    missing: Annotated[Missing | None, "Why the job cannot be compared. Null if it can"]
    figure: Annotated[Baseline | None, "The main number of the result"]
    change: Annotated[Change | None, "Null for the first job, and if the job cannot be compared"]


class Difference(TypedDict):
    """What differs between the jobs: an option, or the item in a slot. A value is null if it is unknown."""

    name: str
    values: Annotated[list[str | None], "One for each job"]


class ComparedVariant(TypedDict):
    """A profileset that two jobs have."""

    name: str
    means: Annotated[list[float], Rule(minItems=2, maxItems=2)]
    change: Change


class JobComparison(TypedDict):
    """How jobs differ."""

    jobs: Annotated[list[ComparedJob], Rule(minItems=2, maxItems=comparison.MAX_JOBS)]
    options: list[Difference]
    gear: list[Difference]
    talentsDiffer: Annotated[bool | None, "Null if the talents are unknown"]
    abilities: Annotated[
        list[Difference], Rule(maxItems=MAX_COMPARED), "DPS of the abilities with the largest differences"
    ]
    variants: Annotated[
        list[ComparedVariant], Rule(maxItems=MAX_COMPARED), "The best profilesets that two jobs have in common"
    ]


class Explanation(TypedDict):
    """Why a job ended as it did, and what to do next."""

    id: Id
    status: PublicStatus
    errorCode: ErrorCode | None
    headline: Annotated[str, "How far the job came, or why it ended, as a sentence"]
    reason: Annotated[str | None, "Why it ended. Null if the headline is sufficient"]
    advice: Annotated[str | None, "What to do next. Null if nothing needs to be done"]
    needsCorrection: Annotated[bool, "Whether an error in the profile caused the failure"]
    hasResult: Annotated[bool, "Whether a partial result is available"]
    simcExitCode: ExitCode
    creditsConsumed: Annotated[Credits | None, "Null until the job has ended"]
    docsUrl: Annotated[Url | None, "The documentation of the error. Null without an error"]


class CreditState(TypedDict):
    """What the account can spend, and what a job costs."""

    available: Annotated[Count, "Credits that new jobs can reserve"]
    isSuspended: Annotated[bool, "Whether the account is suspended and cannot submit jobs"]
    creditsPerSecond: Credits
    maxCreditsPerJob: Credits
    balances: Balances


def job_state(job: models.Job, links: LinkBuilder) -> JobState:
    """Return the state of a job, which needs its summary."""
    current = progress_of(job)
    return {
        "id": str(job.pk),
        "title": job.title,
        "status": job.public_status,
        "hasEnded": job.is_terminal,
        "percent": current.percent,
        "pollAfterSeconds": poll_after_seconds(job, current, start=estimated_start(job)),
        "errorCode": error_code(job),
        "statusReason": job.status_reason,
        "creditsConsumed": job.credits_consumed,
        "verdict": verdict_object(job),
        "links": links.of(job),
    }


def ranking(job: models.Job, *, first: int, limit: int) -> Ranking:
    """Return a part of a job's ranking. Raises ResultNotReady or ResultUnavailable."""
    if not job.is_terminal:
        raise ResultNotReady({"status": job.public_status})
    compared = variants_of(job.summary, entries=rankings.entries_of(job)) or actors_of(job.summary)
    if not job.has_result or not job.summary or compared is None:
        raise ResultUnavailable({"status": job.public_status})
    return {
        "job": str(job.pk),
        "metric": job.summary["metric"],
        "isPartial": bool(job.summary.get("partial")),
        "baseline": _baseline(compared.baseline),
        "count": compared.count,
        "results": [_ranked(entry, compared) for entry in compared.entries[first - 1 : first - 1 + limit]],
        "verdict": verdict_object(job),
    }


def _baseline(entry: Entry) -> Baseline:
    return {"name": entry.name, "mean": entry.mean, "error": entry.error}


def _ranked(entry: Entry, compared: Compared) -> RankedEntry:
    return {
        **_baseline(entry),
        "place": entry.number,
        "stage": entry.stage,
        "changePercent": compared.change_of(entry),
        "marginPercent": compared.margin_of(entry),
        "isClear": compared.kind_of(entry) not in ("", EVEN),
    }


def compared_jobs(jobs: Sequence[models.Job]) -> JobComparison:
    """Return how jobs of one account differ."""
    found = comparison.compare(comparison.sides_of(jobs, is_public=False))
    pairs = found.variants.pairs[:MAX_COMPARED] if found.variants else []
    return {
        "jobs": [_compared(side, change) for side, change in zip(found.sides, found.changes, strict=True)],
        "options": [_difference(row) for row in found.options if row.differs],
        "gear": [_difference(row) for row in found.gear if row.differs],
        "talentsDiffer": None if found.talents is None else found.talents.differs,
        "abilities": [
            {"name": row.name, "values": [_short(value) for value in row.values]}
            for row in found.abilities[:MAX_COMPARED]
        ],
        "variants": [
            {"name": pair.name, "means": [pair.first.mean, pair.second.mean], "change": _change(pair)}
            for pair in pairs
        ],
    }


def _compared(side: Side, change: Pair | None) -> ComparedJob:
    return {
        "id": str(side.job.pk),
        "title": side.job.title,
        "missing": side.missing,
        "figure": _baseline(side.figure.entry) if side.figure else None,
        "change": _change(change) if change else None,
    }


def _change(pair: Pair) -> Change:
    return {"percent": pair.percent, "marginPercent": pair.margin_percent, "isClear": pair.kind != EVEN}


def _difference(row: Row) -> Difference:
    return {"name": str(row.name), "values": [_short(value) for value in row.values]}


def _short(value: Any) -> str | None:
    """Return a value of a comparison as a text: an option, a number, or an item, which is empty for no item."""
    if value is None:
        return None
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.8g}"
    if isinstance(value, dict):
        level = f", item level {value['ilevel']}" if "ilevel" in value else ""
        value = f"{value.get('name') or value.get('id', 'nothing')}{level}"
    return str(value)[:MAX_VALUE_CHARACTERS]


def explanation(job: models.Job, links: LinkBuilder) -> Explanation:
    """Return why a job ended as it did. The job needs its summary. One query."""
    newest = models.Run.objects.filter(job=job).order_by("-id")[:MAX_RUNS]
    ending = endings.ending_of(job, reason=job.status_reason or "", credits_billed=job.credits_consumed)
    code = error_code(job)
    return {
        "id": str(job.pk),
        "status": job.public_status,
        "errorCode": code,
        "headline": ending.headline if ending else f"{labels.status_of(job)}.",
        "reason": (ending.reason or None) if ending else None,
        "advice": labels.advice(job, list(newest)),
        "needsCorrection": bool(ending and ending.needs_correction),
        "hasResult": ending.has_result if ending else job.has_result,
        "simcExitCode": job.simulator_exit_code,
        "creditsConsumed": job.credits_consumed,
        "docsUrl": f"{links.base}/docs/errors#job-error-codes" if code else None,
    }


def credit_state(account: Account) -> CreditState:
    """Return what an account can spend. One query."""
    found = ledger.balances(account)
    return {
        "available": found.available,
        "isSuspended": account.suspended_at is not None,
        "creditsPerSecond": account.plan.credits_per_second,
        "maxCreditsPerJob": account.plan.max_credits_per_job,
        "balances": credits_object(found),
    }
