"""Read a simulator's JSON report.

It reads both report versions and the layouts of all simulators since 2020
(`docs/reference/simulator-command-line.md#json-report`). Names and much else in a report come from the profile, so
all of it is untrusted: what cannot be used raises `BrokenReport`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, BinaryIO, ClassVar

from simc import json_stream, messages, report_details, report_values, stat_plots
from simc.json_stream import WHOLE, Shape, UnreadableJson
from simc.report_values import clean
from simc.reports import (
    CONFIDENCE,
    LARGEST_NUMBER,
    MAX_ERRORS,
    MAX_NAME_CHARACTERS,
    SMALLEST_NUMBER,
    BrokenReport,
    Player,
    Profileset,
    Report,
    Statistics,
)

_MESSAGE_LENGTH = 500
# Reading millions of messages would take an hour.
_MAX_MESSAGES = 10_000
# More actors or profilesets than any plan allows
MAX_ENTRIES = 100_000

_TALENTS_LENGTH = 2_000
_LISTED_TALENTS = 200
_LISTED_IDS = 40
_IDENTIFIER_DIGITS = 10
_ENCODED_ITEM_LENGTH = 10_000
_ITEM_NAME_LENGTH = 300

_GEAR_SLOTS = (
    "head", "neck", "shoulders", "back", "chest", "shirt", "tabard", "wrists", "hands", "waist", "legs",
    "feet", "finger1", "finger2", "trinket1", "trinket2", "main_hand", "off_hand", "ranged",
)  # fmt: skip
_ITEM: Shape = dict.fromkeys(("name", "encoded_item", "ilevel"))


class _TalentNames:
    """Talents as versions of 2020 list them: objects with a name."""

    shape: Shape = {"name": None}

    def __init__(self) -> None:
        self.kept: list[str] = []

    def take(self, entry: Any) -> None:
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str) and len(self.kept) < _LISTED_TALENTS:
            self.kept.append(name)


_EQUIPMENT: dict[str, Shape] = {"talents": _TalentNames, "gear": dict.fromkeys(_GEAR_SLOTS, _ITEM)}

_SAMPLE: Shape = dict.fromkeys(("mean", "mean_std_dev", "std_dev", "min", "max", "median", "count"))
_COLLECTED: dict[str, Shape] = {"dps": _SAMPLE, "target_metric": _SAMPLE, "fight_length": {"count": None}}
_ACTOR: dict[str, Shape] = {"name": WHOLE, "collected_data": _COLLECTED}
_FIRST_ACTOR: dict[str, Shape] = {**_ACTOR, **_EQUIPMENT}
_DETAILED_ACTOR: dict[str, Shape] = {
    **_FIRST_ACTOR,
    **report_details.ACTOR,
    "collected_data": {**_COLLECTED, **report_details.COLLECTED},
}
_METRIC = dict.fromkeys(("mean", "mean_stddev", "stddev", "min", "max", "iterations"))


def read_report(stream: BinaryIO, *, max_bytes: int, stage: int = 1, with_details: bool = False) -> Report:
    """Read one report of at most `max_bytes`; its profilesets get `stage` as their stage.

    The report is read as a stream. Memory: 20 MB and about 1 KB for each actor and profileset, but never more than
    200 MB (`tests/simc/test_report_memory.py`). `with_details` adds details of the first actors,
    which need at most 50 MB. Raises BrokenReport.
    """
    document = _read(stream, max_bytes=max_bytes, stage=stage, with_details=with_details)
    sim = _object(document, "sim")
    players = tuple(_collected(sim, "players"))
    if not players:
        raise BrokenReport("it contains no actors")
    options = _object(sim, "options")
    iterations = int(_count(options, "iterations"))
    return Report(
        players=players,
        profilesets=tuple(_collected(_object(sim, "profilesets"), "results")),
        raid_dps=_sample(_object(_object(sim, "statistics"), "raid_dps")),
        iterations=iterations,
        errors=tuple(getattr(document.get("logs"), "severe", ())),
        # Messages are optional: layouts that only forks use are ignored, not rejected.
        warnings=tuple(
            messages.distinct(
                [
                    *getattr(document.get("logs"), "kept", []),
                    *getattr(document.get("notifications"), "kept", []),
                    *report_values.impossible_remarks(),
                ]
            )
        ),
        details=report_details.document(
            sim["players"].details,
            options=options,
            targets=sim.get("targets"),
            plots=sim.get("dps_plot"),
            iterations=iterations,
        )
        if with_details
        else None,
        confidence=report_values.number(options.get("confidence_estimator")) or CONFIDENCE,
    )


def _read(stream: BinaryIO, *, max_bytes: int, stage: int, with_details: bool) -> dict[str, Any]:
    """Return the parts of a report that are used. Raises BrokenReport."""
    report_values.begin_report()
    detailed: dict[str, Shape] = (
        {"targets": report_details.Targets, "dps_plot": stat_plots.Plots} if with_details else {}
    )
    shape: dict[str, Shape] = {
        "logs": _Messages,
        "notifications": _Messages,
        "sim": {
            "options": {"iterations": None, "confidence_estimator": None, **report_details.OPTIONS},
            "players": partial(_Players, with_details=with_details),
            **detailed,
            "profilesets": {"results": partial(_Profilesets, stage)},
            "statistics": {"raid_dps": _SAMPLE},
        },
    }
    try:
        return json_stream.read(stream, shape, max_bytes=max_bytes)
    except UnreadableJson as error:
        raise BrokenReport(str(error)) from None


@dataclass
class _Entries:
    """A list of named objects, limited in number and in the length of their names."""

    title: ClassVar[str]
    kept: list[Any] = field(default_factory=list)
    name_characters: int = 0

    def add(self, name: str, entry: object) -> None:
        self.name_characters += len(name)
        self.kept.append(entry)
        if len(self.kept) > MAX_ENTRIES:
            raise BrokenReport(f"it has more than {MAX_ENTRIES:,} {self.title}")
        if self.name_characters > MAX_NAME_CHARACTERS:
            raise BrokenReport(f"the names of its {self.title} are too long")


class _Players(_Entries):
    title = "players"

    def __init__(self, *, with_details: bool) -> None:
        super().__init__()
        self.with_details = with_details
        self.details: list[dict[str, Any]] = []

    @property
    def shape(self) -> Shape:
        if self.with_details and len(self.details) < report_details.MAX_ACTORS:
            return _DETAILED_ACTOR
        # Talents and gear are shown only for the first actor.
        return _ACTOR if self.kept else _FIRST_ACTOR

    def take(self, entry: Any) -> None:
        has_details = self.shape is _DETAILED_ACTOR
        player = _player(_entry(entry, self.title))
        self.add(player.name, player)
        if has_details and player.reached:
            self.details.append(report_details.actor(entry, player))


class _Profilesets(_Entries):
    title = "results"
    shape: Shape

    def __init__(self, stage: int) -> None:
        super().__init__()
        self.stage = stage
        self.shape = {"name": WHOLE, **_METRIC, "metrics": _FirstMetric}

    def take(self, entry: Any) -> None:
        profileset = _profileset(_entry(entry, self.title), stage=self.stage)
        if profileset is not None:
            self.add(profileset.name, profileset)


class _FirstMetric:
    """A profileset's metrics; the first one is the primary one."""

    shape: Shape = _METRIC

    def __init__(self) -> None:
        self.kept: list[Mapping[str, Any]] = []

    def take(self, entry: Any) -> None:
        metric = _entry(entry, "metrics")
        self.kept = self.kept or [metric]


