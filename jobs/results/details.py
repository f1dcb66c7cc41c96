"""Details of a job's result: where the damage comes from, buffs, the course of the fight, gear and talents.

`details_of` returns them for pages, `document_of` for the API. The document is JSON, compressed with zlib. Reports
differ, so every part is optional: a number is None if the report does not have it, a list is empty.
"""

import json
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, TypeVar

from jobs.artifacts import retention
from jobs.models import Job, JobDetails
from simc import report_details

# Compressed, and as JSON
MAX_BYTES = 256 << 10
_DOCUMENT_BYTES = 32 << 20
# Steps in which a document is made smaller until it fits: the lengths of its lists of abilities and buffs.
_SHORTER = (100, 50, 20, 10, 5)
# Then, the parts that it loses.
_DROPPED = (("resources",), ("abilities", "buffs", "damage", "gear", "stats", "talents"))
_DEPTH = 10


@dataclass(frozen=True, kw_only=True)
class Fight:
    """The options that matter for all actors, as they were simulated."""

    style: str = ""
    targets: int | None = None
    length: float | None = None
    """The mean length that the profile asks for, in seconds."""
    variation: float | None = None
    """By how much the length varies, from 0 to 1."""
    iterations: int | None = None
    target_error: float | None = None
    """In percent."""
    game_version: str = ""


@dataclass(frozen=True, kw_only=True)
class Dps:
    """Damage per second over all iterations."""

    mean: float | None = None
    error: float | None = None
    """Half the width of the 95 % confidence interval of the mean."""
    min: float | None = None
    max: float | None = None
    median: float | None = None
    stddev: float | None = None


@dataclass(frozen=True, kw_only=True)
class FightLength:
    """The simulated lengths of the fight, in seconds."""

    mean: float | None = None
    min: float | None = None
    max: float | None = None


@dataclass(frozen=True, kw_only=True)
class Ability:
    """An ability, or a pet with its abilities as children. Figures include those of the children."""

    name: str = ""
    id: int | None = None
    school: str = ""
    share: float | None = None
    """The part of the actor's damage, from 0 to 1. Pets count as part of their owner."""
    dps: float | None = None
    executes: float | None = None
    """Mean number of uses in one fight."""
    hits: float | None = None
    """Mean number of hits and ticks in one fight."""
    average: float | None = None
    """Mean damage of a hit or tick."""
    crit_percent: float | None = None
    pet: bool = False
    children: "tuple[Ability, ...]" = ()


@dataclass(frozen=True, kw_only=True)
class Buff:
    """A buff of an actor, or a debuff of its target."""

    name: str = ""
    id: int | None = None
    uptime: float | None = None
    """In percent of the fight."""
    count: float | None = None
    """Mean number of times that it starts in one fight."""
    debuff: bool = False


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Mean damage per second over the course of the fight: one value for each `step` seconds."""

    step: float
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A resource such as mana, as means of one fight. `end` is what is left at the end."""

    name: str = ""
    gained: float | None = None
    lost: float | None = None
    overflowed: float | None = None
    end: float | None = None


@dataclass(frozen=True, kw_only=True)
class Stats:
    """The stats of an actor with its buffs, by the simulator's names."""

    attribute: Mapping[str, float] = field(default_factory=dict)
    resources: Mapping[str, float] = field(default_factory=dict)
    stats: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Actor:
    """An actor of the profile. Lists have the largest entries first."""

    name: str = ""
    class_name: str = ""
    specialization: str = ""
    race: str = ""
    level: int | None = None
    role: str = ""
    dps: Dps | None = None
    fight_length: FightLength | None = None
    abilities: tuple[Ability, ...] = ()
    buffs: tuple[Buff, ...] = ()
    damage: Timeline | None = None
    resources: tuple[Resource, ...] = ()
    stats: Stats | None = None
    gear: tuple[dict[str, Any], ...] = ()
    """Items in the layout of the summary."""
    talents: str = ""


@dataclass(frozen=True, kw_only=True)
class Details:
    """The details of a report: the fight, and the actors in the profile's order."""

    fight: Fight
    actors: tuple[Actor, ...]


def details_of(job: Job, *, shown: Collection[int] | None = None) -> Details | None:
    """Return the details of a job's result, or None if it has none. `shown` is as in `details_in`. One query."""
    document = document_of(job)
    return None if document is None else details_in(document, shown=shown)


def details_of_jobs(jobs: Iterable[Job]) -> dict[int, Details]:
    """Return the details of several jobs by their ids, without those that have none. One query.

    Actors other than the first one have no lists.
    """
    kept = [job.pk for job in jobs if retention.is_kept(job)]
    found = JobDetails.objects.filter(job_id__in=kept, version=report_details.VERSION)
    documents = {job_id: _unpacked(bytes(content)) for job_id, content in found.values_list("job_id", "document")}
    return {
        job_id: details_in(document, shown=[0]) for job_id, document in documents.items() if document is not None
    }


def document_of(job: Job) -> dict[str, Any] | None:
    """Return the details of a job's result as JSON, or None if it has none or they are unreadable. One query.

    They are unavailable at the end of the retention period, even before they are removed.
    """
    if not retention.is_kept(job):
        return None
    row = JobDetails.objects.filter(job_id=job.pk, version=report_details.VERSION).first()
    return None if row is None else _unpacked(bytes(row.document))


