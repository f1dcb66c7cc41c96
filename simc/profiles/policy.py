"""The directives that a profile must not contain, and why each is refused or removed.

Options are checked as the simulator reads them (`grammar`), so no spelling evades the check. Everything that is not
refused here is allowed: real profiles are full of options of classes, expansions and forks. The options are
described in `docs/reference/simulator-command-line.md#options-to-control`. Mistakes that would change what is
simulated are refused too (`mistakes`).
"""

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from simc.profiles import plots
from simc.profiles.actors import (
    ACTOR_OPTIONS,
    CLASSES,
    DOWNLOAD_OPTIONS,
    DOWNLOADS,
    ITEM_SLOTS,
    NAMED,
    misspelt_class,
)
from simc.profiles.grammar import BOM, TemplateError, Templates, Token, profileset_name
from simc.profiles.mistakes import (
    LOST_LINE_BREAKS,
    NO_CHARACTER_NAME,
    NOT_A_NAME,
    READ_CHARACTERS,
    is_option_name,
    needs_reading,
    problem_of_character,
    problem_of_name,
    problem_of_value,
    reason_of_line,
)

READS = "it reads a file"
WRITES = "it writes a file"
NETWORK = "it uses the network or credentials"
PAGE = "it makes the HTML report load external content"
THREADS = "the service sets threads and priority itself"
FLOODS = "it produces too much output"
EXHAUSTS = "it can exhaust memory or make the simulation endless"
NO_SIMULATION = "it makes the simulator do something other than simulate"
STRICT = "it could make the service's own options fail"
# Options with this reason are removed instead of refused.
PICTURE = "it makes the HTML report load an image from another site"
ELSEWHERE = (
    "put the region and the server in the line of the character: armory=us,server,name or "
    "guild=name,region=us,server=…"
)

REFUSED: dict[str, str] = {
    # `input` and bare file names are checked against the bundled profiles instead.
    "local_json": READS,
    # Only old builds have the last three.
    **dict.fromkeys(
        "json json2 html output debug_seed reforge_plot_output_file spell_query_xml_output_file save_gear "
        "save_talents save_actions save_raid_summary save_prefix save_suffix save_talent_str save_full_profile "
        "tmi_output json3 xml".split(),
        WRITES,
    ),
    # Content that the readers of an HTML report would load.
    **dict.fromkeys(("hosted_html", "decorated_tooltips"), PAGE),
    "thumbnail": PICTURE,
    # `armory` and `guild` are allowed if the job has game credentials.
    **dict.fromkeys(
        "item_db_source cache_items cache_players http_clear_cache armory_retries proxy apikey apitoken".split(),
        NETWORK,
    ),
    **dict.fromkeys(("default_region", "default_server"), ELSEWHERE),
    # `deterministic` is allowed: it affects results, not the number of threads.
    **dict.fromkeys(
        "threads profileset_work_threads profileset_init_threads process_priority cleanup_threads "
        "strict_work_queue".split(),
        THREADS,
    ),
    # For a reforge plot, a whole simulation runs for each combination of stats.
    **dict.fromkeys(
        "debug debug_each debug_scale_factors log maximize_reporting statistics_level report_rng "
        "report_iteration_data report_strict_iteration_data report_all_variables collect_action_sequence "
        "stat_timelines buff_uptime_timeline buff_stack_uptime_timeline dps_plot_debug reforge_plot_stat "
        "reforge_plot_amount reforge_plot_step reforge_plot_iterations reforge_plot_target_error "
        "reforge_plot_debug".split(),
        FLOODS,
    ),
    # The memory of the event wheel, and an event that is due again at the same instant.
    **dict.fromkeys("wheel_seconds wheel_shift wheel_granularity regen_periodicity".split(), EXHAUSTS),
    # Modes in which nothing is simulated.
    **dict.fromkeys(
        "spell_query spell_query_wrap display_build show_bonus_ids show_hotfixes save save_profiles".split(),
        NO_SIMULATION,
    ),
    "strict_parsing": STRICT,
}
ITEM_OVERRIDE = "override.item_slot."
# `source` as the name of an item's part; parts are separated by commas, and a value follows `=`.
_SOURCE = re.compile(r"(?<![^,])\s*+source\s*+(?![^=,])")
# Options that are refused or allowed by their value.
CHECKED_BY_VALUE = ITEM_SLOTS | DOWNLOADS | NAMED | plots.OPTIONS | {"input"}
# The options to which `+=` appends; for all others it is part of an unknown name
# (`docs/reference/simulator-command-line.md#append-operator`).
APPENDABLE = frozenset(
    {"raid_events", "set_bonus", "class_talents", "spec_talents", "hero_talents", "target_level"}
)
APPENDABLE_FAMILIES = ("actions", "apl_variable", "items")
# Numbers that the platform limits.
LIMITED = frozenset({"iterations", "target_error"})
# How many harmless names are cached.
CACHED_NAMES = 1_000

