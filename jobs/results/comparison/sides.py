"""What is known of each job in a comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jobs.artifacts import retention
from jobs.models import Artifact, Job, JobProfile
from jobs.results import details
from jobs.results.details import Ability, Actor, Details, Fight
from simc.profiles.diff import Lines


class Missing(StrEnum):
    """Why a job has nothing to compare."""

    EXPIRED = "expired"
    UNFINISHED = "unfinished"
    NO_RESULT = "no_result"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """The main number of a result, for the first actor or the raid. `error` is half of its 95 % interval."""

    metric: str
    mean: float
    error: float
    low: float
    high: float
    median: float | None = None


@dataclass(frozen=True, kw_only=True)
class Side:
    """A job in a comparison. Lists and texts are empty if they are unknown; `abilities` is None."""

    job: Job
    missing: Missing | None = None
    figure: Figure | None = None
    actor: str = ""
    """The name of the compared actor."""
    character: Actor = field(default_factory=Actor)
    actors: int = 1
    profilesets: int = 0
    is_partial: bool = False
    iterations: int | None = None
    fight: Fight = field(default_factory=Fight)
    gear: Sequence[Mapping[str, Any]] = ()
    talents: str = ""
    abilities: Sequence[Ability] | None = None
    profile: Lines | None = None


def sides_of(jobs: Sequence[Job], *, is_public: bool) -> list[Side]:
    """Return what is known of each job; if `is_public`, only what share pages show. Two queries, three if public.

    Share pages offer the profile as the input that ran, so it is public once that is stored.
    """
    compared = [job for job in jobs if _missing(job) is None]
    found = details.details_of_jobs(compared)
    profiles = _profiles(_with_public_profile(compared) if is_public else compared)
    return [_side(job, found.get(job.pk), profiles.get(job.pk)) for job in jobs]


def _missing(job: Job) -> Missing | None:
    if not retention.is_kept(job):
        return Missing.EXPIRED
    if not job.is_terminal:
        return Missing.UNFINISHED
    return None if job.has_result and _main_entry(job.summary) else Missing.NO_RESULT


def _with_public_profile(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs whose profile is public: stored, shared, and without secrets to remove. One query."""
    inputs = Artifact.objects.filter(job__in=[job.pk for job in jobs], kind=Artifact.Kind.INPUT)
    stored = set(inputs.values_list("job_id", "attempt"))
    shared = [job for job in jobs if job.account.shares_inputs and not job.has_credentials]
    return [job for job in shared if (job.pk, job.attempt) in stored]


def _profiles(jobs: Sequence[Job]) -> dict[int, Lines]:
    """Return the compared lines of the profiles. At most one query."""
    profiles = JobProfile.objects.filter(pk__in=[job.pk for job in jobs])
    return {job_id: Lines.of(text) for job_id, text in profiles.values_list("pk", "text")}


def _main_entry(summary: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the main actor of a summary, or the first of several actors."""
    if not summary:
        return None
    return summary.get("mainActor") or next(iter(summary.get("actors", {}).get("results", ())), None)


def _side(job: Job, found: Details | None, profile: Lines | None) -> Side:
    missing = _missing(job)
    entry = _main_entry(job.summary)
    if missing or not entry or not job.summary:
        return Side(job=job, missing=missing)
    actor = found.actors[0] if found and found.actors else Actor()
    fight = found.fight if found else Fight()
    return Side(
        job=job,
        figure=_figure(entry, actor, metric=job.summary["metric"]),
        actor=entry["name"],
        character=actor,
        actors=job.summary.get("actors", {}).get("count", 1),
        profilesets=entry.get("profilesets", {}).get("count", 0),
        is_partial=bool(job.summary.get("partial")),
        iterations=fight.iterations or job.summary.get("iterations"),
        fight=fight,
        gear=actor.gear or entry.get("gear", ()),
        talents=actor.talents or entry.get("talents", ""),
        abilities=actor.abilities or None,
        profile=profile,
    )


def _figure(entry: Mapping[str, Any], actor: Actor, *, metric: str) -> Figure:
    return Figure(
        metric=metric,
        mean=float(entry["mean"]),
        error=float(entry["mean_error"]),
        low=float(entry["min"]),
        high=float(entry["max"]),
        median=actor.dps.median if actor.dps and metric == "dps" else None,
    )
