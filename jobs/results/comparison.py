"""Comparison of two to four jobs, of an account or of share links.

`own_jobs` and `shared_jobs` find the jobs, `sides_of` reads what is known of each, and `compare` returns how they
differ. The first job with a result is the one that others are compared with.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from django.db.models import QuerySet

from billing.models import Account
from jobs.artifacts import retention
from jobs.errors import JobsError, NotFound
from jobs.models import Artifact, Job, JobProfile
from jobs.results import details
from jobs.results.common_variants import CommonVariants, Pair, common_variants, variants_of_jobs
from jobs.results.details import Ability, Actor, Details, Fight
from jobs.results.rankings import Entry, listed
from jobs.results.verdicts import Compared, margin_between, widened
from simc.profiles import diff
from simc.profiles.diff import Diff, Lines
from simservice.ids import TokenConverter, parse_id

MAX_JOBS = 4
# Only two jobs are compared by variant: a table of more would fit no screen.
PAIR = 2
MAX_LINK_LENGTH = 1000
_TOKEN = re.compile(TokenConverter.regex)
_SHARE_PATH = re.compile(f"/share/({TokenConverter.regex})/?")


class Problem(StrEnum):
    """Why a choice of jobs cannot be compared."""

    TOO_MANY = "too_many_jobs"
    REPEATED = "repeated_job"
    NOT_A_LINK = "not_a_share_link"


class CannotCompare(JobsError):
    """The chosen jobs cannot be compared."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


def own_jobs(account: Account, ids: Sequence[str]) -> list[Job]:
    """Return the account's jobs with these ids, with their builds.

    Raises CannotCompare, or NotFound if an id is malformed, unknown, or that of another account's job.
    """
    numbers = [parse_id(each) for each in _distinct(ids)]
    known = [number for number in numbers if number is not None]
    jobs = _with_builds().filter(account=account, pk__in=known)
    return _in_order(numbers, {job.pk: job for job in jobs})


def shared_jobs(tokens: Sequence[str]) -> list[Job]:
    """Return the jobs of share links, with their builds and accounts.

    Raises CannotCompare, or NotFound if a token is unknown or the retention of all jobs has ended.
    """
    jobs = _with_builds().select_related("account").filter(share_token__in=_distinct(tokens))
    found = _in_order(tokens, {job.share_token: job for job in jobs})
    if found and not any(map(retention.is_kept, found)):
        raise NotFound
    return found


def token_of(text: str, *, hosts: Collection[str]) -> str:
    """Return the token of a share link on one of these hosts, or the token itself. Raises CannotCompare."""
    text = text.strip()[:MAX_LINK_LENGTH]
    if _TOKEN.fullmatch(text):
        return text
    try:
        link = urlsplit(text if "://" in text else f"//{text}")
    except ValueError:
        raise CannotCompare(Problem.NOT_A_LINK) from None
    path = _SHARE_PATH.fullmatch(link.path)
    if path is None or link.netloc not in hosts or link.scheme not in ("", "http", "https"):
        raise CannotCompare(Problem.NOT_A_LINK)
    return path[1]


def _with_builds() -> QuerySet[Job]:
    """Return jobs with their builds, but without the builds' lists of files."""
    return Job.objects.select_related("build").defer("build__profiles", "build__includable")


def _distinct(names: Sequence[str]) -> Sequence[str]:
    """Return the names of jobs. Raises CannotCompare if a name is repeated or there are too many."""
    if len(names) > MAX_JOBS:
        raise CannotCompare(Problem.TOO_MANY)
    if len(set(names)) < len(names):
        raise CannotCompare(Problem.REPEATED)
    return names


def _in_order(names: Sequence[object], found: Mapping[Any, Job]) -> list[Job]:
    """Return the jobs in the order of their names. Raises NotFound if one is missing."""
    try:
        return [found[name] for name in names]
    except KeyError:
        raise NotFound from None


class Missing(StrEnum):
    """Why a job has nothing to compare."""

    EXPIRED = "expired"
    UNFINISHED = "unfinished"
    NO_RESULT = "no_result"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """The main number of a result, for the first actor or the raid."""

    metric: str
    entry: Entry
    low: float
    high: float
    median: float | None = None


