"""Details of a job's result: where the damage comes from, buffs, the course of the fight, gear and talents.

`simc.report_details` builds the document when the job ends. It is stored as JSON, compressed with zlib. Pages read
it with `details_of`; the API returns the document itself, which the classes below describe. Reports differ, so all
parts of an actor can be missing: a number is then None, a text or a list empty.
"""

import json
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, NotRequired, TypedDict, get_args, get_origin

from jobs.artifacts import retention
from jobs.models import Job, JobDetails
from simc import report_details
from simc.report_details import MAX_ABILITIES, MAX_ACTORS, MAX_BUFFS, MAX_NAMES, MAX_VALUES
from simc.stat_plots import MAX_CURVE_POINTS
from simc.stat_weights import MAX_STATS
from simservice.shapes import ALWAYS, Count, Percent, Rule, bare_type, json_fields

# Compressed, and as JSON
MAX_BYTES = 256 << 10
_DOCUMENT_BYTES = 32 << 20
# Steps in which a document is made smaller until it fits: the lengths of its lists of abilities and buffs.
_SHORTER = (100, 50, 20, 10, 5)
# Then, the parts that it loses.
_DROPPED = (
    ("resources",),
    ("plots",),
    ("abilities", "buffs", "damage", "gear", "stats", "talents"),
    ("weights",),
)

Fraction = Annotated[float, Rule(minimum=0, maximum=1)]
Amount = Annotated[float, Rule(minimum=0)]
Name = Annotated[str, Rule(maxLength=300)]
Numbers = Annotated[Mapping[str, float], Rule(maxProperties=MAX_NAMES)]


class ItemFields(TypedDict):
    """The fields of a piece of gear, without its item id."""

    slot: str
    name: str
    ilevel: NotRequired[int]
    bonusIds: NotRequired[list[int]]
    gemIds: NotRequired[list[int]]
    enchantId: NotRequired[int]
    craftedStatIds: NotRequired[Annotated[list[int], "Ids of the stats that a crafted item was made with"]]


class Item(ItemFields):
    """A piece of gear."""

    id: NotRequired[int]


@dataclass(frozen=True, kw_only=True)
class Fight:
    """The options that matter for all actors, as they were simulated."""

    style: Name = ""
    targets: Count | None = None
    length: Annotated[Amount | None, "Mean length that the profile requests, in seconds"] = None
    variation: Annotated[Fraction | None, "How much the length varies, from 0 to 1"] = None
    iterations: Count | None = None
    target_error: Annotated[Amount | None, "In percent of the mean"] = None
    game_version: Name = ""


@dataclass(frozen=True, kw_only=True)
class Dps:
    """Damage per second over all iterations."""

    schema_name: ClassVar[str] = "DamagePerSecond"
    mean: Amount | None = None
    error: Annotated[Amount | None, "Margin of error of the mean: half of the 95 % interval"] = None
    stddev: Amount | None = None
    min: Amount | None = None
    median: Amount | None = None
    max: Amount | None = None


@dataclass(frozen=True, kw_only=True)
class FightLength:
    """Simulated lengths of the fight, in seconds."""

    mean: Amount | None = None
    min: Amount | None = None
    max: Amount | None = None


@dataclass(frozen=True, kw_only=True)
class Ability:
    """An ability, or a pet with its abilities as children. Figures are means of one fight."""

    name: Name = ""
    id: Annotated[int | None, "Id of the spell"] = None
    school: Name = ""
    pet: Annotated[bool, Rule(enum=[True]), "Present for a pet"] = False
    share: Annotated[Fraction | None, "Share of the actor's damage with pets, including the children", ALWAYS] = (
        None
    )
    dps: Annotated[Amount | None, "Includes the children"] = None
    executes: Amount | None = None
    hits: Annotated[Amount | None, "Number of hits and ticks, or that of the children if it has none"] = None
    average: Annotated[Amount | None, "Damage of a hit or tick"] = None
    crit_percent: Annotated[Amount | None, "Share of the hits and ticks that are critical"] = None
    children: Annotated[tuple["Ability", ...], Rule(maxItems=MAX_ABILITIES)] = ()


