"""The simulator's profile grammar: text to tokens, split exactly where the simulator's own parser splits.

The rules are those of simulator-cli, 1.1 to 1.4 and 1.8. Nothing here judges a token; whoever judges them needs
only to know that no spelling reaches the simulator as a different token than the one seen here.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import starmap
from typing import NamedTuple

BOM = "\ufeff"
MAX_TEMPLATES_PER_TOKEN = 10
"""Occurrences of `$(…)` the simulator expands in one name or value (simulator-cli, 1.4)."""
MAX_EXPANSION = 4 * 1024 * 1024
"""Characters that the templates of one parse may add in all. The simulator has no such limit."""

_SEPARATORS = " \t\r"
_BEFORE_COMMENT = f"{_SEPARATORS}#"
_WORD = re.compile(f"[^{_SEPARATORS}]+")
# ASCII characters that separate for `str.split` but not for the simulator.
_NOT_SEPARATORS = "\v\f\x1c\x1d\x1e\x1f"
_TEMPLATE = "$("
_SHOWN_CHARACTERS = 40


class TemplateError(Exception):
    """A template the simulator would stop at, or one that expands beyond `MAX_EXPANSION`."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class Token(NamedTuple):
    """One token as written: quotes removed, templates not yet expanded.

    A value of `profileset.NAME+=` is one token again, whatever blanks it holds: `Token(line, value)`.
    """

    line: int
    """Line of the text, from 1."""
    text: str

    @property
    def name(self) -> str | None:
        """All before the first `=`, a trailing `+` included; None for a bare token, which names a file."""
        name, equals, _ = self.text.partition("=")
        return name if equals else None

    @property
    def value(self) -> str | None:
        """All after the first `=`; None for a bare token."""
        _, equals, value = self.text.partition("=")
        return value if equals else None


class Option(NamedTuple):
    """One token with its templates expanded. Unlike a token's, its name may hold a `=` that came from a template.

    Where a template makes up the name `input` or the bare token `-`, the simulator takes it for no include;
    here it reads like one, which is the careful side.
    """

    line: int
    name: str | None
    """None for a bare token."""
    value: str
    """For a bare token its whole text: a file's name, or `-` for standard input."""


