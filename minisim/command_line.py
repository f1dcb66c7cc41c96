"""The command line and the files that it includes, read into one list of options.

Every argument is one token (`docs/reference/simulator-command-line.md#arguments`); files are split by the service's
own tokenizer.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from minisim.values import SimulatorError
from simc.profiles.grammar import Option, TemplateError, Token, decode, expand_templates, tokens

PROFILES = Path(__file__).parent / "profiles"
MAX_INCLUDE_DEPTH = 50
"""The real simulator has no limit and crashes when its stack overflows."""


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