@dataclass(frozen=True, kw_only=True)
class Buff:
    """A buff of an actor, or a debuff of its targets."""

    name: Name = ""
    id: Annotated[int | None, "Id of the spell"] = None
    uptime: Annotated[Percent | None, "In percent of the fight", ALWAYS] = None
    count: Annotated[Amount | None, "Mean number of times that it starts in one fight"] = None
    debuff: Annotated[bool, ALWAYS] = False


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Mean damage per second over the course of the fight."""

    step: Annotated[float, Rule(type="integer", minimum=1), "Seconds that each value covers", ALWAYS]
    values: Annotated[tuple[float, ...], Rule(maxItems=MAX_VALUES), ALWAYS]


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A resource such as mana, as means of one fight."""

    name: Annotated[Name, ALWAYS] = ""
    gained: Amount | None = None
    lost: Annotated[float | None, "Amount spent"] = None
    overflowed: Annotated[float | None, "Amount gained but wasted"] = None
    end: Annotated[float | None, "Amount left at the end"] = None


@dataclass(frozen=True, kw_only=True)
class Stats:
    """Stats of an actor with its buffs, by the simulator's names."""

    attribute: Numbers = field(default_factory=dict)
    resources: Numbers = field(default_factory=dict)
    stats: Numbers = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Weight:
    """What one point of a stat is worth, in the metric of the weights."""

    schema_name: ClassVar[str] = "StatWeight"
    stat: Annotated[Name, "The simulator's abbreviation, for example `Crit`", ALWAYS] = ""
    name: Annotated[Name, ALWAYS] = ""
    weight: Annotated[float | None, ALWAYS] = None
    error: Annotated[Amount | None, "Estimated margin of error: half of the 95 % interval"] = None
    delta: Annotated[float | None, "Amount of the stat that was added for the second simulation"] = None


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Stat weights of an actor, the largest first. The simulator calls them scale factors."""

    schema_name: ClassVar[str] = "StatWeights"
    metric: Annotated[Name, "What the weights are measured in, for example `dps`", ALWAYS] = ""
    normalized: Annotated[bool, "Whether the profile itself divides them by the weight of one stat", ALWAYS] = False
    stats: Annotated[tuple[Weight, ...], Rule(maxItems=MAX_STATS), ALWAYS] = ()
    pawn: Annotated[str, "The weights as a string for the Pawn addon"] = ""


@dataclass(frozen=True, kw_only=True)
class PlotPoint:
    """A simulation with more or less of a stat."""

    schema_name: ClassVar[str] = "StatPlotPoint"
    change: Annotated[float | None, "Change of the stat", ALWAYS] = None
    dps: Annotated[Amount | None, ALWAYS] = None
    error: Annotated[Amount | None, "Margin of error of the mean: half of the 95 % interval"] = None


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Damage per second with more or less of a stat, by the change."""

    schema_name: ClassVar[str] = "StatPlot"
    stat: Annotated[Name, "The simulator's abbreviation, for example `Crit`", ALWAYS] = ""
    name: Annotated[Name, ALWAYS] = ""
    points: Annotated[tuple[PlotPoint, ...], Rule(maxItems=MAX_CURVE_POINTS), ALWAYS] = ()


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Details of an actor. Lists have the largest entries first."""

    schema_name: ClassVar[str] = "ActorDetails"
    class_name: Name = ""
    name: str = ""
    specialization: Name = ""
    race: Name = ""
    level: Count | None = None
    role: Name = ""
    dps: Dps | None = None
    fight_length: FightLength | None = None
    abilities: Annotated[tuple[Ability, ...], Rule(maxItems=MAX_ABILITIES)] = ()
    buffs: Annotated[tuple[Buff, ...], Rule(maxItems=MAX_BUFFS)] = ()
    damage: Timeline | None = None
    resources: Annotated[tuple[Resource, ...], Rule(maxItems=MAX_NAMES)] = ()
    stats: Stats | None = None
    gear: tuple[Item, ...] = ()
    talents: str = ""
    weights: Weights | None = None
    plots: Annotated[tuple[Plot, ...], Rule(maxItems=MAX_STATS)] = ()


@dataclass(frozen=True, kw_only=True)
class Details:
    """Details of the report. Parts that the report does not have are omitted."""

    schema_name: ClassVar[str] = "ResultDetails"
    version: Annotated[
        Literal[1], "Version of this object. New fields can be added without a new version", ALWAYS
    ] = 1
    fight: Annotated[Fight, ALWAYS]
    actors: Annotated[tuple[Actor, ...], Rule(maxItems=MAX_ACTORS), "In the profile's order", ALWAYS]


def details_of(job: Job, *, shown: Collection[int] | None = None) -> Details | None:
    """Return the details of a job's result, or None if it has none. `shown` is as in `details_in`."""
    document = document_of(job)
    return None if document is None else details_in(document, shown=shown)


