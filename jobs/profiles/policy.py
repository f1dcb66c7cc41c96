"""What a profile may ask of the simulator: the directives that are refused, and why.

The judgement is made on options as the simulator would read them (`grammar`), never on the text's looks, so no
spelling gets past it. Everything that is not refused here is allowed: real profiles are full of options of
classes, expansions and forks that nobody has listed. Sections are those of simulator-cli.
"""

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from jobs.profiles.grammar import TemplateError, Templates, Token, profileset_name

READS = "it reads a file"
WRITES = "it writes a file"
NETWORK = "it reaches for the network or for credentials"
PAGE = "it makes the HTML report load from addresses of its own"
THREADS = "threads and priority are the service's to set"
FLOODS = "it floods the output"
EXHAUSTS = "it can exhaust memory or keep time from passing"
NO_SIMULATION = "it makes the simulator do something other than simulate"
STRICT = "it could turn the service's own options into errors"

REFUSED: dict[str, str] = {
    # Reading files (2a). `input` and bare file names are judged against the bundled profiles instead.
    "local_json": READS,
    # Writing files (2b); the last three are of old builds.
    "json": WRITES,
    "json2": WRITES,
    "html": WRITES,
    "output": WRITES,
    "debug_seed": WRITES,
    "reforge_plot_output_file": WRITES,
    "spell_query_xml_output_file": WRITES,
    "save_gear": WRITES,
    "save_talents": WRITES,
    "save_actions": WRITES,
    "save_raid_summary": WRITES,
    "save_prefix": WRITES,
    "save_suffix": WRITES,
    "save_talent_str": WRITES,
    "save_full_profile": WRITES,
    "tmi_output": WRITES,
    "json3": WRITES,
    "xml": WRITES,
    # What the readers of an HTML report would load (2b).
    "hosted_html": PAGE,
    "thumbnail": PAGE,
    "decorated_tooltips": PAGE,
    # The network and credentials (2c). `armory` and `guild` are judged by whether credentials came along.
    "item_db_source": NETWORK,
    "cache_items": NETWORK,
    "cache_players": NETWORK,
    "http_clear_cache": NETWORK,
    "armory_retries": NETWORK,
    "default_region": NETWORK,
    "default_server": NETWORK,
    "proxy": NETWORK,
    "apikey": NETWORK,
    "apitoken": NETWORK,
    # Threads and priority (2d). `deterministic` stays allowed: it decides numbers, not how many threads.
    "threads": THREADS,
    "profileset_work_threads": THREADS,
    "profileset_init_threads": THREADS,
    "process_priority": THREADS,
    "cleanup_threads": THREADS,
    "strict_work_queue": THREADS,
    # Output without end (2e).
    "debug": FLOODS,
    "debug_each": FLOODS,
    "debug_scale_factors": FLOODS,
    "log": FLOODS,
    "maximize_reporting": FLOODS,
    "statistics_level": FLOODS,
    "report_rng": FLOODS,
    "report_iteration_data": FLOODS,
    "report_strict_iteration_data": FLOODS,
    "report_all_variables": FLOODS,
    "collect_action_sequence": FLOODS,
    "stat_timelines": FLOODS,
    "buff_uptime_timeline": FLOODS,
    "buff_stack_uptime_timeline": FLOODS,
    # Plots: a whole simulation for every point, and every point in the report (2e).
    "dps_plot_stat": FLOODS,
    "dps_plot_points": FLOODS,
    "dps_plot_step": FLOODS,
    "dps_plot_iterations": FLOODS,
    "dps_plot_target_error": FLOODS,
    "dps_plot_positive": FLOODS,
    "dps_plot_negative": FLOODS,
    "dps_plot_debug": FLOODS,
    "reforge_plot_stat": FLOODS,
    "reforge_plot_amount": FLOODS,
    "reforge_plot_step": FLOODS,
    "reforge_plot_iterations": FLOODS,
    "reforge_plot_target_error": FLOODS,
    "reforge_plot_debug": FLOODS,
    # The event wheel's memory, and an event that is due again at the same instant (2e).
    "wheel_seconds": EXHAUSTS,
    "wheel_shift": EXHAUSTS,
    "wheel_granularity": EXHAUSTS,
    "regen_periodicity": EXHAUSTS,
    # Modes in which nothing is simulated (2f).
    "spell_query": NO_SIMULATION,
    "spell_query_wrap": NO_SIMULATION,
    "display_build": NO_SIMULATION,
    "show_bonus_ids": NO_SIMULATION,
    "show_hotfixes": NO_SIMULATION,
    "save": NO_SIMULATION,
    "save_profiles": NO_SIMULATION,
    "strict_parsing": STRICT,
}
NEEDS_CREDENTIALS = frozenset({"armory", "guild"})
# Only an item's `source` names a database to ask (2c); a character's own is a remark.
ITEM_SLOTS = frozenset(
    "head neck shoulder shoulders back chest shirt tabard wrist wrists hand hands waist leg legs foot feet finger1 "
    "finger2 ring1 ring2 trinket1 trinket2 main_hand off_hand ranged relic1 relic2 weapon items".split()
)
ITEM_OVERRIDE = "override.item_slot."
# One of the parts between an item's commas; what follows its `=` is a value.
_SOURCE = re.compile(r"(?<![^,])\s*+source\s*+(?![^=,])")
# The names whose value decides.
LOOKED_INTO = ITEM_SLOTS | NEEDS_CREDENTIALS | {"input"}
# The names to which `+=` appends (1.3); everywhere else it makes an option of an unknown name.
APPENDABLE = frozenset(
    {"raid_events", "set_bonus", "class_talents", "spec_talents", "hero_talents", "target_level"}
)
APPENDABLE_FAMILIES = ("actions", "apl_variable", "items")
# Read as numbers whatever follows the digits.
LIMITED = frozenset({"iterations", "target_error"})
# How many harmless names are cached.
MEMORY = 1_000