def decode(data: bytes) -> str:
    """A profile's bytes as text: UTF-8, but each line that is not valid UTF-8 as Latin-1 (simulator-cli, 1.2)."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        # The mark is taken off before the first line is judged, so it survives that line's fallback.
        mark = BOM if data.startswith(codecs.BOM_UTF8) else ""
        lines = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
        return mark + "\n".join(_decode_line(line) for line in lines)


def tokens(text: str) -> Iterator[Token]:
    """The tokens of one profile text in order, one line at a time (simulator-cli, 1.2). Never raises."""
    return starmap(Token, words(text))


def words(text: str) -> Iterator[tuple[int, str]]:
    """Return the same as `tokens`, as plain pairs of line and text, which takes half the time."""
    split = _splitter(text)
    for number, line in enumerate(text.removeprefix(BOM).split("\n"), start=1):
        if not line:
            continue
        if '"' in line:
            found = _quoted_words(line, split)
        else:
            found = split(line)
            if not found or found[0][0] == "#":
                continue
        for word in found:
            yield number, word


def expand_templates(source: Iterable[Token], variables: dict[str, str]) -> Iterator[Option]:
    """`source` with `$(x)` expanded and its definitions taken out (simulator-cli, 1.4).

    `variables` is read and added to as the tokens come, so that one mapping can serve a text and all it includes.
    Raises TemplateError where the simulator would stop, and once the total passes `MAX_EXPANSION` characters.
    """
    templates = Templates(variables)
    for token in source:
        option = templates.expand(token)
        if option is not None:
            yield option


class Templates:
    """The template variables of one parse, and what their use has cost so far."""

    def __init__(self, variables: dict[str, str]) -> None:
        self._variables = variables
        self._produced = 0

    def expand(self, token: Token) -> Option | None:
        """One token expanded; None for a definition, which is kept. Raises TemplateError.

        The order matters: a bare token may become an option, and names are split off before they are expanded.
        """
        line, text = token
        name, equals, value = text.partition("=")
        if not equals:
            name, equals, value = self._expand(text, line).partition("=")
            if not equals:
                return Option(line, None, name)
        value = self._expand(value, line)
        if name[:1] == "$":
            self._variables[self._variable(name, line)] = value
            return None
        return Option(line, name if name == "input" else self._expand(name, line), value)

    def _variable(self, written: str, line: int) -> str:
        """The name a definition `$(name)=…` defines."""
        if len(written) < 3 or not written.startswith(_TEMPLATE) or not written.endswith(")"):
            raise TemplateError(f"Variable syntax error: '{written[:_SHOWN_CHARACTERS]}'", line)
        return self._expand(written[2:-1], line)

    def _expand(self, text: str, line: int) -> str:
        """Replace from the last occurrence to the first, so that a name may itself be built from templates."""
        if _TEMPLATE not in text:
            return text
        for start in reversed(_starts(text, line)):
            end = text.find(")", start)
            if end < 0:
                raise TemplateError("Unbalanced parenthesis in template variable", line)
            name = text[start + len(_TEMPLATE) : end]
            if name not in self._variables:
                raise TemplateError(f"Missing template variable: '{name[:_SHOWN_CHARACTERS]}'", line)
            value = self._variables[name]
            # Counted before it is done, and for tokens that fail later on too: both would be work for nothing.
            self._produced += len(value)
            if self._produced > MAX_EXPANSION:
                raise TemplateError(f"Templates expand to more than {MAX_EXPANSION} characters", line)
            text = f"{text[:start]}{value}{text[end + 1 :]}"
        return text


def profileset_name(name: str) -> tuple[str, bool] | None:
    """`profileset.NAME` or `profileset.NAME+` as (NAME, whether it appends); None for any other option name.

    A NAME with a dot is not a profileset but an unknown option (simulator-cli, 1.8).
    """
    if name[:11] != "profileset.":
        return None
    appends = name[-1] == "+"
    key = name[11:-1] if appends else name[11:]
    return None if "." in key else (key, appends)


def _decode_line(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _splitter(text: str) -> Callable[[str], list[str]]:
    """The fastest function that splits a part of the text at exactly the simulator's separators."""
    if text.isascii() and not any(character in text for character in _NOT_SEPARATORS):
        return str.split
    return _WORD.findall


def _quoted_words(line: str, split: Callable[[str], list[str]]) -> list[str]:
    """Split one line that has quotes. A separator ends a token only right after unquoted text.

    So a word that ends with a closing quote is joined with the next word, however many separators follow. The
    simulator does this, so a plain split on blanks would see other options.
    """
    if line[0] in _BEFORE_COMMENT and line.lstrip(_SEPARATORS)[0] == "#":
        return []
    ended: list[str] = []
    held: list[str] = []
    is_quoted = True
    for part in line.split('"'):
        is_quoted = not is_quoted
        if is_quoted:  # an unclosed quote ends with the line
            held.append(part)
        elif found := split(part):
            rest = None if part[-1] in _SEPARATORS else found.pop()
            if found:
                found[0] = "".join([*held, found[0]])
                ended += found
                held = []
            if rest:
                held.append(rest)
    last = "".join(held)
    return [*ended, last] if last else ended


def _starts(text: str, line: int) -> list[int]:
    """Where the templates of one name or value begin."""
    starts: list[int] = []
    start = text.find(_TEMPLATE)
    while start >= 0:
        starts.append(start)
        if len(starts) > MAX_TEMPLATES_PER_TOKEN:
            raise TemplateError(f"Nesting depth exceeded (max: {MAX_TEMPLATES_PER_TOKEN})", line)
        start = text.find(_TEMPLATE, start + len(_TEMPLATE))
    return starts
