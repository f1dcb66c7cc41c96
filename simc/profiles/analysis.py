"""Analysis of a profile: its actors and variants, numbers beyond the platform's limits, and refused directives.

The text is read once. Memory grows only with the names of profilesets.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from simc import stats
from simc.characters import visible
from simc.profiles import plots
from simc.profiles.actors import ACTOR_OPTIONS, CLASSES, DOWNLOADS, OTHERS, STARTS, is_action_list, may_start
from simc.profiles.grammar import BOM, token_pairs
from simc.profiles.mistakes import BLANKS, seems_without_line_breaks
from simc.profiles.numbers import (
    SHOWN_CHARACTERS,
    Bounds,
    Clamp,
    Precision,
    clamp_of,
    effective,
    read_integer,
    read_number,
)
from simc.profiles.policy import LIMITED, AllowedOption, Mistake, Refusal, Refusals, Removal, Rules
from simc.profiles.selection import kept_tokens, remaining_lines

# Options after which the next ones apply to another actor, or may
SWITCHES = STARTS | {"active", "input"}
# Options that apply only to the final stage; with a common `seed`, replicates would not be independent.
FINAL_STAGE_OPTIONS = plots.OPTIONS | frozenset(
    "calculate_scale_factors scale_delta_multiplier center_scale_delta report_details scale_only seed".split()
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
LIMITS = "# Limits of the platform"
MAIN_ACTOR_INDEX = "profileset_main_actor_index"
SETTINGS = frozenset(
    {"calculate_scale_factors", "scale_only", "center_scale_delta", "profileset_metric", MAIN_ACTOR_INDEX}
)
# How many stats an actor usually has; which ones is known only to the simulator.
USUAL_STATS = 7
# Controllers cancel profilesets by themselves (`docs/reference/simulator-command-line.md#profilesets`).
CONTROLLERS = "profileset_controller."
# Real profiles stay below these limits: at 50 bytes or more for each option, 2 MB contain at most 42,000.
MAX_OPTIONS = 60_000
MAX_QUOTES = MAX_LINES = 2 * MAX_OPTIONS
MAX_TEMPLATES = 20_000
MAX_COUNTS = (("\n", MAX_LINES, "lines"), ('"', MAX_QUOTES, "quotes"), ("$", MAX_TEMPLATES, "dollar signs"))
LISTED_WARNINGS = 100
LISTED_NAMES = 20


@dataclass(frozen=True, kw_only=True)
class MainActor:
    """An index that the service adds, so that profilesets change a character: that of its first one.

    Profilesets change the first actor of all, even an enemy
    (`docs/reference/simulator-command-line.md#profilesets`). `option` is what they would change, or the profile's
    own index.
    """

    line: int
    option: str
    requested: str | None
    index: int

    @property
    def directive(self) -> str:
        """Return the line that corrects the index if it is appended to the profile."""
        return f"{MAIN_ACTOR_INDEX}={self.index}"


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
    # The first include that is not known to start an actor
    unknown_include: AllowedOption | None = None
    # The first option that may start a character of a class that is not listed, if no other starts one
    unknown_actor: AllowedOption | None = None
    # All options that start an actor, the positions of characters among them, and the first other one
    starts: int = 0
    characters: list[int] = field(default_factory=list)
    first_other: AllowedOption | None = None
    main_actor_index: AllowedOption | None = None
    # Options without which the profile runs
    removals: list[Removal] = field(default_factory=list)
    # Whether the text seems to be one long line, if nothing in it starts a character
    lost_line_breaks: bool = False
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
    # The stats that they are limited to, if any, and whether each one takes two simulations.
    scale_only: str = ""
    center_scale_delta: bool = False
    # The last value of each option of plots
    plot_options: dict[str, str] = field(default_factory=dict)
    metric: str = "dps"

    @property
    def has_actor(self) -> bool:
        """Return whether something in the text starts a character, or may start one."""
        return bool(self.actors or self.includes or self.unknown_actor)

    @property
    def wrong_main_actor(self) -> MainActor | None:
        """Return the index to add if profilesets would change something other than a character, or None."""
        if not self.profilesets or not self.characters:
            return None
        own, first = self.main_actor_index, self.first_other
        index = read_integer(own.value) if own else 0
        if index in self.characters:
            return None
        source = own or first
        return source and MainActor(
            line=source.line,
            option=f"{source.name}={source.value[:SHOWN_CHARACTERS]}",
            requested=own and own.value[:SHOWN_CHARACTERS],
            index=self.characters[0],
        )

    @property
    def reports_all(self) -> bool:
        """Return whether each profileset has a result: none is cancelled, and none has a mean of zero.

        Reports leave out a mean of zero, for example of deaths
        (`docs/reference/simulator-command-line.md#json-report`).
        """
        return not self.cancels_profilesets and self.metric in DAMAGE

    @property
    def clamps(self) -> Iterator[Clamp]:
        """Return a clamp for every number that is in effect at the end of the text and beyond the limits.

        Those of the base come first.
        """
        own = [option for numbers in self.numbers.values() for option in numbers.values()]
        of_base = (option for option in own if option.profileset is None)
        of_profilesets = (option for option in own if option.profileset is not None)
        clamps = (clamp_of(option, self.bounds) for each in (of_base, of_profilesets) for option in each)
        return (clamp for clamp in clamps if clamp is not None)

    def written(self, name: str, profileset: str | None = None) -> str:
        """Return a number as it is written for a profileset or for the base, empty without one."""
        own = self.numbers[name]
        option = own.get(profileset) or own.get(None)
        return option.value if option else ""

    def effective_numbers(self, profileset: str | None = None) -> Precision:
        """Return the numbers that apply to a profileset, or to the base, within the limits."""
        return effective(
            iterations=self.written("iterations", profileset),
            target_error=self.written("target_error", profileset),
            scale_factors=self.scale_factors,
            bounds=self.bounds,
        )

    def uses_defaults(self, profileset: str | None = None) -> bool:
        """Return whether the simulator would use its own default of iterations."""
        count = read_integer(self.written("iterations", profileset))
        return count is not None and count <= 0

    @property
    def variants(self) -> int:
        """Return how many characters are simulated in addition to the first: profilesets, copies, other actors."""
        return len(self.profilesets) + self.copies + max(0, self.actors + self.included_actors - 1)

    @property
    def counted_variants(self) -> int:
        """Return the variants as plans limit them: each point of a plot counts as one."""
        return self.variants + self.plot.points

    @property
    def plot(self) -> plots.Plan:
        """Return the plan of the profile's plots."""
        return plots.plan_of(self.plot_options)

    @property
    def plot_numbers(self) -> Precision:
        """Return the numbers of each point of a plot: its own, or those of the base."""
        plan, base = self.plot, self.effective_numbers()
        return Precision(
            iterations=plan.iterations or base.iterations, target_error=plan.target_error or base.target_error
        )

    @property
    def weight_runs(self) -> int:
        """Return how many simulations the scale factors need, as far as the profile tells."""
        if not self.scale_factors:
            return 0
        found, _ = stats.listed(self.scale_only)
        return (len(found) or USUAL_STATS) * (2 if self.center_scale_delta else 1)


