"""Controls of the job form that write the fight and its precision into the profile.

`simc/profiles/fight_options.py` has the rule. An empty control leaves the profile alone.
"""

from collections.abc import Mapping
from typing import NamedTuple

from django.forms import ChoiceField

from jobs.planning import multistage
from jobs.planning.input_text import bounds
from jobs.results.labels import duration
from simc.characters import visible
from simc.profiles.fight_options import OFF, number_of, read, write
from simc.profiles.includes import has_includes
from simc.profiles.numbers import DEFAULT_TARGET_ERROR

# The simulator has more, for example those that need a route through a dungeon.
STYLES = {
    "Patchwerk": "Patchwerk: one boss, no movement",
    "CastingPatchwerk": "Casting Patchwerk: one boss that casts",
    "LightMovement": "Light movement: you move now and then",
    "HeavyMovement": "Heavy movement: you move often",
    "CleaveAdd": "Cleave: a second enemy joins now and then",
    "HecticAddCleave": "Hectic cleave: many enemies join, you move",
    "DungeonSlice": "Dungeon slice: groups of enemies and a boss",
}
TARGETS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20)
SECONDS = (60, 120, 180, 240, 300, 360, 480, 600)
VARIATIONS = {"0": "Always the same length", "0.1": "± 10 %", "0.2": "± 20 %", "0.3": "± 30 %"}
# The margin of error of a mean, in percent of it
ERRORS = {
    "0.5": "Quick look: ± 0.5 %",
    f"{DEFAULT_TARGET_ERROR:g}": "Normal: ± 0.2 %",
    "0.1": "Precise: ± 0.1 %",
    "0.05": "Very precise: ± 0.05 %",
}
ITERATIONS = (1_000, 10_000, 25_000)
# Whether variants run in stages, which is not part of the profile
AUTOMATIC, STAGES, SINGLE_PASS = "", "on", "off"
STAGE_CHOICES = ((AUTOMATIC, "Automatic"), (STAGES, "In stages"), (SINGLE_PASS, "All at full precision"))
STAGES_HELP = (
    "Stages drop clearly weaker variants early, which saves credits. Automatic uses them for "
    f"{multistage.MANY_VARIANTS} variants or more."
)
SHOWN_CHARACTERS = 40
DEFAULT, OWN = "Default: {}", "Profile: {}"
OF_FILE, OF_STYLE = "Set by the included file", "Set by the fight style"


class Control(NamedTuple):
    """A control that writes one option. `default` is the simulator's value."""

    option: str
    label: str
    choices: Mapping[str, str]
    default: str
    help: str = ""


CONTROLS = {
    "fight_style": Control("fight_style", "Fight style", STYLES, "Patchwerk"),
    "targets": Control(
        "desired_targets", "Targets", {f"{n}": f"{n} target{'' if n == 1 else 's'}" for n in TARGETS}, "1"
    ),
    "length": Control("max_time", "Fight length", {f"{n}": duration(n) for n in SECONDS}, "300"),
    "variation": Control(
        "vary_combat_length",
        "Length variation",
        VARIATIONS,
        "0.2",
        "Varied lengths are more realistic.",
    ),
}
PRECISION = "precision"
PRECISION_HELP = "The margin of error of each result. Half the margin of error takes about four times as long."


def fields() -> dict[str, ChoiceField]:
    """Return the fields of the form, without choices beyond the platform's limits."""
    limits = bounds()
    precisions = {f"target_error={e}": words for e, words in ERRORS.items() if float(e) >= limits.target_error}
    precisions |= {f"iterations={n}": f"Exactly {n:,} fights" for n in ITERATIONS if n <= limits.iterations}
    named = {name: _field(each.label, each.choices, each.help) for name, each in CONTROLS.items()}
    return named | {PRECISION: _field("Precision", precisions, PRECISION_HELP)}


def _field(label: str, choices: Mapping[str, str], help_text: str) -> ChoiceField:
    return ChoiceField(label=label, choices=[("", ""), *choices.items()], required=False, help_text=help_text)


def written(text: str, chosen: Mapping[str, str]) -> str:
    """Return a profile with the values that were chosen for the controls."""
    values = {control.option: chosen[name] for name, control in CONTROLS.items() if chosen.get(name)}
    if precision := chosen.get(PRECISION):
        # With a target error, iterations would be a limit.
        option, _, value = precision.partition("=")
        values |= {"target_error": OFF, "iterations": OFF, option: value}
    return write(text, values) if values else text


def in_words(text: str) -> dict[str, str]:
    """Return what a profile says about each control."""
    values = read(text)
    unset = {name: DEFAULT.format(each.choices[each.default]) for name, each in CONTROLS.items()}
    unset[PRECISION] = "The simulator's default"
    if has_includes(text):
        unset = dict.fromkeys(unset, OF_FILE)
    elif values.get("fight_style", "").lower() not in ("", "patchwerk"):
        unset |= dict.fromkeys(("targets", "length"), OF_STYLE)
    own = {name: _words(each, values[each.option]) for name, each in CONTROLS.items() if each.option in values}
    return unset | own | {PRECISION: _precision(values, unset[PRECISION])}


def _words(control: Control, value: str) -> str:
    """Return an option's value in words. Equal numbers can be written in several ways, styles in any case."""
    number = number_of(value)
    for choice, words in control.choices.items():
        if choice.lower() == value.lower() or (number is not None and number == number_of(choice)):
            return OWN.format(words)
    if number is None or (control.option == "desired_targets" and number % 1):
        return f"Custom: {control.option}={visible(value[:SHOWN_CHARACTERS])}"
    return OWN.format(_number_in_words(control.option, number))


def _number_in_words(option: str, number: float) -> str:
    if option == "max_time":
        return duration(number)
    return f"± {number * 100:g} %" if option == "vary_combat_length" else f"{number:g} targets"


def _precision(values: Mapping[str, str], unset: str) -> str:
    pair = {name: values.get(name, OFF) for name in ("target_error", "iterations")}
    error, iterations = (number_of(value) for value in pair.values())
    if error is None or iterations is None or iterations % 1:
        shown = ", ".join(f"{name}={visible(values[name][:SHOWN_CHARACTERS])}" for name in pair if name in values)
        return f"Custom: {shown}"
    margin, fights = f"± {error:g} %", f"{iterations:,.0f} fights"
    if error and iterations:
        return OWN.format(f"{margin}, at most {fights}")
    if error:
        return OWN.format(margin)
    return OWN.format(f"Exactly {fights}") if iterations else unset
