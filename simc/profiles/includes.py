"""Assembly of a profile and the bundled files that it includes into one text.

The simulator reads included files in place of their names
(`docs/reference/simulator-command-line.md#order-and-values`), so it reads the same tokens from this text. The
tokens are not checked here.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from simc.profiles.analysis import MAX_OPTIONS
from simc.profiles.bundle import Bundle, UnknownInclude, UnusableFile
from simc.profiles.grammar import Option, TemplateError, Templates, Token, profileset_name, token_pairs, tokens
from simc.profiles.policy import TEMPLATED, could_form_directive
from simc.profiles.selection import quoted

MAX_DEPTH = 20
MAX_INCLUDES = 2_000
# Counts the characters of included files and those of the assembled text.
MAX_CHARACTERS = 16 << 20
BASE_NAME = "current_base_name"
FIRST_LINE = "# The profile with the files that it includes"
SHOWN_CHARACTERS = 200
_OWN_LINE = re.compile(r"Line ([0-9]{1,7}), ")


class BadInclude(Exception):
    """An include that cannot be resolved; the message names the line and the problem."""


class MissingFile(BadInclude):
    """A bundled file that is missing or has changed since its build was registered."""


class SourceLine(NamedTuple):
    """A line of a bundled file, or of the profile itself."""

    file: str | None
    line: int

    def __str__(self) -> str:
        return f"Line {self.line}" if self.file is None else f"{self.file}, line {self.line}"

    @classmethod
    def in_profile(cls, message: str) -> int | None:
        """Return the line of the profile itself with which a message begins, or None."""
        found = _OWN_LINE.match(message)
        return int(found[1]) if found else None


@dataclass(frozen=True, kw_only=True)
class FlatProfile:
    """An assembled text, the source of each of its lines, and the paths of the files in it."""

    text: str
    sources: list[SourceLine]
    files: frozenset[str]

    def source(self, line: int) -> SourceLine:
        """Return the source of a line of the text, counted from 1."""
        return self.sources[line - 1]


@dataclass(kw_only=True)
class _Scope:
    """The shared state of one parse: template variables, and the profileset that receives the options."""

    profileset: str | None = None
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.templates = Templates(self.variables)


def has_includes(text: str) -> bool:
    """Return whether a text includes files. Most do not, and this is ten times as fast as `flatten`."""
    for _, token in token_pairs(text):
        name, equals, value = token.partition("=")
        if name.startswith("profileset.") and value:
            name, equals, _ = value.partition("=")
        if not equals or name == "input":
            return True
    return False


def flatten(text: str, *, bundle: Bundle, path: str | None = None) -> FlatProfile:
    """Return a text with its includes replaced by the files; `path` is its own path if it is a bundled file.

    Raises BadInclude for names that cannot be resolved, cycles, and texts that grow beyond the limits.
    """
    flattener = _Flattener(bundle)
    flattener.take(text, trail=(path,), scope=_Scope())
    return flattener.result()


class _Flattener:
    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.lines = [FIRST_LINE]
        self.sources = [SourceLine(None, 0)]
        self.texts: dict[str, str] = {}
        self.options = self.includes = self.characters = 0

    def result(self) -> FlatProfile:
        return FlatProfile(text="\n".join([*self.lines, ""]), sources=self.sources, files=frozenset(self.texts))

    def take(self, text: str, *, trail: tuple[str | None, ...], scope: _Scope) -> None:
        """Add the tokens of a file; `trail` is the chain of includes that leads to it."""
        for token in tokens(text):
            source = SourceLine(trail[-1], token.line)
            try:
                option = _expanded(token, scope)
            except TemplateError:
                # Kept unchanged: the policy refuses it.
                self._add(token.text, source, scope)
                continue
            if option is not None:
                self._take_option(token, option, source, trail=trail, scope=scope)
            elif scope.profileset is None:
                self._add(token.text, source, scope)

    def _take_option(
        self, token: Token, option: Option, source: SourceLine, *, trail: tuple[str | None, ...], scope: _Scope
    ) -> None:
        name, key = _included(option, scope)
        if name is None:
            # A profileset has its own variables, which the assembled text does not define.
            expanded = option.value if option.name is None else f"{option.name}={option.value}"
            self._add(token.text if scope.profileset is None else expanded, source, scope)
        elif key is None:
            self._include(name, option, source, trail=trail, scope=scope)
        else:
            # The values of a profileset are parsed separately.
            self._add(f"{option.name}=", source, _Scope())
            nested = Option(option.line, "input" if "=" in option.value else None, name)
            self._include(name, nested, source, trail=trail, scope=_Scope(profileset=f"profileset.{key}+"))

    def _include(
        self, name: str, option: Option, source: SourceLine, *, trail: tuple[str | None, ...], scope: _Scope
    ) -> None:
        path, text = self._find(name, source, trail=trail)
        outer = scope.variables.get(BASE_NAME)
        if option.name == "input":
            self._set_base_name(path.rpartition("/")[2].partition(".")[0], source, scope)
        self.take(text, trail=(*trail, path), scope=scope)
        if option.name == "input" and outer is not None:
            self._set_base_name(outer, source, scope)

    def _find(self, name: str, source: SourceLine, *, trail: tuple[str | None, ...]) -> tuple[str, str]:
        """Return the path and text of a file to include. Raises BadInclude."""
        where = f"{source}, {name[:SHOWN_CHARACTERS]}"
        try:
            path = self.bundle.find(name)
            if path in trail:
                files = [file for file in trail if file is not None]
                cycle = " → ".join([*files[files.index(path) :], path])
                raise BadInclude(f"{where}: the file includes itself: {cycle}.")
            if path not in self.texts:
                self.texts[path] = self.bundle.read(path)
        except UnknownInclude as error:
            raise BadInclude(f"{where}: {error}.") from error
        except UnusableFile as error:
            raise MissingFile(f"{where}: {error}.") from error
        self.includes += 1
        self.characters += len(self.texts[path])
        if len(trail) > MAX_DEPTH:
            raise BadInclude(f"{where}: includes are nested more than {MAX_DEPTH} levels deep.")
        if self.includes > MAX_INCLUDES:
            raise BadInclude(f"{where}: the profile includes more than {MAX_INCLUDES:,} files.")
        self._require_room(where)
        return path, self.texts[path]

    def _set_base_name(self, value: str, source: SourceLine, scope: _Scope) -> None:
        """Define the variable that the simulator sets while it reads a file.

        See `docs/reference/simulator-command-line.md#templates`.
        """
        scope.variables[BASE_NAME] = value
        if scope.profileset is None:
            self._add(f"$({BASE_NAME})={value}", source, scope)

    def _add(self, text: str, source: SourceLine, scope: _Scope) -> None:
        """Add a token to the text. Raises BadInclude."""
        line = quoted(text if scope.profileset is None else f"{scope.profileset}={text}")
        self.lines.append(line)
        self.sources.append(source)
        self.characters += len(line)
        if len(self.lines) > MAX_OPTIONS + 1:
            raise BadInclude(f"{source}: with its included files, the profile exceeds {MAX_OPTIONS:,} options.")
        self._require_room(str(source))

    def _require_room(self, where: str) -> None:
        if self.characters > MAX_CHARACTERS:
            raise BadInclude(
                f"{where}: with its included files, the profile exceeds {MAX_CHARACTERS:,} characters."
            )


def _expanded(token: Token, scope: _Scope) -> Option | None:
    """Return a token with its templates expanded, or None for a definition. Raises TemplateError."""
    if "$" not in token.text:
        return Option(token.line, token.name, token.text if token.value is None else token.value)
    if could_form_directive(token):
        raise TemplateError(TEMPLATED, token.line)
    return scope.templates.expand(token)


def _included(option: Option, scope: _Scope) -> tuple[str | None, str | None]:
    """Return the name of the file that an option includes, and the profileset for it; each may be None."""
    name, value = option.name, option.value
    if name is None or name == "input":
        return value, None
    key = profileset_name(name) if scope.profileset is None else None
    if not key or not key[0] or not value:
        return None, None
    nested, equals, rest = value.partition("=")
    if not equals:
        return value, key[0]
    return (rest, key[0]) if nested == "input" else (None, None)