@dataclass(frozen=True, kw_only=True)
class Side:
    """A job in a comparison. Lists and texts are empty if they are unknown; `abilities` is None."""

    job: Job
    missing: Missing | None = None
    figure: Figure | None = None
    # The name of the compared actor
    actor: str = ""
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
    # By what factor the replicates of its profilesets differed more than reported
    widening: float = 1.0
    # Only in comparisons of two jobs
    variants: Compared | None = None


def sides_of(jobs: Sequence[Job], *, is_public: bool) -> list[Side]:
    """Return what is known of each job; if `is_public`, only what share pages show.

    Share pages offer the profile as the input that ran, so it is public once that is stored.
    """
    compared = [job for job in jobs if _missing(job) is None]
    found = details.details_of_jobs(compared)
    profiles = _profiles(_with_public_profile(compared) if is_public else compared)
    pair = compared if len(compared) == len(jobs) == PAIR else []
    variants = dict(zip(pair, variants_of_jobs(pair), strict=True)) if pair else {}
    return [_side(job, found.get(job.pk), profiles.get(job.pk), variants.get(job)) for job in jobs]


def _missing(job: Job) -> Missing | None:
    if not retention.is_kept(job):
        return Missing.EXPIRED
    if not job.is_terminal:
        return Missing.UNFINISHED
    return None if job.has_result and _main_entry(job.summary) else Missing.NO_RESULT


def _with_public_profile(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs whose profile is public: stored, shared, and without secrets to remove."""
    inputs = Artifact.objects.filter(job__in=[job.pk for job in jobs], kind=Artifact.Kind.INPUT)
    stored = set(inputs.values_list("job_id", "attempt"))
    shared = [job for job in jobs if job.shows_inputs and not job.has_credentials]
    return [job for job in shared if (job.pk, job.attempt) in stored]


def _profiles(jobs: Sequence[Job]) -> dict[int, Lines]:
    """Return the compared lines of the profiles."""
    profiles = JobProfile.objects.filter(pk__in=[job.pk for job in jobs])
    return {job_id: Lines.of(text) for job_id, text in profiles.values_list("pk", "text")}


def _main_entry(summary: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the main actor of a summary, or the first of several actors."""
    if not summary:
        return None
    return summary.get("mainActor") or next(iter(summary.get("actors", {}).get("results", ())), None)


def _side(job: Job, found: Details | None, profile: Lines | None, variants: Compared | None) -> Side:
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
        widening=float(job.summary["multiStage"].get("widening", 1.0)),
        variants=variants,
    )


def _figure(entry: Mapping[str, Any], actor: Actor, *, metric: str) -> Figure:
    return Figure(
        metric=metric,
        entry=listed([entry], first=0)[0],
        low=float(entry["min"]),
        high=float(entry["max"]),
        median=actor.dps.median if actor.dps and metric == "dps" else None,
    )


COMMIT_CHARACTERS = 12
MIN_KNOWN = 2


class Option(StrEnum):
    """Options that compared jobs can share."""

    ACTOR = "actor"
    FIGHT_STYLE = "fight_style"
    TARGETS = "targets"
    LENGTH = "length"
    VARIATION = "variation"
    ITERATIONS = "iterations"
    TARGET_ERROR = "target_error"
    PROFILESETS = "profilesets"
    STAGES = "stages"
    BUILD = "build"
    GAME_VERSION = "game_version"


@dataclass(frozen=True, kw_only=True)
class Row:
    """What the jobs have in one place: an option, or the item in a slot. Unknown values are None."""

    name: str
    values: Sequence[Any]
    differs: bool


