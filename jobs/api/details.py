"""Details of a job's result, as `GET jobs/{id}/result?include=details` returns them.

`simc.report_details` builds the document when the job ends, and `jobs.results.details` stores it.
"""

from typing import Annotated, Literal, NotRequired, TypedDict

from jobs.api.summary import Item
from simc.report_details import MAX_ABILITIES, MAX_ACTORS, MAX_BUFFS, MAX_NAMES, MAX_VALUES
from simservice.api.shapes import Count, Percent, Rule

Fraction = Annotated[float, Rule(minimum=0, maximum=1)]
Amount = Annotated[float, Rule(minimum=0)]
Name = Annotated[str, Rule(maxLength=300)]
Numbers = Annotated[dict[str, float], Rule(maxProperties=MAX_NAMES)]


class Fight(TypedDict):
    """The options that matter for all actors, as they were simulated."""

    style: NotRequired[Name]
    targets: NotRequired[Count]
    length: NotRequired[Annotated[Amount, "Mean length that the profile requests, in seconds"]]
    variation: NotRequired[Annotated[Fraction, "How much the length varies, from 0 to 1"]]
    iterations: NotRequired[Count]
    targetError: NotRequired[Annotated[Amount, "In percent of the mean"]]
    gameVersion: NotRequired[Name]


class DamagePerSecond(TypedDict):
    """Damage per second over all iterations."""

    mean: NotRequired[Amount]
    error: NotRequired[Annotated[Amount, "Margin of error of the mean: half of the 95 % interval"]]
    stddev: NotRequired[Amount]
    min: NotRequired[Amount]
    median: NotRequired[Amount]
    max: NotRequired[Amount]


class FightLength(TypedDict):
    """Simulated lengths of the fight, in seconds."""

    mean: NotRequired[Amount]
    min: NotRequired[Amount]
    max: NotRequired[Amount]


class Ability(TypedDict):
    """An ability, or a pet with its abilities as children. Figures are means of one fight."""

    name: NotRequired[Name]
    id: NotRequired[Annotated[int, "Id of the spell"]]
    school: NotRequired[Name]
    pet: NotRequired[Annotated[Literal[True], "Present for a pet"]]
    share: Annotated[Fraction, "Share of the actor's damage with pets, including the children"]
    dps: NotRequired[Annotated[Amount, "Includes the children"]]
    executes: NotRequired[Amount]
    hits: NotRequired[Annotated[Amount, "Number of hits and ticks, or that of the children if it has none"]]
    average: NotRequired[Annotated[Amount, "Damage of a hit or tick"]]
    critPercent: NotRequired[Annotated[float, Rule(minimum=0), "Share of the hits and ticks that are critical"]]
    children: NotRequired[Annotated[list["Ability"], Rule(maxItems=MAX_ABILITIES)]]


class Buff(TypedDict):
    """A buff of an actor, or a debuff of its targets."""

    name: NotRequired[Name]
    id: NotRequired[Annotated[int, "Id of the spell"]]
    uptime: Annotated[Percent, "In percent of the fight"]
    count: NotRequired[Annotated[Amount, "Mean number of times that it starts in one fight"]]
    debuff: bool


class Timeline(TypedDict):
    """Mean damage per second over the course of the fight."""

    step: Annotated[int, Rule(minimum=1), "Seconds that each value covers"]
    values: Annotated[list[float], Rule(maxItems=MAX_VALUES)]


class Resource(TypedDict):
    """A resource such as mana, as means of one fight."""

    name: Name
    gained: NotRequired[Amount]
    lost: NotRequired[Annotated[float, "Amount spent"]]
    overflowed: NotRequired[Annotated[float, "Amount gained but wasted"]]
    end: NotRequired[Annotated[float, "Amount left at the end"]]


class Stats(TypedDict):
    """Stats of an actor with its buffs, by the simulator's names."""

    attribute: NotRequired[Numbers]
    resources: NotRequired[Numbers]
    stats: NotRequired[Numbers]


_Class = TypedDict("_Class", {"class": NotRequired[Name]})


class ActorDetails(_Class):
    """Details of an actor. Lists have the largest entries first."""

    name: NotRequired[str]
    specialization: NotRequired[Name]
    race: NotRequired[Name]
    level: NotRequired[Count]
    role: NotRequired[Name]
    dps: NotRequired[DamagePerSecond]
    fightLength: NotRequired[FightLength]  # noqa: N815 - a field of the API
    abilities: NotRequired[Annotated[list[Ability], Rule(maxItems=MAX_ABILITIES)]]
    buffs: NotRequired[Annotated[list[Buff], Rule(maxItems=MAX_BUFFS)]]
    damage: NotRequired[Timeline]
    resources: NotRequired[Annotated[list[Resource], Rule(maxItems=MAX_NAMES)]]
    stats: NotRequired[Stats]
    gear: NotRequired[list[Item]]
    talents: NotRequired[str]


class ResultDetails(TypedDict):
    """Details of the report. Parts that the report does not have are omitted."""

    version: Annotated[Literal[1], "Version of this object. New fields can be added without a new version"]
    fight: Fight
    actors: Annotated[list[ActorDetails], Rule(maxItems=MAX_ACTORS), "In the profile's order"]


EXAMPLE_DETAILS: ResultDetails = {
    "version": 1,
    "fight": {"style": "Patchwerk", "targets": 1, "length": 300.0, "variation": 0.2, "iterations": 10000},
    "actors": [
        {
            "name": "Example",
            "class": "Mage",
            "specialization": "Frost",
            "dps": {"mean": 1523400.5, "error": 1176.0, "min": 1468002.1, "median": 1523120.7, "max": 1590311.8},
            "abilities": [
                {"name": "Frostbolt", "share": 0.82, "dps": 1249188.4, "executes": 101.5, "hits": 103.0},
                {"name": "Water Elemental", "pet": True, "share": 0.18, "dps": 274212.1},
            ],
            "buffs": [{"name": "Icy Veins", "uptime": 41.2, "count": 2.9, "debuff": False}],
            "damage": {"step": 1, "values": [812300.0, 1702400.25, 1533100.5]},
        }
    ],
}
