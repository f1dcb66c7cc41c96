"""The simulator's JSON report: reading it, judging it, and the summary that the API shows.

Both report versions and the layouts of all trees since 2020 are read (simulator-cli, sections 4 and 8). Names
and much else in a report come from the profile, so all of it counts as a stranger's: what cannot be used
raises `BrokenReport`.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

from jobs.simulator import messages

_LISTED_RESULTS = 200
_NAME_LENGTH = 300
_TALENTS_LENGTH = 2_000
_MESSAGE_LENGTH = 500
_LISTED_ERRORS = 20
_LISTED_IDS = 40
_IDENTIFIER_DIGITS = 10
# Far above anything simulated, and low enough that no product of two numbers here overflows.
_LARGEST_NUMBER = 1e30
# Real reports have about 15 bytes to each value. A cap's worth of text may hold no more values than this, or
# "[[],[],[],…" would take twenty times its own size in memory.
_BYTES_PER_VALUE = 10

_GEAR_SLOTS = (
    "head", "neck", "shoulders", "back", "chest", "shirt", "tabard", "wrists", "hands", "waist", "legs",
    "feet", "finger1", "finger2", "trinket1", "trinket2", "main_hand", "off_hand", "ranged",
)  # fmt: skip
# All the summary is made of. Everything else is dropped while the text is parsed: it is most of a report.
_KEPT_KEYS = frozenset(
    (
        "sim", "options", "iterations", "logs", "level", "message", "notifications",
        "players", "name", "talents", "gear", "encoded_item", "ilevel", "collected_data", "dps",
        "profilesets", "results", "metrics", "statistics", "raid_dps",
        "mean", "mean_std_dev", "mean_stddev", "std_dev", "stddev", "min", "max",
        *_GEAR_SLOTS,
    )
)  # fmt: skip


class BrokenReport(Exception):
    """The report cannot be used; `reason` says why, in words for a log."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Statistics:
    """One metric over all iterations, in the metric's unit; zeros where nothing was collected."""

    mean: float
    mean_stddev: float
    """The standard error of the mean."""
    stddev: float
    min: float
    max: float

    @property
    def mean_error(self) -> float:
        """Half the width of the 95 % confidence interval, whatever `confidence` the profile sets."""
        return 1.96 * self.mean_stddev


@dataclass(frozen=True, slots=True)
class Player:
    """An actor of the profile, in the profile's order; `gear` has the summary's form."""

    name: str
    dps: Statistics
    talents: str
    gear: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Profileset:
    """A profileset that produced a result, in the metric that the profile puts first."""

    name: str
    statistics: Statistics
    stage: int


@dataclass(frozen=True, slots=True)
class Report:
    """What the service uses of one report. There is at least one player."""

    players: tuple[Player, ...]
    profilesets: tuple[Profileset, ...]
    raid_dps: Statistics
    iterations: int
    """The baseline's, as really done."""
    errors: tuple[str, ...]
    """Messages the simulator itself calls severe; none where it does not grade them (before August 2025)."""
    warnings: tuple[str, ...] = ()
    """What it remarked without failing."""


def read_report(stream: BinaryIO, *, max_bytes: int, stage: int = 1) -> Report:
    """Read one report of at most `max_bytes`, whose profilesets then belong to `stage`.

    A real report takes about twice `max_bytes` of memory at most, a malicious one ten times.

    Raises BrokenReport.
    """
    document = _parse(stream, max_bytes=max_bytes)
    sim = _object(document, "sim")
    players = tuple(_player(entry) for entry in _objects(sim, "players"))
    if not players:
        raise BrokenReport("it names no actor: not a report of a simulation")
    results = _objects(_object(sim, "profilesets"), "results")
    return Report(
        players=players,
        profilesets=tuple(_profilesets(results, stage=stage)),
        raid_dps=_sample(_object(_object(sim, "statistics"), "raid_dps")),
        iterations=int(_number(_object(sim, "options"), "iterations")),
        errors=tuple(_severe_messages(document)),
        warnings=tuple(messages.reported_messages(document)),
    )