@dataclass(frozen=True, kw_only=True)
class AbilityRow:
    """The DPS of an ability in each job, and its differences from the first job.

    A value is None if it is unknown, or if the actor does not use the ability, which then counts as zero. A
    difference is None if it is unknown, and clear if it exceeds the margin of error of the whole.
    """

    name: str
    is_pet: bool
    values: Sequence[float | None]
    differences: Sequence[float | None]
    is_clear: Sequence[bool]

    @property
    def largest(self) -> float:
        """Return the largest difference, without its sign."""
        return max((abs(each) for each in self.differences if each is not None), default=0.0)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How jobs differ.

    `changes` and `profiles` have an entry for each job: None for the first one, and if there is nothing to compare.
    """

    sides: Sequence[Side]
    # The place of the job that others are compared with
    first: int | None
    changes: Sequence[Pair | None]
    options: Sequence[Row]
    gear: Sequence[Row]
    talents: Row | None
    abilities: Sequence[AbilityRow]
    # The largest margin of error that the abilities of two jobs were compared with, 0 if none is known
    ability_margin: float
    profiles: Sequence[Diff | None]
    variants: CommonVariants | None


def compare(sides: Sequence[Side]) -> Comparison:
    """Return how jobs differ."""
    first = next((place for place, side in enumerate(sides) if side.figure), None)
    base = None if first is None else sides[first]
    max_listed = diff.MAX_LISTED // max(len(sides) - 1, 1)
    others = sum(side.figure is not None for side in sides) - 1
    variants = _common_variants(sides)
    if variants:
        changes: list[Pair | None] = [None, variants.baseline]
    else:
        changes = [_change(side, base, comparisons=others) if base and side is not base else None for side in sides]
    margins = [change.margin if change else math.inf for change in changes]
    return Comparison(
        sides=sides,
        first=first,
        changes=changes,
        options=_options(sides),
        gear=_gear(sides),
        talents=_talents(sides),
        abilities=[] if first is None else _abilities(sides, margins, first=first),
        ability_margin=max(filter(math.isfinite, margins), default=0.0),
        profiles=[_profile_diff(side, base, max_listed=max_listed) for side in sides],
        variants=variants,
    )


def _common_variants(sides: Sequence[Side]) -> CommonVariants | None:
    """Return the variants of two jobs with the same metric, None for other jobs."""
    if len(sides) != PAIR or len({side.figure.metric for side in sides if side.figure}) != 1:
        return None
    first, second = (side.variants for side in sides)
    return common_variants(first, second) if first and second else None


def _change(side: Side, base: Side, *, comparisons: int) -> Pair | None:
    """Return a figure compared with the first one, or None if the figures are not of the same kind."""
    if not side.figure or not base.figure or side.figure.metric != base.figure.metric:
        return None
    first, second = base.figure.entry, side.figure.entry
    factor = widened(comparisons) * max(base.widening, side.widening)
    return Pair(name="", first=first, second=second, margin=margin_between(first, second, factor=factor))


def _options(sides: Sequence[Side]) -> list[Row]:
    values = [_options_of(side) for side in sides]
    rows = [_row(option, [each.get(option) for each in values]) for option in Option]
    return [row for row in rows if any(value is not None for value in row.values)]


def _options_of(side: Side) -> Mapping[Option, Any]:
    """Return the options of a job, without those that are unknown."""
    if side.figure is None:
        return {}
    build, fight = side.job.build, side.fight
    options = {
        Option.ACTOR: side.actor,
        Option.FIGHT_STYLE: fight.style,
        Option.TARGETS: fight.targets,
        Option.LENGTH: fight.length,
        Option.VARIATION: fight.variation,
        Option.ITERATIONS: side.iterations,
        Option.TARGET_ERROR: fight.target_error,
        Option.PROFILESETS: side.profilesets,
        Option.STAGES: side.job.multi_stage,
        Option.BUILD: build and f"{build.simc_version} ({build.git_branch} {build.commit[:COMMIT_CHARACTERS]})",
        Option.GAME_VERSION: fight.game_version or (build and build.wow_version),
    }
    return {option: value for option, value in options.items() if value not in (None, "")}


def _row(name: str, values: Sequence[Any], *, key: Callable[[Any], Any] = lambda value: value) -> Row:
    """Return a row, which differs if the keys of two known values differ."""
    known = [key(value) for value in values if value is not None]
    return Row(name=name, values=values, differs=any(value != known[0] for value in known))


def _gear(sides: Sequence[Side]) -> list[Row]:
    """Return the items by slot, if the gear of at least two jobs is known. An empty slot is an empty item."""
    worn = [{item.get("slot", ""): item for item in side.gear} if side.gear else None for side in sides]
    slots = dict.fromkeys(slot for items in worn if items for slot in items)
    if _known(worn) < MIN_KNOWN:
        return []
    return [
        _row(slot, [None if items is None else items.get(slot, {}) for items in worn], key=identity)
        for slot in slots
    ]


def identity(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what distinguishes an item from others: its name only if its id is unknown."""
    return {key: value for key, value in item.items() if key != "name" or not item.get("id")}


