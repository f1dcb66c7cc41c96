"""The grammar of profiles: text is split into tokens exactly where the simulator's own parser splits it.

The rules are described in `docs/reference/simulator-command-line.md#files-and-quotes`. Tokens are not checked
here. No spelling reaches the simulator as a different token than the one returned here.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import starmap
from typing import NamedTuple

BOM = "\ufeff"
MAX_TEMPLATES_PER_TOKEN = 10  # How many `$(…)` the simulator expands in one name or value.
# Characters that the templates of one parse may add in total. The simulator has no such limit.
MAX_EXPANSION = 4 * 1024 * 1024

_SEPARATORS = " \t\r"
_BEFORE_COMMENT = f"{_SEPARATORS}#"
_WORD = re.compile(f"[^{_SEPARATORS}]+")
# ASCII characters that separate tokens for `str.split` but not for the simulator.
_NOT_SEPARATORS = "\v\f\x1c\x1d\x1e\x1f"
_TEMPLATE = "$("
_SHOWN_CHARACTERS = 40


class TemplateError(Exception):
    """A template that the simulator rejects, or that expands beyond `MAX_EXPANSION`."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class Token(NamedTuple):
    """One token: quotes removed, templates not yet expanded.

    A value of `profileset.NAME+=` is one token again, even if it contains blanks: `Token(line, value)`.
    """

    line: int  # The line of the text, counted from 1.
    text: str

    @property
    def name(self) -> str | None:
        """Return the text before the first `=`, with a trailing `+`; None for a bare token, which names a file."""
        name, equals, _ = self.text.partition("=")
        return name if equals else None

    @property
    def value(self) -> str | None:
        """Return the text after the first `=`; None for a bare token."""
        _, equals, value = self.text.partition("=")
        return value if equals else None


class Option(NamedTuple):
    """One token with its templates expanded. Unlike a token's, its name may contain a `=` from a template.

    If a template forms the name `input` or the bare token `-`, the simulator does not treat it as an include. Here
    it counts as one, which is safer.
    """

    line: int
    name: str | None  # None for a bare token.
    value: str  # For a bare token the whole text: a file's name, or `-` for standard input.


def decode(data: bytes) -> str:
    """Return a profile's bytes as text: UTF-8, but Latin-1 for each line that is not valid UTF-8.

    See `docs/reference/simulator-command-line.md#files-and-quotes`.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        # The simulator removes the mark before it decodes the first line.
        mark = BOM if data.startswith(codecs.BOM_UTF8) else ""
        lines = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
        return mark + "\n".join(map(_decode_line, lines))


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a profile in order. Never raises.

    See `docs/reference/simulator-command-line.md#files-and-quotes`.
    """
    return starmap(Token, token_pairs(text))


def token_pairs(text: str) -> Iterator[tuple[int, str]]:
    """Yield the same as `tokens` as pairs of line and text, in half the time."""
    # Faster, but `str.split` knows more separators.
    is_plain = text.isascii() and not any(character in text for character in _NOT_SEPARATORS)
    split: Callable[[str], list[str]] = str.split if is_plain else _WORD.findall
    for number, line in enumerate(text.removeprefix(BOM).split("\n"), start=1):
        if not line:
            continue
        if '"' in line:
            texts = _split_quoted(line, split)
        else:
            texts = split(line)
            if not texts or texts[0][0] == "#":
                continue
        for token in texts:
            yield number, token


def expand_templates(source: Iterable[Token], variables: dict[str, str]) -> Iterator[Option]:
    """Yield tokens with `$(x)` expanded, without the definitions.

    See `docs/reference/simulator-command-line.md#templates`. Definitions are added to `variables`, so that a text
    and the files it includes can share one mapping. Raises TemplateError where the simulator stops, and when the
    total exceeds `MAX_EXPANSION` characters.
    """
    templates = Templates(variables)
    for token in source:
        option = templates.expand(token)
        if option is not None:
            yield option


class Templates:
    """The template variables of one parse, and the number of characters that they have added."""

    def __init__(self, variables: dict[str, str]) -> None:
        self._variables = variables
        self._produced = 0

    def expand(self, token: Token) -> Option | None:
        """Return a token with its templates expanded, or None for a definition, which is stored.

        The order matters: a bare token may become an option, and names are split off before they are expanded.
        Raises TemplateError.
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
        if len(written) < 3 or not written.startswith(_TEMPLATE) or not written.endswith(")"):
            raise TemplateError(f"Variable syntax error: '{written[:_SHOWN_CHARACTERS]}'", line)
        return self._expand(written[2:-1], line)

    def _expand(self, text: str, line: int) -> str:
        """Replace from the last occurrence to the first, so that a name can contain templates."""
        if _TEMPLATE not in text:
            return text
        if text.count(_TEMPLATE) > MAX_TEMPLATES_PER_TOKEN:
            raise TemplateError(f"Nesting depth exceeded (max: {MAX_TEMPLATES_PER_TOKEN})", line)
        start = len(text)
        while (start := text.rfind(_TEMPLATE, 0, start)) >= 0:
            end = text.find(")", start)
            if end < 0:
                raise TemplateError("Unbalanced parenthesis in template variable", line)
            name = text[start + len(_TEMPLATE) : end]
            if name not in self._variables:
                raise TemplateError(f"Missing template variable: '{name[:_SHOWN_CHARACTERS]}'", line)
            value = self._variables[name]
            # Counted in advance, and also for tokens that fail later, to limit the work.
            self._produced += len(value)
            if self._produced > MAX_EXPANSION:
                raise TemplateError(f"Templates expand to more than {MAX_EXPANSION} characters", line)
            text = f"{text[:start]}{value}{text[end + 1 :]}"
        return text


def profileset_name(name: str) -> tuple[str, bool] | None:
    """Return `profileset.NAME` or `profileset.NAME+` as (NAME, whether it appends), None for any other option.

    A NAME with a dot is not a profileset but an unknown option
    (`docs/reference/simulator-command-line.md#profilesets`).
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


def _split_quoted(line: str, split: Callable[[str], list[str]]) -> list[str]:
    """Split one line that contains quotes. A separator ends a token only directly after unquoted text.

    So a token that ends with a closing quote continues with the next word, regardless of the separators between
    them. The simulator does this, so a plain split at blanks would return other options.
    """
    if line[0] in _BEFORE_COMMENT and line.lstrip(_SEPARATORS)[0] == "#":
        return []
    ended: list[str] = []
    parts: list[str] = []
    is_quoted = True
    for part in line.split('"'):
        is_quoted = not is_quoted
        if is_quoted:  # an unclosed quote ends with the line
            parts.append(part)
        elif texts := split(part):
            rest = None if part[-1] in _SEPARATORS else texts.pop()
            if texts:
                texts[0] = "".join([*parts, texts[0]])
                ended += texts
                parts = []
            if rest:
                parts.append(rest)
    last = "".join(parts)
    return [*ended, last] if last else ended
