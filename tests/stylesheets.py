"""Check the stylesheets: `python -m tests.stylesheets`, run by `make check`.

A class is at home in the file that styles it alone. Two files cannot share a class, because a part of one page
would change with a part of another. A page may adapt a component inside its own parts. Colours are in `tokens.css`
only, and there are three breakpoints.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "static" / "css"
TOKENS = "tokens.css"
# Only for the pages of Django's admin, whose classes have names of their own
ADMIN = "admin.css"
# Pages that are made of another page's parts
EXTENDS = dict.fromkeys(("pages/compare.css", "pages/weights.css"), "pages/results.css")
BREAKPOINTS = {40, 56, 68}

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_PRINT = re.compile(r"@media print \{(?:[^{}]|\{[^{}]*\})*\}")
_RULE = re.compile(r"([^{};]+)\{([^{}]*)\}")
_NAME = re.compile(r"[.#]([a-zA-Z][\w-]*)")
_WIDTH = re.compile(r"\((?:min|max)-width: ([\d.]+)rem\)")
_COLOUR = re.compile(
    r"#[0-9a-fA-F]{3,8}\b|\b(?:rgb|hsl|hwb|lab|lch|oklab|oklch|color)a?\("
    r"|(?<![\w-])(?:white|black|red|green|blue|gr[ae]y|orange|yellow|purple|pink|brown|silver)(?![\w-])"
)


class Styled(NamedTuple):
    """A class that a file styles, and the classes and ids that this depends on."""

    file: str
    selector: str
    name: str
    context: frozenset[str]


def problems(folder: Path) -> Iterator[str]:
    """Yield the problems of all stylesheets below a folder."""
    every: list[Styled] = []
    for path in sorted(folder.rglob("*.css")):
        file, text = str(path.relative_to(folder)), _COMMENT.sub("", path.read_text())
        yield from _wrong_values(file, text)
        if file != ADMIN:
            # What is of no use on paper is hidden wherever it comes from.
            rules = rules_of(_PRINT.sub("", text))
            every += [one for selectors, _ in rules for each in selectors for one in styled(file, each)]
    yield from _shared(every)


def rules_of(text: str) -> list[tuple[list[str], str]]:
    """Return the rules of a stylesheet without comments: selectors and declarations."""
    return [(split(selectors), declarations) for selectors, declarations in _RULE.findall(text)]


def _wrong_values(file: str, text: str) -> Iterator[str]:
    """Yield colours and widths that are not those of the design."""
    for selectors, declarations in rules_of(text):
        if file != TOKENS and (colour := _COLOUR.search(declarations)):
            yield f"{file}: `{', '.join(selectors)}` has a colour that is not a token: {colour[0]}"
        if "!important" in declarations:
            yield f"{file}: `{', '.join(selectors)}` is !important; a later layer wins without it"
    for width in _WIDTH.findall(text):
        if int(float(width)) not in BREAKPOINTS:
            yield f"{file}: {width}rem is not a breakpoint; they are {sorted(BREAKPOINTS)}"


def _shared(every: list[Styled]) -> Iterator[str]:
    """Yield classes that two files style."""
    homes: dict[str, set[str]] = defaultdict(set)
    for one in (one for one in every if not one.context):
        homes[one.name].add(one.file)
    yield from (
        f".{name} is styled in {', '.join(sorted(files))}" for name, files in homes.items() if len(files) > 1
    )
    for one in every:
        home = next(iter(homes[one.name]), one.file)
        if len(homes[one.name]) > 1 or home in (one.file, EXTENDS.get(one.file)):
            continue
        if home.startswith("pages/"):
            yield f"{one.file}: `{one.selector}` has a class of {home}"
        elif not any(homes[name] <= {one.file} for name in one.context):
            yield f"{one.file}: `{one.selector}` changes {home} outside its own parts"


def split(selectors: str) -> list[str]:
    """Return the selectors of a list; commas in parentheses do not separate them."""
    parts, depth = [""], 0
    for character in selectors:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def styled(file: str, selector: str) -> Iterator[Styled]:
    """Yield the classes of the element that a selector styles, but not what the element lacks or contains."""
    plain = re.sub(r":(?:not|has)\((?:[^()]|\([^()]*\))*\)", "", selector)
    depth, start = 0, 0
    for position, character in enumerate(plain):
        depth += (character == "(") - (character == ")")
        if character in " >+~" and not depth:
            start = position + 1
    before, subject = frozenset(_NAME.findall(plain[:start])), plain[start:]
    alternatives = ":is(" in subject or ":where(" in subject
    names = frozenset(re.findall(r"\.([a-zA-Z][\w-]*)", subject))
    for name in names:
        yield Styled(file, selector, name, before if alternatives else before | names - {name})


if __name__ == "__main__":
    found = list(problems(FOLDER))
    sys.stderr.writelines(f"static/css/{problem}\n" for problem in found)
    sys.exit(bool(found))
