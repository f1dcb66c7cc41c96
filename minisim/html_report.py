"""The HTML report: one page without external resources, in which all texts of the profile are escaped."""

from html import escape

import numpy as np

from minisim import VERSION_LINE
from minisim.samples import Samples
from minisim.settings import FIGHT_STYLES, METRICS
from minisim.simulation import ActorResult, Outcome
from minisim.values import percent

HISTOGRAM_BINS = 40

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2433; --quiet: #667085; --page: #f5f6f9; --card: #fff;
  --line: #e3e6ee; --bar: #3b6fd8; --soft: #dfe8fb; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7eaf2; --quiet: #98a2b8; --page: #12151d; --card: #1b202c;
  --line: #2c3343; --bar: #6d9bff; --soft: #26314b; } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 62rem; padding: 2rem 1rem 4rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1.1rem; margin: 0 0 .8rem; overflow-wrap: anywhere }
.note { color: var(--quiet); margin: .2rem 0 1.5rem }
section { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1.2rem;
  margin: 0 0 1.2rem }
.figures { display: flex; flex-wrap: wrap; gap: .8rem 2.4rem; margin: 0 0 1rem }
.figures div { min-width: 6rem } .figures dt { color: var(--quiet); font-size: .85rem }
.figures dd { margin: 0; font-size: 1.25rem; font-variant-numeric: tabular-nums }
table { border-collapse: collapse; width: 100%; table-layout: fixed }
th { color: var(--quiet); font-size: .85rem; font-weight: 500; text-align: left }
td, th { padding: .3rem .5rem; border-bottom: 1px solid var(--line); overflow-wrap: anywhere }
.number { text-align: right; font-variant-numeric: tabular-nums; width: 8.5rem }
.track { background: var(--soft); border-radius: .25rem; height: .55rem }
.track i { display: block; background: var(--bar); border-radius: .25rem; height: 100% }
svg { width: 100%; height: 7rem } rect { fill: var(--bar) }
"""


def render(outcome: Outcome) -> str:
    """Return the page."""
    sections = [_profilesets(outcome)] if outcome.profilesets else []
    if len(outcome.baseline.actors) > 1:
        sections.append(_ranking(outcome))
    sections += [_player(result, outcome) for result in outcome.baseline.actors]
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>minisim report</title><style>{_STYLE}</style></head><body>"
        f'<h1>minisim report</h1><p class="note">{escape(VERSION_LINE)}<br>{_conditions(outcome)}</p>'
        f"{''.join(sections)}</body></html>\n"
    )


def _conditions(outcome: Outcome) -> str:
    settings, baseline = outcome.baseline.settings, outcome.baseline
    return (
        f"{FIGHT_STYLES[settings.fight_style][0]}, {settings.max_time:g} s ± {settings.vary_combat_length:.0%}, "
        f"{baseline.iterations:,} fights, seed {settings.seed}"
    )


def _player(result: ActorResult, outcome: Outcome) -> str:
    sheet, dps = result.sheet, result.dps
    error = dps.mean_std_dev * outcome.baseline.settings.confidence_estimator
    figures = {
        "DPS": f"{dps.mean:,.0f}",
        "Error": f"± {error:,.0f}",
        "Spread of one fight": f"{percent(dps.std_dev, dps.mean):.1f} %",
        "Crit": f"{sheet.crit:.1%}",
        "Haste": f"{sheet.haste:.1%}",
        "Mastery": f"{sheet.mastery:.1%}",
        "Versatility": f"{sheet.versatility:.1%}",
    }
    cells = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in figures.items())
    gear = "".join(
        f'<tr><td>{escape(slot)}</td><td>{escape(item.name)}</td><td class="number">{item.ilevel}</td></tr>'
        for slot, item in sheet.gear.items()
    )
    body = f'<dl class="figures">{cells}</dl>{_histogram(dps)}{_abilities(result)}'
    if gear:
        body += f'<table><tr><th>Slot<th>Item<th class="number">Item level</tr>{gear}</table>'
    return _section(f"{result.actor.name} ({result.actor.kind}, level {sheet.level})", body)


def _abilities(result: ActorResult) -> str:
    totals = result.abilities
    whole = float(totals.damage.sum())
    ranked = sorted(zip(totals.names, map(float, totals.damage), strict=True), key=lambda pair: -pair[1])
    largest = ranked[0][1]
    rows = [(name, damage, largest, f"{percent(damage, whole):.1f}%") for name, damage in ranked]
    return _bars("Ability", "Share of damage", rows)


def _ranking(outcome: Outcome) -> str:
    ranked = sorted(outcome.baseline.actors, key=lambda result: -result.dps.mean)
    best = ranked[0].dps.mean
    rows = [(result.actor.name, result.dps.mean, best, f"{result.dps.mean:,.0f}") for result in ranked]
    return _section("DPS ranking", _bars("Actor", "DPS", rows))


def _profilesets(outcome: Outcome) -> str:
    ranked = sorted(outcome.profilesets, key=lambda result: -result.mean)
    best = ranked[0].mean
    rows = [(result.name, result.mean, best, f"{result.mean:,.0f} ± {result.mean_error:,.0f}") for result in ranked]
    metric = METRICS[outcome.baseline.settings.primary_metric]
    return _section("Profilesets", _bars("Profileset", metric, rows))


def _bars(head: str, measure: str, rows: list[tuple[str, float, float, str]]) -> str:
    """Return a table with bars. A row is (name, value, value of a full bar, value as text)."""
    lines = "".join(
        f"<tr><td>{escape(name)}</td>"
        f'<td><div class="track"><i style="width:{percent(value, full):.1f}%"></i></div></td>'
        f'<td class="number">{text}</td></tr>'
        for name, value, full, text in rows
    )
    return f'<table><tr><th>{escape(head)}<th><th class="number">{escape(measure)}</tr>{lines}</table>'


def _histogram(dps: Samples) -> str:
    counts, _ = np.histogram(dps.values(), bins=HISTOGRAM_BINS)
    bars = "".join(
        f'<rect x="{index}" y="{1 - share:.4f}" width="0.85" height="{share:.4f}"/>'
        for index, share in enumerate(counts / counts.max())
    )
    return (
        f'<svg viewBox="0 0 {HISTOGRAM_BINS} 1" preserveAspectRatio="none" role="img" '
        f'aria-label="Distribution of DPS over all fights">{bars}</svg>'
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"
