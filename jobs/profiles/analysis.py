"""Analysis of a profile: its actors and variants, numbers beyond the platform's limits, and refused directives.

The text is read once. Memory grows only with the names of profilesets.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from jobs.profiles.grammar import token_pairs
from jobs.profiles.policy import ITEM_SLOTS, LIMITED, NEEDS_CREDENTIALS, AllowedOption, Refusal, Rules
from jobs.profiles.values import read_integer, read_number

# Options that start an actor in any version (`docs/reference/simulator-command-line.md#actors`).
# Enemies and pets have no results.
CLASSES = frozenset(
    "deathknight demonhunter druid evoker hunter mage monk paladin priest rogue shaman warlock warrior "
    "player_simplified mara rime gunde tariq ardeos helena elarion sylvie vigour aeona xavian".split()
)
# Options that only an actor has: they show that an actor of a class that is not listed has begun.
ACTOR_OPTIONS = ITEM_SLOTS | frozenset("spec level race role position talents professions".split())
# Options that apply only to the final stage; with a common `seed`, replicates would not be independent.
FINAL_STAGE_OPTIONS = frozenset(
    "calculate_scale_factors scale_delta_multiplier center_scale_delta dps_plot_stats report_details "
    "scale_only seed".split()
)
METRIC = re.compile("[^/:,]+")
# Metrics for which a higher mean is better.
MORE_IS_BETTER = frozenset("dps prioritydps dpse raid_dps hps hpse aps haps".split())
# Metrics that are above zero if the baseline does damage.
DAMAGE = frozenset({"dps", "raid_dps"})
# Incompatible with a target error, which every stage has
# (`docs/reference/simulator-command-line.md#iterations-and-errors`).
STAGE_SENSITIVE = frozenset({"deterministic"})
# Options that a profileset must not set if the job runs in stages.
STAGE_OPTIONS = FINAL_STAGE_OPTIONS | LIMITED | STAGE_SENSITIVE | {"profileset_metric"}
# Options of the base whose values are read.
SETTINGS = frozenset({"calculate_scale_factors", "profileset_metric"})
# Controllers cancel profilesets by themselves (`docs/reference/simulator-command-line.md#profilesets`).
CONTROLLERS = "profileset_controller."
# Real profiles stay below these limits: at 50 bytes or more for each option, 2 MB contain at most 42,000.
MAX_OPTIONS = 60_000
MAX_QUOTES = MAX_LINES = 2 * MAX_OPTIONS
MAX_TEMPLATES = 20_000
MAX_COUNTS = (("\n", MAX_LINES, "lines"), ('"', MAX_QUOTES, "quotes"), ("$", MAX_TEMPLATES, "dollar signs"))
LISTED_REFUSALS = 20
LISTED_WARNINGS = 100
LISTED_NAMES = 20
SHOWN_CHARACTERS = 40


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The platform's limits: the maximum of iterations, and the minimum target error in percent."""

    iterations: int
    target_error: float


@dataclass(frozen=True, kw_only=True)
class Clamp:
    """A number beyond the platform's limits, and the number that applies instead, for one profileset or for all."""

    kind: str
    name: str
    line: int
    requested: int | float | str
    applied: int | float
    profileset: str | None

    @property
    def message(self) -> str:
        """Return a sentence for people."""
        whose = "" if self.profileset is None else " for one profileset"
        return (
            f"{self.name}={self.requested} is outside the service's limits. "
            f"The job uses {self.applied} instead{whose}."
        )

    @property
    def directive(self) -> str:
        """Return the line that applies the limit if it is appended to the profile."""
        option = f"{self.name}={self.applied}"
        return option if self.profileset is None else f'profileset."{self.profileset}"+={option}'