def summarise(
    report: Report, *, metric: Literal["dps", "raid_dps"], multistage: Mapping[str, Any], partial: bool
) -> dict[str, Any]:
    """Return the `summary` of a result (contract, section 4), ready for JSON and jsonb.

    `multistage` becomes `multiStage` as it is. Profilesets are built on the first actor, so that one is the
    main actor of a profile that has any; several actors without profilesets have no headline.
    """
    several = len(report.players) > 1
    headline = not several or bool(report.profilesets)
    summary: dict[str, Any] = {
        "metric": metric,
        "mainActor": _main_actor(report, metric=metric) if headline else None,
        "multiStage": dict(multistage),
    }
    if several:
        listed = report.players[:_LISTED_RESULTS]
        actors = [{"name": _name(player.name), **_figures(player.dps)} for player in listed]
        summary["actors"] = {"count": len(report.players), "results": actors}
    if not multistage["enabled"]:
        summary["iterations"] = report.iterations
    if partial:
        summary["partial"] = True
    return summary


def _keep_used(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key in _KEPT_KEYS}


def _refuse_constant(name: str) -> None:
    raise BrokenReport(f"it holds {name}, which is not JSON")


_DECODER = json.JSONDecoder(object_hook=_keep_used, parse_constant=_refuse_constant)


def _parse(stream: BinaryIO, *, max_bytes: int) -> dict[str, Any]:
    raw = stream.read(max_bytes + 1)
    if not raw:
        raise BrokenReport("it is empty")
    if len(raw) > max_bytes:
        raise BrokenReport(f"it is larger than {max_bytes} bytes")
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > max_bytes // _BYTES_PER_VALUE:
        raise BrokenReport("it holds too many values")
    # A name whose bytes are not UTF-8 spoils only itself.
    text = raw.decode(errors="replace")
    del raw
    try:
        document = _DECODER.decode(text)
    except RecursionError:
        raise BrokenReport("it is nested too deeply") from None
    except ValueError as error:  # Includes integers of more digits than Python converts.
        raise BrokenReport(f"it is truncated or not JSON: {error}") from None
    if not isinstance(document, dict):
        raise BrokenReport("it is not an object")
    return document


def _object(parent: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key, {})
    if not isinstance(value, dict):
        raise BrokenReport(f"its {key} is not an object")
    return value


