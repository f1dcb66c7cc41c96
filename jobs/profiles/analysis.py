"""What a profile text would make the simulator do: actors, variants, clamps, and what is refused.

One pass over the text; memory grows with the names of profilesets and with nothing else a caller can repeat.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from jobs.profiles.grammar import words
from jobs.profiles.policy import ITEM_SLOTS, LIMITED, NEEDS_CREDENTIALS, Refusal, Rules, Setting
from jobs.profiles.values import read_integer, read_number

# What starts an actor in any known tree (simulator-cli, 1.7). Enemies and pets are nobody's result.
CLASSES = frozenset(
    "deathknight demonhunter druid evoker hunter mage monk paladin priest rogue shaman warlock warrior "
    "player_simplified mara rime gunde tariq ardeos helena elarion sylvie vigour aeona xavian".split()
)
# Options that only an actor has: where they stand, an actor of a class nobody listed has begun.
ACTOR_OPTIONS = ITEM_SLOTS | frozenset("spec level race role position talents professions".split())
# Options that apply only to the final stage; with a common `seed`, replicates would not be independent.
HELD_BACK = frozenset(
    "calculate_scale_factors scale_delta_multiplier center_scale_delta dps_plot_stats report_details "
    "scale_only seed".split()
)
METRIC = re.compile("[^/:,]+")
# Metrics of which more is better: only among these does the highest mean win.
MORE_IS_BETTER = frozenset("dps prioritydps dpse raid_dps hps hpse aps haps".split())
# Those that are above zero wherever the baseline does damage.
DAMAGE = frozenset({"dps", "raid_dps"})
# No target error may stand beside it, and stages are target errors (simulator-cli, section 5).
STAGE_SENSITIVE = frozenset({"deterministic"})
# What a profileset must not decide for itself when its stages decide it.
OWN_STAGES = HELD_BACK | LIMITED | STAGE_SENSITIVE | {"profileset_metric"}
# Controllers cancel profilesets by themselves (simulator-cli, 1.8).
CONTROLLERS = "profileset_controller."
# Real profiles never reach these: at 50 bytes or more for each option, 2 MB contain at most 42,000.
MAX_OPTIONS = 60_000
MAX_QUOTES = MAX_LINES = 2 * MAX_OPTIONS
MAX_TEMPLATES = 20_000
LARGEST = (("\n", MAX_LINES, "lines"), ('"', MAX_QUOTES, "quotes"), ("$", MAX_TEMPLATES, "dollar signs"))
LISTED_REFUSALS = 20
LISTED_WARNINGS = 100
SHOWN_CHARACTERS = 40


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The platform's limits: most iterations, and least target error in percent."""

    iterations: int
    target_error: float


@dataclass(frozen=True, kw_only=True)
class Clamp:
    """A number beyond the platform's limits, and the one that runs instead; for one profileset or for all."""

    kind: str
    name: str
    line: int
    requested: int | float | str
    applied: int | float
    profileset: str | None

    @property
    def message(self) -> str:
        """Say what happened in words."""
        whose = "" if self.profileset is None else " for one profileset"
        return (
            f"{self.name}={self.requested} is beyond the platform's limit; the job runs{whose} at {self.applied}."
        )

    @property
    def directive(self) -> str:
        """Return the line that, put behind the profile, makes the limit win."""
        option = f"{self.name}={self.applied}"
        return option if self.profileset is None else f'profileset."{self.profileset}"+={option}'


@dataclass(kw_only=True)
class Analysis:
    """The answer. `refusals` holds the first twenty of `refused`."""

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
    # Each with whether it changes anything of the base.
    profilesets: dict[str, bool] = field(default_factory=dict)
    # The last `iterations` and `target_error` of the base (None), and of each profileset with its own.
    numbers: dict[str, dict[str | None, Setting]] = field(
        default_factory=lambda: {name: {} for name in sorted(LIMITED)}
    )
    # Whether something in it keeps stages from being judged alike, and whether it cancels profilesets by itself.
    stage_sensitive: bool = False
    cancels_profilesets: bool = False
    metric: str = "dps"

    @property
    def has_actor(self) -> bool:
        """Whether there is anything to simulate, as far as the text tells."""
        return bool(self.actors or self.includes or self.actor_options)

    @property
    def reports_all(self) -> bool:
        """Whether each profileset has a result: none is cancelled, and none is left out for a mean of zero.

        Reports leave such a mean out (simulator-cli, 4.2): heals of a profile that heals nobody, deaths, and so on.
        """
        return not self.cancels_profilesets and self.metric in DAMAGE

    @property
    def clamps(self) -> Iterator[Clamp]:
        """Yield a clamp for every number beyond the limits that is in force at the end of the text."""
        found = (clamped(setting, self.bounds) for own in self.numbers.values() for setting in own.values())
        return (clamp for clamp in found if clamp is not None)

    @property
    def variants(self) -> int:
        """Return how many characters are simulated beside the first: profilesets, copies, further actors."""
        return len(self.profilesets) + self.copies + max(0, self.actors + self.included_actors - 1)


def analyse(text: str, *, rules: Rules, bounds: Bounds) -> Analysis:
    """Read a profile once and return what it would do. Never raises, whatever the text."""
    return _read(words(text), rules=rules, bounds=bounds)