@dataclass(kw_only=True)
class Analysis:
    """The result of an analysis. `refusals` lists the first 20 of `refused` directives."""

    bounds: Bounds
    # The limit that the profile exceeds; if set, the profile was not read further.
    excess: str | None = None
    refusals: list[Refusal] = field(default_factory=list)
    refused: int = 0
    actors: int = 0
    copies: int = 0
    # Included files, and how many of them are known to start an actor.
    includes: int = 0
    included_actors: int = 0
    actor_options: int = 0
    main_actor: str | None = None
    # The first names of actors and copies
    names: list[str] = field(default_factory=list)
    # By name, whether a profileset changes anything of the base.
    profilesets: dict[str, bool] = field(default_factory=dict)
    # The last `iterations` and `target_error` of the base (None), and of each profileset with its own.
    numbers: dict[str, dict[str | None, AllowedOption]] = field(
        default_factory=lambda: {name: {} for name in sorted(LIMITED)}
    )
    # Whether an option keeps stages from being compared, and whether the profile cancels profilesets by itself.
    stage_sensitive: bool = False
    cancels_profilesets: bool = False
    # Whether the baseline also runs for scale factors, which lowers the default target error.
    scale_factors: bool = False
    metric: str = "dps"

    @property
    def has_actor(self) -> bool:
        """Return whether the text seems to contain an actor to simulate."""
        return bool(self.actors or self.includes or self.actor_options)

    @property
    def reports_all(self) -> bool:
        """Return whether each profileset has a result: none is cancelled, and none has a mean of zero.

        Reports leave out a mean of zero, for example of deaths
        (`docs/reference/simulator-command-line.md#json-report`).
        """
        return not self.cancels_profilesets and self.metric in DAMAGE

    @property
    def clamps(self) -> Iterator[Clamp]:
        """Return a clamp for every number that is in effect at the end of the text and beyond the limits."""
        clamps = (_clamp_of(option, self.bounds) for own in self.numbers.values() for option in own.values())
        return (clamp for clamp in clamps if clamp is not None)

    @property
    def variants(self) -> int:
        """Return how many characters are simulated in addition to the first: profilesets, copies, other actors."""
        return len(self.profilesets) + self.copies + max(0, self.actors + self.included_actors - 1)


def analyse(text: str, *, rules: Rules, bounds: Bounds) -> Analysis:
    """Return the analysis of any text. Never raises."""
    return _read(token_pairs(text), rules=rules, bounds=bounds)


def analyse_submitted(text: str, *, rules: Rules, bounds: Bounds) -> Analysis:
    """Return the same as `analyse` in bounded time; for an oversized profile, set only `excess`."""
    for mark, limit, name in MAX_COUNTS:
        if text.count(mark) > limit:
            return Analysis(bounds=bounds, excess=f"more than {limit:,} {name}")
    source = token_pairs(text)
    analysis = _read(islice(source, MAX_OPTIONS), rules=rules, bounds=bounds)
    if next(source, None) is None:
        return analysis
    return Analysis(bounds=bounds, excess=f"more than {MAX_OPTIONS:,} options")


def _read(source: Iterable[tuple[int, str]], *, rules: Rules, bounds: Bounds) -> Analysis:
    reader = _Reader(bounds, rules)
    for option in rules.check(source):
        reader.take(option)
    return reader.result


