"""Jobs with results, details and inputs to compare."""

import io
from typing import Any

from jobs.artifacts import artifact_files
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Job, JobDetails
from jobs.results import details
from tests.factories import make_running_job

ITEM = {"slot": "head", "name": "hat", "id": 1, "ilevel": 600}


def summary(mean: float = 100.0, error: float = 1.0, **fields: Any) -> dict[str, Any]:
    """Return the summary of one actor."""
    spread = {"mean_stddev": error / 1.96, "stddev": 10.0 * error, "min": mean - 20, "max": mean + 20}
    actor = {"name": "Frosty", "mean": mean, "mean_error": error, **spread}
    stages = {"enabled": False, "reason": "disabled_by_option", "stages": []}
    return {"metric": "dps", "iterations": 500, "mainActor": actor, "multiStage": stages} | fields


def make_result(job_summary: dict[str, Any] | None = None, *, with_input: bool = True, **fields: Any) -> Job:
    """Return a completed job with a summary, whose input is stored."""
    job = make_running_job(**fields)
    if with_input:
        artifact_files.store(job, Artifact.Kind.INPUT, io.BytesIO(b"x")).save(force_insert=True)
    outcome = Outcome(status=Status.COMPLETED, sim_duration_ms=1500, summary=job_summary or summary())
    assert job_moves.finish(job, outcome)
    return Job.objects.get(pk=job.pk)


def add_details(job: Job, **actor: Any) -> Job:
    """Give a job details with one actor; `fight` is the fight's options."""
    fight = actor.pop("fight", {})
    document = {"version": 1, "fight": fight, "actors": [actor]}
    content = details.packed(document)
    JobDetails.objects.update_or_create(job=job, defaults={"version": 1, "document": content})
    return job


def ability(name: str, dps: float, *, pet: bool = False) -> dict[str, Any]:
    return {"name": name, "dps": dps, "pet": pet}