def details_of_jobs(jobs: Iterable[Job]) -> dict[int, Details]:
    """Return the details of several jobs by their ids, without those that have none.

    Actors other than the first one have no lists.
    """
    kept = [job.pk for job in jobs if retention.is_kept(job)]
    found = JobDetails.objects.filter(job_id__in=kept, version=report_details.VERSION)
    documents = {job_id: _unpacked(bytes(content)) for job_id, content in found.values_list("job_id", "document")}
    return {
        job_id: details_in(document, shown=[0]) for job_id, document in documents.items() if document is not None
    }


def document_of(job: Job) -> dict[str, Any] | None:
    """Return the details of a job's result as JSON, or None if it has none or they are unreadable.

    They are unavailable at the end of the retention period, even before they are removed.
    """
    if not retention.is_kept(job):
        return None
    row = JobDetails.objects.filter(job_id=job.pk, version=report_details.VERSION).first()
    return None if row is None else _unpacked(bytes(row.document))


def packed(document: Mapping[str, Any], *, scrub: Callable[[str], str] = str) -> bytes:
    """Return a document as stored. One that is too large loses its smallest abilities and buffs, then parts.

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
    entries = _objects(document.get("actors"))
    full = range(len(entries)) if shown is None else {min(place, len(entries) - 1) for place in shown}
    actors = (entry if place in full else _brief(entry) for place, entry in enumerate(entries))
    fight = _read(Fight, document.get("fight")) or Fight()
    return Details(fight=fight, actors=tuple(_read(Actor, entry) for entry in actors))


def _brief(actor: Mapping[str, Any]) -> dict[str, Any]:
    return {key: part for key, part in actor.items() if key == "dps" or not isinstance(part, list | dict)}


def _read(kind: Any, value: object) -> Any:
    """Return an object from its JSON, or None. A part of a wrong type counts as absent."""
    if not isinstance(value, dict):
        return None
    made = kind(**{each.name: _reader_of(each.hint)(value.get(each.key)) for each in json_fields(kind)})
    return None if kind is Timeline and not (made.step and made.values) else made


@cache
def _reader_of(hint: Any) -> Callable[[object], Any]:
    """Return the function that reads the JSON of a field with this type."""
    kind = bare_type(hint)
    if kind in _READERS:
        return _READERS[kind]
    if get_origin(kind) is not tuple:
        return lambda value: _read(kind, value)
    (entry, _) = get_args(kind)
    if is_dataclass(entry):
        return lambda value: tuple(_read(entry, each) for each in _objects(value))
    return lambda value: tuple(_objects(value))


def _objects(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _number(value: object) -> float | None:
    return float(value) if type(value) in (int, float) else None  # type: ignore[arg-type]


def _figures(value: object) -> dict[str, float]:
    found = {name: _number(each) for name, each in value.items()} if isinstance(value, dict) else {}
    return {name: each for name, each in found.items() if each is not None}


_READERS: Mapping[Any, Callable[[Any], Any]] = {
    str: lambda value: value if isinstance(value, str) else "",
    float: _number,
    int: lambda value: value if type(value) is int else None,
    bool: lambda value: value is True,
    Literal[1]: lambda _: 1,
    tuple[float, ...]: lambda value: (
        tuple(_number(each) or 0.0 for each in value) if isinstance(value, list) else ()
    ),
    Mapping[str, float]: _figures,
}