def analyse_submitted(text: str, *, rules: Rules, bounds: Bounds) -> Analysis:
    """Return the same as `analyse` in bounded time; for an oversized profile, set only `excess`."""
    for mark, most, name in LARGEST:
        if text.count(mark) > most:
            return Analysis(bounds=bounds, excess=f"more than {most:,} {name}")
    source = words(text)
    found = _read(islice(source, MAX_OPTIONS), rules=rules, bounds=bounds)
    if next(source, None) is None:
        return found
    return Analysis(bounds=bounds, excess=f"more than {MAX_OPTIONS:,} options")


def _read(source: Iterable[tuple[int, str]], *, rules: Rules, bounds: Bounds) -> Analysis:
    reader = _Reader(bounds, rules)
    for found in rules.judge(source):
        reader.take(found)
    return reader.result


class _Reader:
    """Gathers the analysis option by option."""

    def __init__(self, bounds: Bounds, rules: Rules) -> None:
        self.result = Analysis(bounds=bounds)
        self.rules = rules

    def take(self, found: Setting | Refusal) -> None:
        """Take the next option or refusal."""
        if isinstance(found, Refusal):
            self.result.refused += 1
            if len(self.result.refusals) < LISTED_REFUSALS:
                self.result.refusals.append(found)
        elif found.profileset is not None:
            self._take_profileset(found, found.profileset)
        else:
            self._take_base(found)

    def _take_profileset(self, setting: Setting, name: str) -> None:
        result, option = self.result, setting.name
        result.profilesets[name] = bool(option) or (not setting.replaces and result.profilesets.get(name, False))
        if setting.replaces:
            for own in result.numbers.values():
                own.pop(name, None)
        if option in OWN_STAGES:
            result.stage_sensitive = True
            if option in LIMITED:
                result.numbers[option][name] = setting

    def _take_base(self, setting: Setting) -> None:
        result, name = self.result, setting.name
        if name is None or name == "input":
            result.includes += 1
            result.included_actors += setting.value in self.rules.profiles
        elif name in CLASSES or name in NEEDS_CREDENTIALS:
            result.actors += downloaded(setting.value) if name == "armory" else 1
            result.main_actor = result.main_actor or character_of(setting)
        elif name == "copy":
            result.copies += 1
        elif name in LIMITED:
            result.numbers[name][None] = setting
        elif name == "profileset_metric":
            first = METRIC.search(setting.value.strip().lower())
            result.metric = first[0] if first else "dps"
        elif name in STAGE_SENSITIVE or name[: len(CONTROLLERS)] == CONTROLLERS:
            result.stage_sensitive = True
            result.cancels_profilesets |= name not in STAGE_SENSITIVE
        elif name in ACTOR_OPTIONS or (name[:7] == "actions" and name.partition(".")[0].rstrip("+") == "actions"):
            result.actor_options += 1


def clamped(setting: Setting, bounds: Bounds) -> Clamp | None:
    """Return the clamp of one number, or None if it is within the limits or not a number."""
    if setting.name == "iterations":
        count = read_integer(setting.value)
        if count is None or count <= bounds.iterations:
            return None
        return clamp("iterations_clamped", setting, count, bounds.iterations)
    error = read_number(setting.value)
    # Zero or less switches the target off; a value that is not a number would never be reached.
    if error is None or error <= 0 or error >= bounds.target_error:
        return None
    return clamp("target_error_floored", setting, error, bounds.target_error)


def clamp(kind: str, setting: Setting, requested: float, applied: float) -> Clamp:
    """Return the clamp of a setting; a number that JSON cannot carry is told as it was written."""
    told = requested if math.isfinite(requested) else setting.value[:SHOWN_CHARACTERS]
    return Clamp(
        kind=kind,
        name=setting.name or "",
        line=setting.line,
        requested=told,
        applied=applied,
        profileset=setting.profileset,
    )


def character_of(setting: Setting) -> str | None:
    """Return the name of the character that an option starts, None when the option names none."""
    if setting.name not in NEEDS_CREDENTIALS:
        return setting.value
    names = (part for part in setting.value.split(",", 3)[2:3] if "=" not in part)
    return next(names, "").partition("|")[0] if setting.name == "armory" else None


def downloaded(value: str) -> int:
    """Return how many actors an `armory=region,server,name,…` starts."""
    if value.count(",") > MAX_OPTIONS:
        # More than any plan allows, whatever is between them.
        return value.count(",")
    return max(1, sum("=" not in part for part in value.split(",")[2:]))


def warnings(analysis: Analysis) -> list[dict[str, Any]]:
    """Return the submission's warnings, a hundred at most (specification, Submission response)."""
    return [
        {
            "kind": found.kind,
            "line": found.line,
            "requested": found.requested,
            "applied": found.applied,
            "message": found.message,
        }
        for found in islice(analysis.clamps, LISTED_WARNINGS)
    ]


def limited(text: str, analysis: Analysis) -> str:
    """Return the profile as it runs: the user's text, then what holds it within the platform's limits.

    The lines stand behind it because the last one wins (simulator-cli, 1.6); a quote left open ends with its line.
    """
    directives = [found.directive for found in analysis.clamps]
    return "\n".join([text, "# Limits of the platform", *directives, ""]) if directives else text
