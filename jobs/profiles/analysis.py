"""What a profile text would make the simulator do: actors, variants, clamps, and what is refused.

One pass over the text; memory grows with the names of profilesets and with nothing else a caller can repeat.
"""

import math
import re
from dataclasses import dataclass, field
from typing import Any

from jobs.profiles.grammar import tokens
from jobs.profiles.policy import ITEM_SLOTS, LIMITED, Refusal, Rules, Setting
from jobs.profiles.values import read_integer, read_number

# What starts an actor in any known tree (simulator-cli, 1.7). Enemies and pets are nobody's result.
CLASSES = frozenset(
    "deathknight demonhunter druid evoker hunter mage monk paladin priest rogue shaman warlock warrior "
    "player_simplified mara rime gunde tariq ardeos helena elarion sylvie vigour aeona xavian".split()
)
# Options that only an actor has: where they stand, an actor of a class nobody listed has begun.
ACTOR_OPTIONS = ITEM_SLOTS | frozenset("spec level race role position talents professions".split())
# What multistage execution holds back until its final stage.
HELD_BACK = frozenset(
    "calculate_scale_factors scale_delta_multiplier center_scale_delta dps_plot_stats report_details "
    "scale_only".split()
)
# What a profileset must not decide for itself when its stages decide it.
OWN_STAGES = HELD_BACK | LIMITED | {"profileset_metric"}
METRIC_SEPARATORS = re.compile("[/:,]")
# Metrics of which more is better: only among these does the highest mean win.
MORE_IS_BETTER = frozenset("dps prioritydps dpse raid_dps hps hpse aps haps".split())
# Those that are above zero wherever the baseline does damage.
DAMAGE = frozenset({"dps", "raid_dps"})
# No target error may stand beside it, and stages are target errors (simulator-cli, section 5).
STAGE_SENSITIVE = frozenset({"deterministic"})
# Controllers cancel profilesets by themselves (simulator-cli, 1.8).
CONTROLLERS = "profileset_controller."
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
    """The answer. `refusals` holds the first twenty of `refused`; `clamps` every one that must be applied."""

    refusals: list[Refusal] = field(default_factory=list)
    refused: int = 0
    actors: int = 0
    copies: int = 0
    includes: int = 0
    actor_options: int = 0
    main_actor: str | None = None
    # Each with whether it changes anything of the base.
    profilesets: dict[str, bool] = field(default_factory=dict)
    # The base's own `iterations` and `target_error`, as they stand last.
    numbers: dict[str, Setting] = field(default_factory=dict)
    # Whether something in it keeps stages from being judged alike, and whether it cancels profilesets by itself.
    stage_sensitive: bool = False
    cancels_profilesets: bool = False
    metric: str = "dps"
    clamps: list[Clamp] = field(default_factory=list)

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
    def variants(self) -> int:
        """Return how many characters are simulated beside the first: profilesets, copies, further actors."""
        return len(self.profilesets) + self.copies + max(0, self.actors + self.includes - 1)


def analyse(text: str, *, rules: Rules, bounds: Bounds) -> Analysis:
    """Read a profile once and return what it would do. Never raises, whatever the text."""
    reader = _Reader(bounds)
    for found in rules.judge(tokens(text)):
        reader.take(found)
    return reader.finish()


class _Reader:
    """Gathers the analysis option by option."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.result = Analysis()
        # The last `iterations` and `target_error` of the base (None), and of each profileset with its own.
        self.own: dict[str | None, dict[str, Setting]] = {}

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
        sets = self.result.profilesets
        sets[name] = bool(setting.name) or (not setting.replaces and sets.get(name, False))
        if setting.replaces:
            self.own.pop(name, None)
        if setting.name in LIMITED:
            self.own.setdefault(name, {})[setting.name] = setting
        if setting.name in OWN_STAGES or setting.name in STAGE_SENSITIVE:
            self.result.stage_sensitive = True

    def _take_base(self, setting: Setting) -> None:
        result, name = self.result, setting.name
        if name is None or name == "input":
            result.includes += 1
        elif name in CLASSES or name in ("armory", "guild"):
            result.actors += downloaded(setting.value) if name == "armory" else 1
            result.main_actor = result.main_actor or setting.value
        elif name == "copy":
            result.copies += 1
        elif name in LIMITED:
            self.own.setdefault(None, {})[name] = setting
        elif name == "profileset_metric":
            named = METRIC_SEPARATORS.split(setting.value.strip().lower())
            result.metric = next(filter(None, named), "dps")
        elif name in STAGE_SENSITIVE or name.startswith(CONTROLLERS):
            result.stage_sensitive = True
            result.cancels_profilesets |= name.startswith(CONTROLLERS)
        elif name in ACTOR_OPTIONS or name.partition(".")[0].rstrip("+") == "actions":
            result.actor_options += 1

    def finish(self) -> Analysis:
        """Return the analysis with the clamps that are in force at the end of the text."""
        found = (self._clamp(setting) for settings in self.own.values() for setting in settings.values())
        self.result.clamps = [clamp for clamp in found if clamp is not None]
        self.result.numbers = self.own.get(None, {})
        return self.result

    def _clamp(self, setting: Setting) -> Clamp | None:
        """Return the clamp of one number, or None when it is within the limits or no number at all."""
        if setting.name == "iterations":
            count = read_integer(setting.value)
            if count is None or count <= self.bounds.iterations:
                return None
            return clamp("iterations_clamped", setting, count, self.bounds.iterations)
        error = read_number(setting.value)
        # Zero and less switch the target off; what is not a number would never be reached.
        if error is None or error <= 0 or error >= self.bounds.target_error:
            return None
        return clamp("target_error_floored", setting, error, self.bounds.target_error)


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


def downloaded(value: str) -> int:
    """Return how many actors an `armory=region,server,name,…` starts."""
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
        for found in analysis.clamps[:LISTED_WARNINGS]
    ]


def limited(text: str, analysis: Analysis) -> str:
    """Return the profile as it runs: the user's text, then what holds it within the platform's limits.

    The lines stand behind it because the last one wins (simulator-cli, 1.6); a quote left open ends with its line.
    """
    if not analysis.clamps:
        return text
    return "\n".join([text, "# Limits of the platform", *(found.directive for found in analysis.clamps), ""])