class _Reader:
    """Builds an analysis option by option."""

    def __init__(self, bounds: Bounds, rules: Rules) -> None:
        self.result = Analysis(bounds=bounds)
        self.rules = rules

    def take(self, option: AllowedOption | Refusal) -> None:
        """Process the next option or refusal."""
        if isinstance(option, Refusal):
            self.result.refused += 1
            if len(self.result.refusals) < LISTED_REFUSALS:
                self.result.refusals.append(option)
        elif option.profileset is not None:
            self._take_profileset(option, option.profileset)
        else:
            self._take_base(option)

    def _take_profileset(self, option: AllowedOption, profileset: str) -> None:
        result, name = self.result, option.name
        changed_before = not option.replaces and result.profilesets.get(profileset, False)
        result.profilesets[profileset] = bool(name) or changed_before
        if option.replaces:
            for own in result.numbers.values():
                own.pop(profileset, None)
        if name in STAGE_OPTIONS:
            result.stage_sensitive = True
            if name in LIMITED:
                result.numbers[name][profileset] = option

    def _take_base(self, option: AllowedOption) -> None:
        result, name = self.result, option.name
        if name is None or name == "input":
            result.includes += 1
            result.included_actors += option.value in self.rules.profiles
        elif name in CLASSES or name in NEEDS_CREDENTIALS:
            result.actors += _download_count(option.value) if name == "armory" else 1
            character = _character_of(option)
            result.main_actor = result.main_actor or character
            self._take_name(character)
        elif name == "copy":
            result.copies += 1
            self._take_name(option.value.partition(",")[0])
        elif name in LIMITED:
            result.numbers[name][None] = option
        elif name in SETTINGS:
            self._take_setting(name, option.value)
        elif name in STAGE_SENSITIVE or name[: len(CONTROLLERS)] == CONTROLLERS:
            result.stage_sensitive = True
            result.cancels_profilesets |= name not in STAGE_SENSITIVE
        elif name in ACTOR_OPTIONS or (name[:7] == "actions" and name.partition(".")[0].rstrip("+") == "actions"):
            result.actor_options += 1

    def _take_name(self, name: str | None) -> None:
        if name and len(self.result.names) < LISTED_NAMES:
            self.result.names.append(name)

    def _take_setting(self, name: str, value: str) -> None:
        if name == "calculate_scale_factors":
            self.result.scale_factors = bool(read_integer(value))
        else:
            first = METRIC.search(value.strip().lower())
            self.result.metric = first[0] if first else "dps"


def _clamp_of(option: AllowedOption, bounds: Bounds) -> Clamp | None:
    """Return the clamp of one number, or None if it is within the limits or not a number."""
    if option.name == "iterations":
        count = read_integer(option.value)
        if count is None or count <= bounds.iterations:
            return None
        return _clamp("iterations_clamped", option, count, bounds.iterations)
    error = read_number(option.value)
    # Zero or less disables the target. A value that is not a number (NaN) would never be reached.
    if error is None or error <= 0 or error >= bounds.target_error:
        return None
    return _clamp("target_error_floored", option, error, bounds.target_error)


def _clamp(kind: str, option: AllowedOption, requested: float, applied: float) -> Clamp:
    """Return the clamp of an option; a number that JSON cannot represent is given as it was written."""
    return Clamp(
        kind=kind,
        name=option.name or "",
        line=option.line,
        requested=requested if math.isfinite(requested) else option.value[:SHOWN_CHARACTERS],
        applied=applied,
        profileset=option.profileset,
    )


def _character_of(option: AllowedOption) -> str | None:
    """Return the name of the character that an option starts, or None if it gives no name."""
    if option.name not in NEEDS_CREDENTIALS:
        return option.value
    names = (part for part in option.value.split(",", 3)[2:3] if "=" not in part)
    return next(names, "").partition("|")[0] if option.name == "armory" else None


def _download_count(value: str) -> int:
    """Return how many actors an `armory=region,server,name,…` starts."""
    if value.count(",") > MAX_OPTIONS:
        # More than any plan allows; the parts need not be read.
        return value.count(",")
    return max(1, sum("=" not in part for part in value.split(",")[2:]))


def warnings(analysis: Analysis) -> list[dict[str, Any]]:
    """Return the submission's warnings, at most 100 (`docs/reference/contract.md#warnings`)."""
    return [
        {
            "kind": clamp.kind,
            "line": clamp.line,
            "requested": clamp.requested,
            "applied": clamp.applied,
            "message": clamp.message,
        }
        for clamp in islice(analysis.clamps, LISTED_WARNINGS)
    ]


def with_limits(text: str, analysis: Analysis) -> str:
    """Return the profile as it runs: the user's text, then the options that apply the platform's limits.

    They come last because the last value of an option wins
    (`docs/reference/simulator-command-line.md#order-and-values`). An unclosed quote in the text ends with its line.
    """
    directives = [clamp.directive for clamp in analysis.clamps]
    return "\n".join([text, "# Limits of the platform", *directives, ""]) if directives else text
