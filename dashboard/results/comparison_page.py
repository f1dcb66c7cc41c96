"""A comparison of jobs as its page shows it. Each job is called by its letter."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from dashboard.results import actor, names
from dashboard.results.headline import Spread, strips
from dashboard.results.scale import Scale
from jobs.results import comparison
from jobs.results.common_variants import CommonVariants, Pair
from jobs.results.comparison import PAIR, AbilityRow, Comparison, Option, Row, Side
from jobs.results.verdicts import EVEN, GAIN, LOSS, METRICS, percent_with_margin

LETTERS = "ABCD"
MIN_JOBS = 2
OPEN_ABILITIES = 20
OPEN_VARIANTS = 200
Cells = Sequence[dict[str, Any]]


class JobLink(NamedTuple):
    """A job in an address and on the page. `link` is empty for the expired job of a share link."""

    key: str
    title: str
    link: str


def view_of(sides: Sequence[Side], jobs: Sequence[JobLink], *, name: str) -> dict[str, Any] | None:
    """Return a comparison for its page, None without sides. `name` is the parameter of its address.

    `first` is the column that the `others` with a result are compared with. Equal `talents` are left out.
    """
    if not sides:
        return None
    found = comparison.compare(sides)
    columns = _columns(found, jobs, name=name)
    # Within the margin of error, bars stay short.
    largest = max([found.ability_margin, *(row.largest for row in found.abilities)])
    axis = Scale(low=-largest, high=largest)
    abilities = [_ability(row, axis) for row in found.abilities]
    talents = found.talents
    return {
        "columns": columns,
        "variants": found.variants and _variants(found.variants),
        "has_other_variants": len(columns) > PAIR and any(side.profilesets for side in found.sides),
        "same": _same_parts(found),
        "first": None if found.first is None else columns[found.first],
        "others": [column for column in columns if column["figures"] and not column["is_first"]],
        "changed_options": [
            (comparison.OPTIONS[Option(row.name)], _texts(row)) for row in found.options if row.differs
        ],
        "equal_options": [
            (
                comparison.OPTIONS[Option(row.name)],
                _text(row.name, next(each for each in row.values if each is not None)),
            )
            for row in found.options
            if not row.differs
        ],
        "changed_gear": [(names.slot_of(row.name), _items(row, found.first)) for row in found.gear if row.differs],
        "equal_slots": [names.slot_of(row.name) for row in found.gear if not row.differs],
        "talents": _talents(talents, found.first) if talents and talents.differs else [],
        "abilities": abilities[:OPEN_ABILITIES],
        "folded_abilities": abilities[OPEN_ABILITIES:],
        "ability_axis": _ability_axis(axis, found.ability_margin),
    }


def _variants(found: CommonVariants) -> dict[str, Any]:
    """Return the table of variants: the best of both jobs, how many differ, and the names of one job only."""
    rows = [{"pair": pair, "change": _change_text(pair)} for pair in found.pairs[:OPEN_VARIANTS]]
    return {
        "rows": rows,
        "baseline": {"pair": found.baseline, "change": _change_text(found.baseline)},
        "count": len(found.pairs),
        "higher": found.kinds[GAIN],
        "lower": found.kinds[LOSS],
        "even": found.kinds[EVEN],
        "only": [
            {"letter": letter, "count": len(only), "names": only[:OPEN_VARIANTS]}
            for letter, only in zip(LETTERS, (found.only_first, found.only_second), strict=False)
            if only
        ],
    }


def _change_text(pair: Pair) -> str:
    """Return a difference with its margin, in percent, empty if the first result is zero."""
    return "" if pair.percent is None else percent_with_margin(pair.percent, pair.margin_percent)


def _same_parts(found: Comparison) -> list[str]:
    """Return what is the same in all jobs: gear, talents and profiles."""
    others = [profile for profile in found.profiles if profile is not None]
    figures = sum(side.figure is not None for side in found.sides)
    is_same = {
        "gear": bool(found.gear) and not any(row.differs for row in found.gear),
        "talents": found.talents is not None and not found.talents.differs,
        "profile": len(others) == figures - 1 and not any(each.groups or each.is_cut for each in others),
    }
    return [name for name, same in is_same.items() if same]


def _ability_axis(axis: Scale, margin: float) -> dict[str, Any]:
    """Return the ends of the axis of differences, and the part of it that is within the margin of error."""
    start, end = axis.at(-margin), axis.at(margin)
    band = {"start": f"{start / 10:g}%", "width": f"{(end - start) / 10:g}%"}
    return {"low": axis.low, "high": axis.high, "margin": margin, **band}


def _columns(found: Comparison, jobs: Sequence[JobLink], *, name: str) -> list[dict[str, Any]]:
    """Return the jobs of the comparison. `note` says why one has no figures, or is empty.

    `as_first` and `without` are the addresses of the comparison with this job first, and without it; each may be
    empty.
    """
    spreads = [_spread(side) for side in found.sides]
    known = [spread for spread in spreads if spread]
    pictures = iter(strips(known) if known else [])
    columns = []
    parts = zip(jobs, found.sides, spreads, found.changes, strict=True)
    for place, (job, side, spread, change) in enumerate(parts):
        others = [each.key for each in jobs if each is not job]
        columns.append(
            {
                "letter": LETTERS[place],
                "title": job.title,
                "link": job.link,
                "side": side,
                "who": actor.who_of(side.character),
                "note": comparison.MISSING[side.missing] if side.missing else "",
                "metric": METRICS.get(side.figure.metric, "DPS") if side.figure else "",
                "figures": spread,
                "strip": next(pictures) if spread else None,
                "change": change,
                "margin": change.margin if change and math.isfinite(change.margin) else None,
                "change_text": _change_text(change) if change else "",
                "kind": change.kind if change else "",
                "is_first": place == found.first,
                "profile": found.profiles[place],
                "as_first": query_of(name, [job.key, *others]) if spread and place != found.first else "",
                "without": query_of(name, others) if len(others) >= MIN_JOBS else "",
            }
        )
    return columns


def _spread(side: Side) -> Spread | None:
    figure = side.figure
    if figure is None:
        return None
    entry = figure.entry
    return Spread(mean=entry.mean, error=entry.error, low=figure.low, high=figure.high, median=figure.median)


def _kind(difference: float, *, is_clear: bool) -> str:
    return EVEN if not is_clear else GAIN if difference > 0 else LOSS


def _items(row: Row, first: int | None) -> Cells:
    """Return the item of each job, None if it is unknown, and whether the first job has the same one."""
    own = None if first is None else row.values[first]
    return [
        {
            "letter": letter,
            "item": None if item is None else actor.item_of(item),
            "is_same": bool(
                own and item and item is not own and comparison.identity(own) == comparison.identity(item)
            ),
        }
        for letter, item in zip(LETTERS, row.values, strict=False)
    ]


def _talents(row: Row, first: int | None) -> Cells:
    own = None if first is None else row.values[first]
    return [
        {"letter": letter, "text": text, "is_same": place != first and text == own}
        for place, (letter, text) in enumerate(zip(LETTERS, row.values, strict=False))
    ]


def _ability(row: AbilityRow, axis: Scale) -> dict[str, Any]:
    """Return an ability with a cell for each job: its DPS and its difference from the first job, None if unknown.

    The difference is a bar at `start` with `width`, in percent; zero is in the middle.
    """
    cells = []
    for letter, dps, difference, is_clear in zip(LETTERS, row.values, row.differences, row.is_clear, strict=False):
        start, end = sorted([axis.at(0.0), axis.at(difference or 0.0)])
        kind = "" if difference is None else _kind(difference, is_clear=is_clear)
        bar = {"start": f"{start / 10:g}%", "width": f"{(end - start) / 10:g}%"}
        cells.append({"letter": letter, "dps": dps, "difference": difference, "kind": kind, **bar})
    return {"name": names.titled(row.name) or "Unnamed ability", "is_pet": row.is_pet, "cells": cells}


def query_of(name: str, keys: Iterable[str]) -> str:
    """Return the query string of a comparison."""
    return f"?{urlencode([(name, key) for key in keys])}"


def _texts(row: Row) -> Cells:
    return [
        {"letter": letter, "text": None if value is None else _text(row.name, value)}
        for letter, value in zip(LETTERS, row.values, strict=False)
    ]


def _text(option: str, value: Any) -> str:
    match option:
        case Option.LENGTH:
            return f"{int(value) // 60}:{int(value) % 60:02}"
        case Option.VARIATION:
            return f"± {value * 100:g} %"
        case Option.TARGET_ERROR:
            return f"{value:g} %" if value else "None"
        case Option.STAGES:
            return "Yes" if value else "No"
    return value if isinstance(value, str) else f"{value:,}"