def analyse(text: str, *, rules: Rules, bounds: Bounds) -> Analysis:
    """Return the analysis of any text. Never raises."""
    return _read(text, token_pairs(text), rules=rules, bounds=bounds)


def analyse_submitted(text: str, *, rules: Rules, bounds: Bounds) -> Analysis:
    """Return the same as `analyse` in bounded time; for an oversized profile, set only `excess`."""
    for mark, limit, name in MAX_COUNTS:
        if text.count(mark) > limit:
            return Analysis(bounds=bounds, excess=f"more than {limit:,} {name}")
    source = token_pairs(text)
    analysis = _read(text, islice(source, MAX_OPTIONS), rules=rules, bounds=bounds)
    if next(source, None) is None:
        return analysis
    return Analysis(bounds=bounds, excess=f"more than {MAX_OPTIONS:,} options")


def _read(text: str, source: Iterable[tuple[int, str]], *, rules: Rules, bounds: Bounds) -> Analysis:
    """Return the analysis of a text from its tokens."""
    reader = _Reader(bounds, rules)
    for option in rules.check(source):
        reader.take(option)
    analysis = reader.result
    analysis.refused = reader.refusals.count
    analysis.refusals = reader.refusals.explained(text)
    if not analysis.has_actor:
        analysis.lost_line_breaks = seems_without_line_breaks(text)
    return analysis