NOT_BUNDLED = "only files that come with the build can be included; paste the contents of other files instead"
NO_CREDENTIALS = "it requires game credentials (credentials.bnetClientId and credentials.bnetClientSecret)"
TEMPLATED = "a template is allowed in a value, but not where it could form another directive"
NESTED = "a profileset cannot contain another profileset"
PIECEMEAL = "an item must be written in one piece, without +="
OVERRIDES_LIMIT = "a number that contains '=' would override the service's limits"
INVALID_NAME = "the simulator would ignore it: a profileset's name must not be blank or contain '.' or '='"
NOT_LOWERCASE = "the simulator would ignore it; write profileset. in lowercase letters"
NOT_AN_OPTION = (
    "the profileset's name must be followed by an option, such as talents=…; the name cannot contain '='"
)


class Refusal(NamedTuple):
    """A directive that must not run: its line, its text as the simulator reads it, and the reason."""

    line: int
    text: str
    reason: str


class Mistake(Refusal):
    """The refusal of a text that is not an option, usually because of a mistake elsewhere on its line."""

    __slots__ = ()


class Removal(NamedTuple):
    """An option that must not run, and without which the profile runs. The fields are those of `AllowedOption`."""

    line: int
    name: str
    value: str
    profileset: str | None = None
    replaces: bool = False