def _objects(parent: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    value = parent.get(key, [])
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise BrokenReport(f"its {key} is not a list of objects")
    return value


def _number(parent: Mapping[str, Any], key: str) -> float:
    value = parent.get(key, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST_NUMBER:
        raise BrokenReport(f"its {key} is not a sensible number")
    return float(value)


def _string(parent: Mapping[str, Any], key: str) -> str:
    value = parent.get(key)
    if not isinstance(value, str):
        raise BrokenReport(f"its {key} is not a text")
    return _clean(value)


def _sample(block: Mapping[str, Any]) -> Statistics:
    return Statistics(
        mean=_number(block, "mean"),
        mean_stddev=_number(block, "mean_std_dev"),
        stddev=_number(block, "std_dev"),
        min=_number(block, "min"),
        max=_number(block, "max"),
    )


def _player(entry: Mapping[str, Any]) -> Player:
    return Player(
        name=_string(entry, "name"),
        # Absent when the mean is 0 (simulator-cli, section 4.2).
        dps=_sample(_object(_object(entry, "collected_data"), "dps")),
        talents=_talents(entry.get("talents")),
        gear=tuple(_gear(entry.get("gear"))),
    )


def _profilesets(results: Iterable[Mapping[str, Any]], *, stage: int) -> Iterable[Profileset]:
    for entry in results:
        # The first of a list of metrics is the primary one.
        block = _objects(entry, "metrics")[0] if entry.get("metrics") else entry
        statistics = Statistics(
            mean=_number(block, "mean"),
            mean_stddev=_number(block, "mean_stddev"),
            stddev=_number(block, "stddev"),
            min=_number(block, "min"),
            max=_number(block, "max"),
        )
        # A set that failed or was cancelled: left out by one layout, listed with zeros by the other.
        if statistics.mean != 0:
            yield Profileset(name=_string(entry, "name"), statistics=statistics, stage=stage)


def _severe_messages(document: Mapping[str, Any]) -> list[str]:
    severe = [entry for entry in _objects(document, "logs") if entry.get("level") == "severe"]
    return [_string(entry, "message").strip()[:_MESSAGE_LENGTH] for entry in severe[:_LISTED_ERRORS]]


def _talents(value: object) -> str:
    """Return the talents as one text; the trees of 2020 list them as objects with a name."""
    if isinstance(value, list):
        names = [entry.get("name") for entry in value if isinstance(entry, dict)]
        value = "/".join(name for name in names if isinstance(name, str))
    return _clean(value)[:_TALENTS_LENGTH] if isinstance(value, str) else ""


def _gear(value: object) -> Iterable[dict[str, Any]]:
    # Gear only adorns the summary: what a fork writes in another form is left out, not refused.
    if isinstance(value, dict):
        for slot in _GEAR_SLOTS:
            item = value.get(slot)
            if isinstance(item, dict) and isinstance(item.get("name"), str):
                yield _item(slot, item)


def _item(slot: str, item: Mapping[str, Any]) -> dict[str, Any]:
    encoded = item.get("encoded_item")
    fields = [field.partition("=") for field in encoded.split(",")] if isinstance(encoded, str) else []
    options = {key: _identifiers(value) for key, _, value in fields}
    ilevel = item.get("ilevel")
    optional = {
        "id": _first(options.get("id")),
        "ilevel": ilevel if type(ilevel) is int and 0 < ilevel < _LARGEST_NUMBER else None,
        "bonusIds": options.get("bonus_id"),
        "gemIds": options.get("gem_id"),
        "enchantId": _first(options.get("enchant_id")),
    }
    known = {key: value for key, value in optional.items() if value}
    return {"slot": slot, "name": _name(_clean(item["name"])), **known}


def _identifiers(value: str) -> list[int]:
    digits = [part for part in re.split("[/:]", value) if part.isascii() and part.isdigit()]
    return [int(part) for part in digits[:_LISTED_IDS] if len(part) <= _IDENTIFIER_DIGITS]


def _first(identifiers: list[int] | None) -> int | None:
    return identifiers[0] if identifiers else None


def _main_actor(report: Report, *, metric: Literal["dps", "raid_dps"]) -> dict[str, Any]:
    player = report.players[0]
    statistics = report.raid_dps if metric == "raid_dps" else player.dps
    actor: dict[str, Any] = {"name": _name(player.name), **_figures(statistics)}
    if report.profilesets:
        ranking = sorted(report.profilesets, key=lambda profileset: -profileset.statistics.mean)
        results = [
            {"name": _name(entry.name), **_figures(entry.statistics), "stage": entry.stage}
            for entry in ranking[:_LISTED_RESULTS]
        ]
        actor["profilesets"] = {"count": len(ranking), "results": results}
    if player.talents:
        actor["talents"] = player.talents
    if player.gear:
        actor["gear"] = list(player.gear)
    return actor


def _figures(statistics: Statistics) -> dict[str, float]:
    return {
        "mean": statistics.mean,
        "mean_error": statistics.mean_error,
        "mean_stddev": statistics.mean_stddev,
        "stddev": statistics.stddev,
        "min": statistics.min,
        "max": statistics.max,
    }


def _name(text: str) -> str:
    return text[:_NAME_LENGTH]


def _clean(text: str) -> str:
    """Replace what PostgreSQL's jsonb cannot store: NUL and lone surrogates."""
    return re.sub("[\x00\ud800-\udfff]", "\ufffd", text)