class _Reader:
    """Builds an analysis option by option."""

    def __init__(self, bounds: Bounds, rules: Rules) -> None:
        self.result = Analysis(bounds=bounds)
        self.rules = rules
        # The option that may start a character of an unknown class, and its position among actors
        self.candidate: tuple[AllowedOption, int] | None = None
        self.refusals = Refusals()
        # Whether `name` applies to the first character.
        self.in_main_actor = False
        # The line whose last option is a profileset without a value
        self.empty_line = 0

    def take(self, option: AllowedOption | Removal | Refusal) -> None:
        """Process the next option or refusal."""
        if not isinstance(option, AllowedOption):
            self._take_other(option)
        elif option.profileset is not None:
            self._take_profileset(option, option.profileset)
            self.empty_line = 0 if option.name != "" else option.line
        elif option.line == self.empty_line:
            # `profileset.a+= level=80` would change the base.
            text = option.value if option.name is None else f"{option.name}={option.value}"
            self.refusals.take(Mistake(option.line, text, BLANKS))
        else:
            self._follow_name(option)
            self._take_base(option)

    def _take_other(self, option: Removal | Refusal) -> None:
        if isinstance(option, Refusal):
            self.refusals.take(option)
            return
        self.result.removals.append(option)
        if option.profileset is not None:
            # The profileset remains, without this option.
            empty = AllowedOption(option.line, "", "", option.profileset, option.replaces)
            self._take_profileset(empty, option.profileset)

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
            self._take_include(option)
        elif name in STARTS:
            self._take_actor(name, option)
        elif name in LIMITED:
            result.numbers[name][None] = option
        elif name in SETTINGS:
            self._take_setting(name, option)
        elif name in plots.OPTIONS:
            self._take_plot(name, option)
        elif name in STAGE_SENSITIVE or name[: len(CONTROLLERS)] == CONTROLLERS:
            result.stage_sensitive = True
            result.cancels_profilesets |= name not in STAGE_SENSITIVE
        elif not result.actors and not result.unknown_actor:
            self._take_unknown(name, option)

    def _take_actor(self, name: str, option: AllowedOption) -> None:
        result = self.result
        self._take_start(option, is_character=name not in OTHERS)
        if name == "copy":
            result.copies += 1
            self._take_name(option.value.partition(",")[0])
        elif name not in OTHERS:
            result.actors += _download_count(option.value) if name == "armory" else 1
            character = _character_of(option)
            result.main_actor = result.main_actor or character
            self._take_name(character)

    def _take_include(self, option: AllowedOption) -> None:
        result = self.result
        result.includes += 1
        if option.value in self.rules.profiles:
            result.included_actors += 1
            self._take_start(option, is_character=True)
        elif result.unknown_include is None:
            result.unknown_include = option

    def _take_start(self, option: AllowedOption, *, is_character: bool) -> None:
        result = self.result
        if is_character:
            result.characters.append(result.starts)
        elif result.first_other is None:
            result.first_other = option
        result.starts += 1

    def _take_unknown(self, name: str, option: AllowedOption) -> None:
        """Look for a character of an unknown class: a name, followed by an option that only actors have."""
        if self.candidate is None:
            if name not in ACTOR_OPTIONS and may_start(name, option.value):
                self.candidate = option, self.result.starts
        elif name in ACTOR_OPTIONS or is_action_list(name):
            self.result.unknown_actor, position = self.candidate
            self.result.characters.append(position)
            self.result.starts += 1

    def _take_name(self, name: str | None) -> None:
        if name and len(self.result.names) < LISTED_NAMES:
            self.result.names.append(name)

    def _follow_name(self, option: AllowedOption) -> None:
        if option.name is None or option.name in SWITCHES:
            is_character = option.name in CLASSES or option.name == "armory"
            self.in_main_actor = is_character and self.result.main_actor is None
        elif option.name == "name" and self.in_main_actor and option.value:
            self.result.main_actor, self.result.names[:1] = option.value, [option.value]

    def _take_setting(self, name: str, option: AllowedOption) -> None:
        if name == MAIN_ACTOR_INDEX:
            self.result.main_actor_index = option
        elif name == "calculate_scale_factors":
            self.result.scale_factors = bool(read_integer(option.value))
        elif name == "center_scale_delta":
            self.result.center_scale_delta = bool(read_integer(option.value))
        elif name == "scale_only":
            self.result.scale_only = option.value
        else:
            first = METRIC.search(option.value.strip().lower())
            self.result.metric = first[0] if first else "dps"

    def _take_plot(self, name: str, option: AllowedOption) -> None:
        bounds = self.result.bounds
        reason = plots.problem_beyond(
            name, option.value, iterations=bounds.iterations, target_error=bounds.target_error
        )
        if reason:
            self.refusals.take(Refusal(option.line, f"{name}={option.value}", reason))
        else:
            self.result.plot_options[name] = option.value