class AllowedOption(NamedTuple):
    """An option that may run, as the simulator reads it; `profileset` names the profileset it belongs to, if any.

    The name is None for a bundled profile that is included by its bare file name. `replaces` means that the option
    starts its profileset again (`profileset.NAME=`) instead of adding to it (`profileset.NAME+=`).
    """

    line: int
    name: str | None
    value: str
    profileset: str | None = None
    replaces: bool = False


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The policy for one job: the names of bundled files, and whether the job has game credentials.

    `profiles` are the `bundled` names whose files start an actor; they are only counted.
    """

    bundled: Container[str] = frozenset()
    profiles: Container[str] = frozenset()
    has_credentials: bool = False
    # Cache of names whose value does not matter: most options repeat a few names.
    _harmless: set[str | None] = field(default_factory=set, init=False, repr=False, compare=False)
    # Cache of names that options can have, also with a plus sign.
    _names: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def check(self, tokens: Iterable[tuple[int, str]]) -> Iterator[AllowedOption | Removal | Refusal]:
        """Check a profile's tokens in order; template definitions are stored and yield nothing.

        Takes tokens or pairs of line and text.
        """
        templates = Templates({})
        for line, text in tokens:
            if "$" in text:
                yield from self._check_templated(Token(line, text), templates)
            else:
                name, equals, value = text.partition("=")
                yield self._check_option(line, name, value) if equals else self._check_option(line, None, name)

    def _check_templated(self, token: Token, templates: Templates) -> Iterator[AllowedOption | Removal | Refusal]:
        if could_form_directive(token):
            yield Refusal(token.line, token.text, TEMPLATED)
            return
        try:
            option = templates.expand(token)
        except TemplateError as error:
            yield Refusal(token.line, token.text, str(error))
            return
        if option is not None:
            # Two templates can form a third one, which would be expanded inside a profileset.
            templated = "$(" in option.value
            yield _refusal(*option, TEMPLATED) if templated else self._check_option(*option)

    def _check_option(self, line: int, name: str | None, value: str) -> AllowedOption | Removal | Refusal:
        if name is not None and is_profileset(name):
            return self._check_profileset(line, name, value)
        reason = None if name in self._harmless else self._reason(name, value)
        if not reason and needs_reading(value):
            reason = problem_of_value(value)
        if not reason:
            return AllowedOption(line, name, value)
        if reason is PICTURE and name is not None:
            return Removal(line, name, value)
        return _refusal(line, name, value, reason)

    def _check_profileset(self, line: int, name: str, value: str) -> AllowedOption | Removal | Refusal:
        """Check the text after `profileset.NAME+=`, which the simulator reads as one token again."""
        key, adds = profileset_name(name) or ("", False)
        if not key or key == "+" or key.isspace():
            is_lowercase = name[:11] == "profileset."
            return _refusal(line, name, value, INVALID_NAME if is_lowercase else NOT_LOWERCASE)
        if not value:
            return AllowedOption(line, "", "", key, not adds)
        nested: str | None
        nested, equals, rest = value.partition("=")
        if not equals:
            nested, rest = None, value
        reason = None if nested in self._harmless else self._nested_reason(nested, rest)
        if not reason and needs_reading(rest):
            reason = problem_of_value(rest)
        if not reason and nested not in ACTOR_OPTIONS and "=" in rest:
            reason = _reason_of_glued_name(nested, rest)
        if not reason:
            return AllowedOption(line, nested, rest, key, not adds)
        if reason is PICTURE and nested is not None:
            return Removal(line, nested, rest, key, not adds)
        return _refusal(line, name, value, reason)

    def _nested_reason(self, name: str | None, value: str) -> str | None:
        if name is not None:
            if is_profileset(name):
                return NESTED
            if name[-1:] == "+" and not _appends(name):
                # `profileset.a=b+=…`: part of the intended profileset name has become an option's name.
                return INVALID_NAME
            if name in LIMITED:
                # With `=` it would not replace the base's number but follow it, unlike other options.
                return OVERRIDES_LIMIT if "=" in value else None
            if name.lower() in plots.OPTIONS:
                return plots.NOT_IN_PROFILESETS
        reason = self._reason(name, value)
        return NOT_AN_OPTION if reason is NOT_A_NAME else reason

    def _reason(self, name: str | None, value: str) -> str | None:
        """Return why a single option is refused, or None. Spelling variants count as the name they resemble."""
        if name is None:
            return None if value in self.bundled else NOT_BUNDLED
        plain = name.rstrip("+").lower()
        if plain not in CHECKED_BY_VALUE and plain[: len(ITEM_OVERRIDE)] != ITEM_OVERRIDE:
            return REFUSED.get(plain) or self._unknown_reason(name, plain)
        if plain == "input":
            return None if name == "input" and value in self.bundled else NOT_BUNDLED
        if plain in plots.OPTIONS:
            return plots.problem_of(name, value)
        if plain in DOWNLOADS:
            return _reason_of_download(value) if self.has_credentials else NO_CREDENTIALS
        if plain in NAMED:
            has_no_name = plain in CLASSES and not value.strip()
            return _reason_of_name(name) or (NO_CHARACTER_NAME if has_no_name else problem_of_character(value))
        if name[-1:] == "+":
            # It would join strings, even in the middle of a word.
            return PIECEMEAL
        return NETWORK if names_a_source(value) else None

    def _unknown_reason(self, name: str, plain: str) -> str | None:
        if name in self._names:
            return None
        reason = _reason_of_name(name)
        if not reason and len(self._names) < CACHED_NAMES:
            self._names.add(name)
            if plain == name and plain not in LIMITED:
                self._harmless.add(name)
        return reason


def _refusal(line: int, name: str | None, value: str, reason: str) -> Refusal:
    text = value if name is None else f"{name}={value}"
    return (Refusal if reason is not LOST_LINE_BREAKS and _is_option(name, value) else Mistake)(line, text, reason)


def _is_option(name: str | None, value: str) -> bool:
    if name is not None and is_profileset(name):
        nested, equals, _ = value.partition("=")
        return not value or (bool(equals) and is_option_name(nested))
    return name is not None and is_option_name(name)


def _reason_of_name(name: str) -> str | None:
    if not is_option_name(name):
        return problem_of_name(name)
    intended = misspelt_class(name)
    return (
        f"the simulator would ignore it; write {intended}= to start a character of this class" if intended else None
    )


def _reason_of_download(value: str) -> str | None:
    """Return why the value of `armory=` or `guild=` contains another option, or None."""
    parts = (part.partition("=") for part in value.split(",")) if "=" in value else ()
    glued = any(
        equals and ("=" in rest or name.strip().lower() not in DOWNLOAD_OPTIONS) for name, equals, rest in parts
    )
    return LOST_LINE_BREAKS if glued else None


def _reason_of_glued_name(name: str | None, value: str) -> str | None:
    """Return why `profileset.a=b=…` was meant for a profileset whose name contains `=`, or None."""
    if name is None or _appends(name):
        return None
    other = value.partition("=")[0].rstrip("+")
    return INVALID_NAME if other in ACTOR_OPTIONS or other in LIMITED or other[:5] == "gear_" else None


def could_form_directive(token: Token) -> bool:
    """Return whether a token contains a template where it could form a directive: in a bare token, or in a name.

    A dollar sign alone does not count, except where it could begin a definition: at the start of a name.
    """
    name, equals, value = token.text.partition("=")
    if not equals:
        return "$(" in name
    if name[:1] == "$":
        return "$(" in name[1:]
    if "$(" in name:
        return True
    # In a profileset, also the name of the nested option.
    return "$(" in value.partition("=")[0] and is_profileset(name)


def is_profileset(name: str) -> bool:
    """Return whether an option belongs to a profileset, or seems to be intended for one."""
    # Few names have a dot there, so most need no lowercase copy.
    return name[10:11] == "." and name[:11].lower() == "profileset."


def is_removed(name: str) -> bool:
    """Return whether an option is removed instead of refused, in any spelling."""
    return REFUSED.get(name.rstrip("+").lower()) is PICTURE


def _appends(name: str) -> bool:
    """Return whether the simulator knows an option whose name ends in `+`."""
    plain = name.removesuffix("+")
    return plain in APPENDABLE or plain.partition(".")[0] in APPENDABLE_FAMILIES


def names_a_source(item: str) -> bool:
    """Return whether an item names the database to look it up in."""
    lowered = item.lower()
    return "source" in lowered and _SOURCE.search(lowered) is not None


LISTED_REFUSALS = 20


class Refusals:
    """Collects refusals. A mistake is the only one of its line; `listed` has the first 20 of `count`."""

    def __init__(self) -> None:
        self.listed: list[Refusal] = []
        self.count = 0
        # The last refused line, how many of its refusals count, and whether one of them is a mistake
        self._line = self._of_line = 0
        self._is_mistaken = False

    def take(self, refusal: Refusal) -> None:
        """Add a refusal."""
        if refusal.line != self._line:
            self._line, self._of_line, self._is_mistaken = refusal.line, 0, False
        if self._is_mistaken and refusal.reason is not LOST_LINE_BREAKS:
            return
        if isinstance(refusal, Mistake):
            self.count -= self._of_line
            self._of_line, self._is_mistaken = 0, True
            while self.listed and self.listed[-1].line == refusal.line:
                self.listed.pop()
        self.count += 1
        self._of_line += 1
        if len(self.listed) < LISTED_REFUSALS:
            self.listed.append(refusal)

    def explained(self, text: str) -> list[Refusal]:
        """Return the listed refusals with the mistakes that only the whole lines of their text show."""
        if not any(isinstance(refusal, Mistake) for refusal in self.listed):
            return self.listed
        lines = text.removeprefix(BOM).split("\n")
        return [_explained(refusal, lines[refusal.line - 1]) for refusal in self.listed]


def _explained(refusal: Refusal, line: str) -> Refusal:
    """Return a refusal with the mistake in its line, if it says only that a text is not an option."""
    if not isinstance(refusal, Mistake) or refusal.reason not in (NOT_BUNDLED, NOT_A_NAME):
        return refusal
    text = refusal.text
    word = text.partition("=")[2] if is_profileset(text) else text
    reason = reason_of_line(line, word)
    # A long line is not shown if the mistake would be cut off.
    shown = line.strip() if word in line.strip()[:READ_CHARACTERS] else text
    return Refusal(refusal.line, shown, reason) if reason else refusal