class _Messages:
    """The simulator's messages: objects with a level since August 2025, strings before."""

    shape: Shape = {"level": None, "message": None}

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.severe: list[str] = []
        self.taken = 0

    def take(self, entry: Any) -> None:
        self.taken += 1
        if self.taken > _MAX_MESSAGES:
            return
        message, level = (entry.get("message"), entry.get("level")) if isinstance(entry, dict) else (entry, None)
        if not isinstance(message, str):
            return
        if level == "severe" and len(self.severe) < MAX_ERRORS:
            self.severe.append(clean(message).strip()[:_MESSAGE_LENGTH])
        if messages.is_remark(message):
            self.kept = messages.distinct([*self.kept, message])


def _collected(parent: Mapping[str, Any], key: str) -> list[Any]:
    """Return the entries that an array's collector kept; an empty list if there is no such array."""
    collector = parent.get(key)
    if key in parent and not hasattr(collector, "kept"):
        raise _not_objects(key)
    return collector.kept if collector else []


def _entry(value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _not_objects(key)
    return value


def _not_objects(key: str) -> BrokenReport:
    return BrokenReport(f"its {key} is not a list of objects")


def _object(parent: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key, {})
    if not isinstance(value, dict):
        raise BrokenReport(f"its {key} is not an object")
    return value


def _number(parent: Mapping[str, Any], key: str) -> float:
    value: object = parent.get(key, 0.0)
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST_NUMBER:
        raise BrokenReport(f"its {key} is not a finite number in the expected range")
    return float(value) if abs(value) >= SMALLEST_NUMBER else 0.0


def _count(parent: Mapping[str, Any], key: str) -> float:
    """Return a number that cannot be negative, such as an error."""
    return report_values.not_negative(_number(parent, key))


def _string(parent: Mapping[str, Any], key: str) -> str:
    value = parent.get(key)
    if not isinstance(value, str):
        raise BrokenReport(f"its {key} is not a string")
    return clean(value)


def _sample(block: Mapping[str, Any]) -> Statistics:
    return Statistics(
        mean=_number(block, "mean"),
        mean_stddev=_count(block, "mean_std_dev"),
        stddev=_count(block, "std_dev"),
        min=_number(block, "min"),
        max=_number(block, "max"),
    )


def _player(entry: Mapping[str, Any]) -> Player:
    collected = _object(entry, "collected_data")
    # Absent when the mean is 0.
    dps = _object(collected, "dps")
    fights = max(_count(dps, "count"), _count(_object(collected, "fight_length"), "count"))
    statistics = _sample(dps)
    return Player(
        name=_string(entry, "name"),
        dps=statistics,
        talents=_talents(entry.get("talents")),
        gear=tuple(_gear(entry.get("gear"))),
        reached=bool(statistics.mean or fights),
        fights=int(fights),
        target=_target(report_values.mapping(collected.get("target_metric"))),
    )


def _target(block: Mapping[str, Any]) -> Statistics | None:
    """Return the mean and the error of the metric that the target error applies to, None if they are missing."""
    mean, error = report_values.number(block.get("mean")), report_values.number(block.get("mean_std_dev"))
    if mean is None or error is None:
        return None
    return Statistics(mean=mean, mean_stddev=error, stddev=0, min=0, max=0)


def _profileset(entry: Mapping[str, Any], *, stage: int) -> Profileset | None:
    metrics = _collected(entry, "metrics") if entry.get("metrics") else []
    block = metrics[0] if metrics else entry
    statistics = metric_of(block)
    # One layout leaves out a failed or cancelled profileset; the other lists it with zeros.
    if not statistics.mean:
        return None
    iterations = int(_count(block, "iterations")) if "iterations" in block else None
    return Profileset(_string(entry, "name"), statistics, stage, iterations)


def metric_of(block: Mapping[str, Any]) -> Statistics:
    """Return the figures of one metric of a profileset. Raises BrokenReport."""
    return Statistics(
        mean=_number(block, "mean"),
        mean_stddev=_count(block, "mean_stddev"),
        stddev=_count(block, "stddev"),
        min=_number(block, "min"),
        max=_number(block, "max"),
    )


def _talents(value: object) -> str:
    if isinstance(value, _TalentNames):
        value = "/".join(value.kept)
    return clean(value)[:_TALENTS_LENGTH] if isinstance(value, str) else ""


def _gear(value: object) -> Iterable[dict[str, Any]]:
    """Yield items in the layout of the summary. Layouts that only forks use are ignored, not rejected."""
    if isinstance(value, dict):
        for slot in _GEAR_SLOTS:
            item = value.get(slot)
            if isinstance(item, dict) and isinstance(item.get("name"), str):
                yield _item(slot, item)


def _item(slot: str, item: Mapping[str, Any]) -> dict[str, Any]:
    encoded = item.get("encoded_item")
    text = encoded[:_ENCODED_ITEM_LENGTH] if isinstance(encoded, str) else ""
    options: dict[str, list[int]] = {}
    for key, _, value in (part.partition("=") for part in text.split(",")):
        digits = [part for part in re.split("[/:]", value) if part.isascii() and part.isdigit()]
        options[key] = [int(part) for part in digits[:_LISTED_IDS] if len(part) <= _IDENTIFIER_DIGITS]
    ilevel = item.get("ilevel")
    optional = {
        "id": next(iter(options.get("id", ())), None),
        "ilevel": ilevel if type(ilevel) is int and 0 < ilevel < LARGEST_NUMBER else None,
        "bonusIds": options.get("bonus_id"),
        "gemIds": options.get("gem_id"),
        "enchantId": next(iter(options.get("enchant_id", ())), None),
        "craftedStatIds": options.get("crafted_stats"),
    }
    known = {key: value for key, value in optional.items() if value}
    return {"slot": slot, "name": clean(item["name"])[:_ITEM_NAME_LENGTH], **known}
