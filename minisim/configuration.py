"""Read the command line and the files that it includes, and apply the options in order.

See `docs/reference/simulator-command-line.md#order-and-values` and the sections after it.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from minisim.actor import ENEMY_TYPES, PET_TYPES, PLAYER_TYPES, Actor
from minisim.settings import Settings
from minisim.values import SimulatorError
from simc.profiles.grammar import Option, TemplateError, Token, decode, expand_templates, profileset_name, tokens

_IMPORTS = frozenset({"armory", "guild", "local_json"})


class Configuration:
    """The contents of a simulation. `actors` includes enemies and pets, in the order of their declaration."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.actors: list[Actor] = []
        self.profilesets: dict[str, list[str]] = {}
        self.warnings: list[str] = []
        # Options of the whole run, each with the number of actors that were declared before it.
        self._run_options: list[tuple[int, str, str]] = []
        self._current: Actor | None = None
        self._is_profileset = False

    def apply_all(self, options: Iterable[Option]) -> None:
        """Apply every option. Raises SimulatorError at the first invalid one."""
        for option in options:
            name = option.name or ""
            try:
                self._apply(name, option.value)
            except SimulatorError as error:
                message = f"Option '{name}' with value '{option.value}': {error}"
                raise SimulatorError(message, status=error.status) from error

    def players(self) -> list[Actor]:
        """Return the actors that fight. Raises SimulatorError if there are none."""
        players = [actor for actor in self.actors if actor.is_player]
        if not players:
            raise SimulatorError("Nothing to sim!")
        return players

    def reported_player(self) -> Actor:
        """Return the player whose figures are those of a profileset. Raises SimulatorError for an invalid index."""
        index, players = self.settings.profileset_report_player_index, self.players()
        if not 0 <= index < len(players):
            raise SimulatorError(f"Option profileset_report_player_index={index} is out of range.")
        return players[index]

    def rename_duplicates(self) -> None:
        """Rename players with the same name, with a warning; the last one keeps the name."""
        players, number = [actor for actor in self.actors if actor.is_player], 0
        counts = Counter(player.name for player in players)
        for player in players:
            name = player.name
            if counts[name] > 1:
                number += 1
                counts[name] -= 1
                player.name = f"{name}{number}"
                self.warnings.append(
                    f"{name} has duplicate name, renaming to {player.name}. "
                    "Please use unique names for all players in simulation."
                )

    def variant(self, name: str) -> "Configuration":
        """Return this configuration with a profileset applied to its main actor. Raises SimulatorError."""
        main = self.main_actor()
        variant = Configuration()
        variant.settings = replace(self.settings)
        variant.actors = [actor.copy(actor.name) if actor is main else actor for actor in self.actors]
        variant._current = variant.actors[self.actors.index(main)]
        variant._is_profileset = True
        # Each value is a separate argument, which can name a file.
        variant.apply_all(read_tokens(Token(0, value) for value in self.profilesets[name]))
        # A profileset's values apply within the main actor's declaration; options after the next actor win.
        for actors, option, value in self._run_options:
            if actors > self.actors.index(main) + 1:
                variant.settings.apply(option, value)
        return variant

    def main_actor(self) -> Actor:
        """Return the actor that profilesets change, which can be an enemy. Raises SimulatorError."""
        index = self.settings.profileset_main_actor_index
        if not 0 <= index < len(self.actors):
            raise SimulatorError(
                f"Option profileset_main_actor_index={index} is out of range. "
                f"Only {len(self.actors)} actors are defined."
            )
        return self.actors[index]

    def _apply(self, name: str, value: str) -> None:
        if name in _IMPORTS:
            raise SimulatorError("minisim imports no characters")
        if name in PLAYER_TYPES | ENEMY_TYPES | PET_TYPES or name == "copy":
            self._start(name, value)
        elif name == "active":
            players = (actor for actor in reversed(self.actors) if actor.is_player)
            self._current = next(players, None) if value == "owner" else self._find(value)
        elif key := profileset_name(name):
            self._add_profileset(key[0], value, appends=key[1])
        elif self._current and self._current.apply(name, value):
            return
        elif self.settings.apply(name, value):
            self._run_options.append((len(self.actors), name, value))
        elif self.settings.strict_parsing:
            raise SimulatorError("Unknown option")
        else:
            self.warnings.append(f"Warning: Unknown option '{name}' with value '{value}', ignoring")

    def _start(self, kind: str, value: str) -> None:
        if self._is_profileset:
            raise SimulatorError("Profilesets cannot define additional actors")
        if kind in PET_TYPES and not self._current:
            raise SimulatorError("A pet needs a player before it")
        name, _, source_name = value.partition(",")
        if kind == "copy":
            source = self._find(source_name) if source_name else self._current
            if source is None:
                raise SimulatorError("Invalid source for profile copy - format copy=target[,source]")
            self._current = source.copy(name)
        else:
            self._current = Actor(kind, name)
        self.actors.append(self._current)

    def _find(self, name: str) -> Actor | None:
        return next((actor for actor in self.actors if actor.name == name), None)

    def _add_profileset(self, key: str, value: str, *, appends: bool) -> None:
        if not key:
            raise SimulatorError("A profileset needs a name")
        values = self.profilesets.setdefault(key, [])
        if not appends:
            values.clear()
        if value:
            values.append(value)


PROFILES = Path(__file__).parent / "profiles"
MAX_INCLUDE_DEPTH = 50  # The real simulator has no limit and crashes when its stack overflows.


def read_arguments(arguments: Iterable[str]) -> list[Option]:
    """Return all options in order. Raises SimulatorError for a missing file or an invalid template.

    Arguments that are not UTF-8 are read as Latin-1, like in the simulator.
    """
    return read_tokens(Token(0, decode(os.fsencode(argument))) for argument in arguments)


def read_tokens(source: Iterable[Token]) -> list[Option]:
    """Return the options of `source` and of all files that it includes. Raises SimulatorError."""
    options: list[Option] = []
    _read(source, options, {}, depth=0)
    return options


def _read(source: Iterable[Token], options: list[Option], variables: dict[str, str], *, depth: int) -> None:
    if depth > MAX_INCLUDE_DEPTH:
        raise SimulatorError("Files include one another too deeply")
    try:
        for option in expand_templates(source, variables):
            if option.name is None or option.name == "input":
                _include(option, options, variables, depth=depth + 1)
            else:
                options.append(option)
    except TemplateError as error:
        raise SimulatorError(str(error)) from error


def _include(option: Option, options: list[Option], variables: dict[str, str], *, depth: int) -> None:
    outer = variables.get("current_base_name")
    if option.name == "input":
        variables["current_base_name"] = Path(option.value).name.partition(".")[0]
    _read(tokens(_text_of(option)), options, variables, depth=depth)
    if outer is not None:
        variables["current_base_name"] = outer


def _text_of(option: Option) -> str:
    """Return the text of an included file: by its path, below `./profiles`, or bundled. A directory is empty."""
    if option.name is None and option.value == "-":
        return decode(sys.stdin.buffer.read())
    for path in (Path(option.value), Path("profiles", option.value), PROFILES / option.value):
        try:
            return "" if path.is_dir() else decode(path.read_bytes())
        except (OSError, ValueError):
            continue
    if option.name is None:
        raise SimulatorError(f"Unexpected parameter '{option.value}'. Expected format: name=value")
    raise SimulatorError(f"Unable to open input parameter file '{option.value}'.")