def packed(document: Mapping[str, Any], *, scrub: Callable[[str], str] = str) -> bytes:
    """Return a document as stored. One that is too large loses its smallest abilities and buffs, then resources.

    `scrub` removes secrets from its text.
    """
    for smaller in _ever_smaller(document):
        text = json.dumps(smaller, allow_nan=False, separators=(",", ":"))
        content = zlib.compress(scrub(text).encode())
        if len(content) <= MAX_BYTES:
            break
    return content


def _ever_smaller(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield document
    actors = document.get("actors", [])
    for length in _SHORTER:
        actors = [_shorter(actor, length) for actor in actors]
        yield {**document, "actors": actors}
    for dropped in _DROPPED:
        actors = [{key: part for key, part in actor.items() if key not in dropped} for actor in actors]
        yield {**document, "actors": actors}


def _shorter(entry: Mapping[str, Any], length: int) -> dict[str, Any]:
    """Return an actor or ability with its largest abilities and buffs."""
    shorter = {key: entry[key][:length] for key in ("abilities", "buffs", "children") if key in entry}
    for key in shorter.keys() - {"buffs"}:
        shorter[key] = [_shorter(child, length) for child in shorter[key]]
    return {**entry, **shorter}


def _unpacked(content: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(zlib.decompressobj().decompress(content, _DOCUMENT_BYTES))
    except (zlib.error, ValueError):
        return None
    return document if isinstance(document, dict) else None


def details_in(document: Mapping[str, Any], *, shown: Collection[int] | None = None) -> Details:
    """Return the details in a document. Actors other than those `shown` have no lists, because there can be many.

    `shown` are places, counted from 0; those after the last actor count as the last one.
    """
    fight = Fight(**_simple(Fight, _object(document.get("fight"))))
    entries = _objects(document.get("actors"))
    full = range(len(entries)) if shown is None else {min(place, len(entries) - 1) for place in shown}
    actors = (_actor(entry) if place in full else _brief_actor(entry) for place, entry in enumerate(entries))
    return Details(fight=fight, actors=tuple(actors))


def _brief_actor(entry: Mapping[str, Any]) -> Actor:
    return Actor(**_simple(Actor, entry), dps=_optional(Dps, entry.get("dps")))


def _actor(entry: Mapping[str, Any]) -> Actor:
    return Actor(
        **_simple(Actor, entry),
        dps=_optional(Dps, entry.get("dps")),
        fight_length=_optional(FightLength, entry.get("fightLength")),
        abilities=_abilities(entry.get("abilities")),
        buffs=tuple(Buff(**_simple(Buff, buff)) for buff in _objects(entry.get("buffs"))),
        damage=_timeline(_object(entry.get("damage"))),
        resources=tuple(Resource(**_simple(Resource, each)) for each in _objects(entry.get("resources"))),
        stats=_stats(entry.get("stats")),
        gear=tuple(_objects(entry.get("gear"))),
    )


def _abilities(value: object, *, depth: int = 1) -> tuple[Ability, ...]:
    if depth > _DEPTH:
        return ()
    return tuple(
        Ability(**_simple(Ability, entry), children=_abilities(entry.get("children"), depth=depth + 1))
        for entry in _objects(value)
    )


def _timeline(entry: Mapping[str, Any]) -> Timeline | None:
    step, values = _number(entry.get("step")), _numbers(entry.get("values"))
    return Timeline(step=step, values=values) if step and values else None


def _stats(value: object) -> Stats | None:
    if not isinstance(value, dict):
        return None
    return Stats(**{name: _named_numbers(value.get(name)) for name in ("attribute", "resources", "stats")})


def _named_numbers(value: object) -> dict[str, float]:
    found = {name: _number(each) for name, each in _object(value).items()}
    return {name: each for name, each in found.items() if each is not None}


T = TypeVar("T", Dps, FightLength)


def _optional(kind: type[T], value: object) -> T | None:
    return kind(**_simple(kind, value)) if isinstance(value, dict) else None


def _simple(kind: Any, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a class that are texts, numbers and booleans."""
    return {name: read(entry.get(key)) for name, key, read in _simple_fields(kind)}


@cache
def _simple_fields(kind: type[Any]) -> list[tuple[str, str, Any]]:
    """Return these fields with their keys in a document and their readers."""
    return [
        (each.name, "class" if each.name == "class_name" else _camel_case(each.name), _READERS[each.type])
        for each in fields(kind)
        if each.type in _READERS
    ]


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _numbers(value: object) -> tuple[float, ...]:
    found = map(_number, value) if isinstance(value, list) else ()
    return tuple(number or 0.0 for number in found)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    return float(value) if type(value) in (int, float) else None  # type: ignore[arg-type]


def _integer(value: object) -> int | None:
    return value if type(value) is int else None


def _flag(value: object) -> bool:
    return value is True


_READERS: dict[Any, Any] = {str: _text, float | None: _number, int | None: _integer, bool: _flag}