NOT_BUNDLED = "only files that come with the build can be included"
NO_CREDENTIALS = "it needs credentials.bnetClientId and credentials.bnetClientSecret"
TEMPLATED = "a template may stand in values, but not where it could become another directive"
NESTED = "a profileset cannot hold another one"
PIECEMEAL = "an item is written in one piece, so that it can be judged"
OUT_OF_TURN = "a number with '=' in it would win over the platform's limits"
LOST_NAME = "the simulator would silently drop it: a profileset's name is not empty and holds neither '.' nor '='"


class Refusal(NamedTuple):
    """A directive that may not run: where it stands, what the simulator would read there, and why not."""

    line: int
    text: str
    reason: str


class Setting(NamedTuple):
    """An option that may run, as the simulator will read it; `profileset` names the set it belongs to, if any.

    The name is None for a bundled profile that is included by its bare file name. `replaces` tells that the
    option begins its profileset anew (`profileset.NAME=`) instead of adding to it (`profileset.NAME+=`).
    """

    line: int
    name: str | None
    value: str
    profileset: str | None = None
    replaces: bool = False


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the policy needs besides the text: the names of bundled files, and whether there are credentials.

    `profiles` are the `bundled` names whose files start an actor; they are only counted.
    """

    bundled: Container[str] = frozenset()
    profiles: Container[str] = frozenset()
    has_credentials: bool = False
    # Cache of names whose value does not matter: most options repeat a few names.
    _harmless: set[str | None] = field(default_factory=set, init=False, repr=False, compare=False)

    def judge(self, tokens: Iterable[tuple[int, str]]) -> Iterator[Setting | Refusal]:
        """Judge a profile's tokens in order; template definitions are stored and yield nothing.

        Takes tokens or plain pairs of line and text.
        """
        templates = Templates({})
        for line, text in tokens:
            if "$" in text:
                yield from self._judge_templated(Token(line, text), templates)
            else:
                name, equals, value = text.partition("=")
                yield self._judge_option(line, name, value) if equals else self._judge_option(line, None, name)

    def _judge_templated(self, token: Token, templates: Templates) -> Iterator[Setting | Refusal]:
        if could_become_another(token):
            yield Refusal(token.line, token.text, TEMPLATED)
            return
        try:
            option = templates.expand(token)
        except TemplateError as error:
            yield Refusal(token.line, token.text, str(error))
            return
        if option is not None:
            # What two templates spell together would be expanded once more inside a profileset.
            templated = "$(" in option.value
            yield refuse(*option, TEMPLATED) if templated else self._judge_option(*option)

    def _judge_option(self, line: int, name: str | None, value: str) -> Setting | Refusal:
        if name is not None and is_profileset(name):
            return self._judge_profileset(line, name, value)
        reason = None if name in self._harmless else self._reason(name, value)
        return refuse(line, name, value, reason) if reason else Setting(line, name, value)

    def _judge_profileset(self, line: int, name: str, value: str) -> Setting | Refusal:
        """Judge the text after `profileset.NAME+=`, which the simulator reads as one token again (1.8)."""
        key, adds = profileset_name(name) or ("", False)
        if key in ("", "+"):
            return refuse(line, name, value, LOST_NAME)
        if not value:
            return Setting(line, "", "", key, not adds)
        nested: str | None
        nested, equals, rest = value.partition("=")
        if not equals:
            nested, rest = None, value
        reason = None if nested in self._harmless else self._nested_reason(nested, rest)
        return refuse(line, name, value, reason) if reason else Setting(line, nested, rest, key, not adds)

    def _nested_reason(self, name: str | None, value: str) -> str | None:
        """Return why an option inside a profileset is refused, or None."""
        if name is not None:
            if is_profileset(name):
                return NESTED
            if name[-1:] == "+" and not appends(name):
                # `profileset.a=b+=…`: the intended name of the set has become an option's name.
                return LOST_NAME
            if name in LIMITED:
                # Unlike other options, with `=` it would not replace the base's number but follow it (1.8).
                return OUT_OF_TURN if "=" in value else None
        return self._reason(name, value)

    def _reason(self, name: str | None, value: str) -> str | None:
        """Return why a single option is refused, or None. Spelling variants count as the name they resemble."""
        if name is None:
            return None if value in self.bundled else NOT_BUNDLED
        plain = name.rstrip("+").lower()
        if plain not in LOOKED_INTO and plain[: len(ITEM_OVERRIDE)] != ITEM_OVERRIDE:
            if plain == name and plain not in REFUSED and plain not in LIMITED and len(self._harmless) < MEMORY:
                self._harmless.add(name)
            return REFUSED.get(plain)
        if plain == "input":
            return None if name == "input" and value in self.bundled else NOT_BUNDLED
        if plain in NEEDS_CREDENTIALS:
            return None if self.has_credentials else NO_CREDENTIALS
        return item_reason(name, value)


def refuse(line: int, name: str | None, value: str, reason: str) -> Refusal:
    """Return the refusal of an option, with its text as the simulator reads it."""
    return Refusal(line, value if name is None else f"{name}={value}", reason)


def could_become_another(token: Token) -> bool:
    """Tell whether a template stands where it could become a directive: in a bare token, or in a name.

    A dollar sign alone is none, except where a definition would begin: at the start of a name.
    """
    name, equals, value = token.text.partition("=")
    if not equals:
        return "$(" in name
    if name[:1] == "$":
        return "$(" in name[1:]
    if "$(" in name:
        return True
    # Of a profileset's option, the part before its own `=`, if there is one.
    return "$(" in value.partition("=")[0] and is_profileset(name)


def is_profileset(name: str) -> bool:
    """Tell whether an option is, or by its looks means to be, a profileset's."""
    # Few names have a dot there, so most need no lower-case copy.
    return name[10:11] == "." and name[:11].lower() == "profileset."


def appends(name: str) -> bool:
    """Tell whether the simulator knows an option whose name ends in `+`."""
    plain = name.removesuffix("+")
    return plain in APPENDABLE or plain.partition(".")[0] in APPENDABLE_FAMILIES


def item_reason(name: str, value: str) -> str | None:
    """Return why an item is refused, or None. Where `+=` works it joins strings, be it in the middle of a word."""
    if name[-1:] == "+":
        return PIECEMEAL
    return NETWORK if names_a_source(value) else None


def names_a_source(item: str) -> bool:
    """Tell whether an item's options name the database to look it up in."""
    lowered = item.lower()
    return "source" in lowered and _SOURCE.search(lowered) is not None