def _character_of(option: AllowedOption) -> str | None:
    if option.name not in DOWNLOADS:
        return option.value
    names = (part for part in option.value.split(",", 3)[2:3] if "=" not in part)
    return next(names, "").partition("|")[0] if option.name == "armory" else None


def _download_count(value: str) -> int:
    """Return how many actors an `armory=region,server,name,…` starts."""
    if value.count(",") > MAX_OPTIONS:
        # More than any plan allows; the parts need not be read.
        return value.count(",")
    return max(1, sum("=" not in part for part in value.split(",")[2:]))


def profile_warnings(analysis: Analysis) -> list[dict[str, Any]]:
    """Return the submission's warnings, at most 100 (`docs/reference/api.md#warnings`).

    The most important ones come first, and the last one counts those that are left out.
    """
    of_actors, clamps = list(_actor_warnings(analysis)), list(analysis.clamps)
    of_base = sum(clamp.profileset is None for clamp in clamps)
    causes: list[Clamp | Removal] = [*clamps[:of_base], *analysis.removals, *clamps[of_base:]]
    listed = [*of_actors]
    for cause in causes[: LISTED_WARNINGS - len(of_actors)]:
        if isinstance(cause, Clamp):
            listed.append(_warning(cause.kind, cause.line, cause.message, cause.requested, cause.applied))
        else:
            text = f"{cause.name}= was removed, because reports must not load images from other sites."
            listed.append(_warning("option_replaced", cause.line, text, cause.value[:SHOWN_CHARACTERS]))
    if left_out := len(of_actors) + len(causes) - len(listed):
        listed[-1]["message"] += f" {left_out:,} more warning{' is' if left_out == 1 else 's are'} not listed."
    return listed