def _talents(sides: Sequence[Side]) -> Row | None:
    """Return the talents, if those of at least two jobs are known."""
    values = [side.talents or None for side in sides]
    return _row("talents", values) if _known(values) >= MIN_KNOWN else None


def _known(values: Sequence[object]) -> int:
    return sum(value is not None for value in values)


def _abilities(sides: Sequence[Side], margins: Sequence[float], *, first: int) -> list[AbilityRow]:
    """Return the abilities of all jobs, the largest difference first; none if there is nothing to compare."""
    damage = [None if side.abilities is None else _damage(side.abilities) for side in sides]
    own = damage[first]
    if own is None or _known(damage) < MIN_KNOWN:
        return []
    names = dict.fromkeys(name for each in damage if each for name in each)
    rows = [_ability_row(name, damage, own, margins) for name in names]
    return sorted(rows, key=lambda row: -row.largest)


def _damage(abilities: Sequence[Ability]) -> dict[tuple[str, bool], float]:
    """Return the DPS of each name. Abilities with the same name are added."""
    found: dict[tuple[str, bool], float] = {}
    for each in abilities:
        key = (each.name, each.pet)
        found[key] = found.get(key, 0.0) + (each.dps or 0.0)
    return found


def _ability_row(
    key: tuple[str, bool],
    damage: Sequence[Mapping[tuple[str, bool], float] | None],
    own: Mapping[tuple[str, bool], float],
    margins: Sequence[float],
) -> AbilityRow:
    differences = [
        None if each is None or each is own else each.get(key, 0.0) - own.get(key, 0.0) for each in damage
    ]
    return AbilityRow(
        name=key[0],
        is_pet=key[1],
        values=[None if each is None else each.get(key) for each in damage],
        differences=differences,
        is_clear=[abs(each or 0.0) > margin for each, margin in zip(differences, margins, strict=True)],
    )


def _profile_diff(side: Side, base: Side | None, *, max_listed: int) -> Diff | None:
    if base is None or side is base or base.profile is None or side.profile is None:
        return None
    return diff.compare(base.profile, side.profile, max_listed=max_listed)


PROBLEMS: dict[str, str] = {
    Problem.TOO_MANY: f"At most {MAX_JOBS} jobs can be compared. Choose fewer.",
    Problem.REPEATED: "The same job is chosen twice. Choose different jobs.",
    Problem.NOT_A_LINK: (
        "This is not a share link of this service. Enter the address of a share page, or its last part."
    ),
}
EXPIRED_TITLE = "Expired result"
MISSING: dict[str, str] = {
    Missing.EXPIRED: "This job has expired. Its result is no longer available.",
    Missing.UNFINISHED: "This job has not ended yet. Reload the page when it has.",
    Missing.NO_RESULT: "This job has no results.",
}
OPTIONS: dict[str, str] = {
    Option.ACTOR: "Actor",
    Option.FIGHT_STYLE: "Fight style",
    Option.TARGETS: "Targets",
    Option.LENGTH: "Fight length",
    Option.VARIATION: "Length variation",
    Option.ITERATIONS: "Iterations",
    Option.TARGET_ERROR: "Target error",
    Option.PROFILESETS: "Variants",
    Option.STAGES: "Stages",
    Option.BUILD: "Build",
    Option.GAME_VERSION: "Game data",
}
