"""Summaries of jobs, jobs that have them, and hostile names."""

from typing import Any

from django.http import QueryDict

from clients.accounts import default_client
from clients.models import Membership
from dashboard import results
from dashboard.results import Options, Result
from dashboard.results.ranking import Ranking
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job
from tests.factories import make_job, make_running_job

EVIL = "<img src=x onerror=alert(1)>"
NAMES = (EVIL, "\u202eright to left", "zero\u200bwidth", "W" * 300, '"><script>alert(1)</script>', "{{ 7|add:7 }}")
SINGLE: dict[str, Any] = {"enabled": False, "reason": "disabled_by_option", "stages": []}


def figures(name: str, mean: float, error: float = 1.0) -> dict[str, Any]:
    """Return an entry of a ranking."""
    spread = {"mean_stddev": error / 1.96, "stddev": 10.0, "min": mean - 20, "max": mean + 20}
    return {"name": name, "mean": mean, "mean_error": error, **spread}


def summary(
    *names: str, mean: float = 100.0, stages: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """Return the summary of an actor with profilesets of these names, each better than the previous one."""
    actor = figures("Frosty", mean)
    if names:
        results = [{**figures(name, mean + 5 * rank), "stage": 1} for rank, name in enumerate(names, start=1)]
        actor["profilesets"] = {"count": len(results), "results": results[::-1]}
    return {"metric": "dps", "mainActor": actor | fields, "multiStage": stages or SINGLE}


def make_completed_job(job_summary: dict[str, Any] | None = None, *, slots_used: int = 1, **fields: Any) -> Job:
    """Return a completed job with a summary."""
    job = make_running_job(**fields)
    done = Outcome(
        status=Status.COMPLETED,
        sim_duration_ms=1500,
        slots_used=slots_used,
        credits_consumed=64,
        summary=job_summary or summary(),
    )
    assert job_moves.finish(job, done)
    return Job.objects.select_related("client", "build").get(pk=job.pk)


def make_failed_job(reason: str = "It went wrong.", code: str = "simulation_error", **fields: Any) -> Job:
    """Return a job that failed while it ran."""
    job = make_running_job(**fields)
    assert job_moves.finish(job, Outcome(status=Status.FAILED, error_code=code, reason=reason))
    return Job.objects.select_related("client").get(pk=job.pk)


def make_stopped_job(status: str, code: str, job_summary: dict[str, Any] | None = None, **fields: Any) -> Job:
    """Return a job that ended with a partial summary of 417 DPS."""
    job = make_running_job(**fields)
    partial = (job_summary or summary(mean=417.0)) | {"partial": True}
    assert job_moves.finish(
        job, Outcome(status=Status(status), error_code=code, reason="It ended.", summary=partial)
    )
    return Job.objects.select_related("client", "build").get(pk=job.pk)


def result_of(job_summary: dict[str, Any], query: str = "", *, multi_stage: bool = False, **given: Any) -> Result:
    """Return the result of a job with a summary as pages with a query show it, `given` details or entries."""
    job = Job(status="completed", summary=job_summary, multi_stage=multi_stage)
    result = results.result_of(job, Options.of(QueryDict(query)), **given)
    assert result is not None
    return result


def ranking_of(job_summary: dict[str, Any], query: str = "", **given: Any) -> Ranking:
    """Return the ranking of profilesets in a summary."""
    ranking = result_of(job_summary, query, **given).ranking
    assert ranking is not None
    return ranking


def make_unfinished_job(owner: Membership, *, is_running: bool) -> Job:
    """Return a running or a waiting job of the owner's account."""
    make = make_running_job if is_running else make_job
    return make(client=default_client(owner.account))