def _actor_warnings(analysis: Analysis) -> Iterator[dict[str, Any]]:
    """Yield the warnings about who is simulated."""
    if not analysis.actors and not analysis.included_actors:
        if unknown := analysis.unknown_actor:
            written = visible(f"{unknown.name}={unknown.value[:SHOWN_CHARACTERS]}")
            text = (
                f"{written} does not start with a class that the service knows. Check its spelling. The job fails "
                "if the build does not know the class either."
            )
            yield _warning("actor_unknown", unknown.line, text)
        elif include := analysis.unknown_include:
            text = "The profile does not define a character. The job fails if no included file defines one."
            yield _warning("actor_unknown", include.line, text)
    if wrong := analysis.wrong_main_actor:
        problem = (
            f"{visible(wrong.option)} comes before the character, so profilesets would change it instead"
            if wrong.requested is None
            else f"{visible(wrong.option)} does not select a character"
        )
        text = f"{problem}. The job uses {MAIN_ACTOR_INDEX}={wrong.index} instead."
        yield _warning("option_replaced", wrong.line, text, wrong.requested, wrong.index)


def _warning(
    kind: str, line: int, message: str, requested: float | str | None = None, applied: float | None = None
) -> dict[str, Any]:
    return {"kind": kind, "line": line, "requested": requested, "applied": applied, "message": message}


def corrected(text: str, analysis: Analysis) -> str:
    """Return the profile without removed options, and with the main actor that profilesets must change."""
    lines = text.removeprefix(BOM).split("\n") if analysis.removals else [text]
    for number in {removal.line for removal in analysis.removals}:
        lines[number - 1] = "\n".join(kept_tokens(lines[number - 1]))
    wrong = analysis.wrong_main_actor
    if wrong is not None:
        lines += ["# The character that profilesets change", wrong.directive, ""]
    return "\n".join(lines)


def with_limits(text: str, analysis: Analysis) -> str:
    """Return the profile as it runs: the user's text with the options that apply the platform's limits.

    They come last because the last value of an option wins
    (`docs/reference/simulator-command-line.md#order-and-values`). An unclosed quote in the text ends with its line.
    Only numbers that replace the simulator's defaults come first: after another actor, they would override those of
    profilesets.
    """
    directives = [*(clamp.directive for clamp in analysis.clamps), *_defaults_of_profilesets(analysis)]
    end = [LIMITS, *directives, ""] if directives else []
    if not analysis.uses_defaults():
        return "\n".join([text, *end]) if end else text
    return "\n".join([LIMITS, *_defaults_of_base(text, analysis), *end])


def _defaults_of_base(text: str, analysis: Analysis) -> Iterator[str]:
    """Yield the lines of a profile without iterations, with the numbers that apply instead of the defaults."""
    iterations, target_error = analysis.effective_numbers().options
    yield iterations
    error = analysis.numbers["target_error"].get(None)
    keeps_error = error is not None and (read_number(error.value) or 0) > 0
    if not keeps_error:
        yield target_error
    if None in analysis.numbers["iterations"] or (error is not None and not keeps_error):
        # Zero or a negative number would override the limit.
        replaced = LIMITED - {"target_error"} if keeps_error else LIMITED
        yield from remaining_lines(text, without_profilesets=(), without_options=replaced, replicates={})
    else:
        yield text.removeprefix(BOM)


def _defaults_of_profilesets(analysis: Analysis) -> Iterator[str]:
    """Yield the numbers that profilesets with numbers of their own need because defaults are written out.

    Those that would run the default iterations get the numbers that apply instead. Others must not inherit the
    target error that the base has only by default.
    """
    for profileset in dict.fromkeys(name for own in analysis.numbers.values() for name in own if name is not None):
        iterations, target_error = analysis.effective_numbers(profileset).options
        own_error = analysis.numbers["target_error"].get(profileset)
        error = read_number(own_error.value if own_error else analysis.written("target_error"))
        if analysis.uses_defaults(profileset):
            yield f'profileset."{profileset}"+={iterations}'
        elif own_error or not analysis.uses_defaults():
            continue
        if error is not None and error <= 0:
            yield f'profileset."{profileset}"+={target_error}'
