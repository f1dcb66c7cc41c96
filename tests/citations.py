"""Check the references from code and docs to the documentation: `python -m tests.citations`, run by `make check`.

Every `docs/….md` and every relative link must lead to an existing file, and every anchor to an existing heading.
Files that Markdown names in backticks must exist too, in the repository or in `tests`.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".py", ".html", ".txt", ".md", ".js", ".toml", ".yaml"}
NAMES = {".env.example", "Makefile", "Procfile", "run"}
FOLDERS = {".ci", ".github"}
SKIPPED = {"node_modules", "screenshots", "site", "staticfiles"}

_MENTION = re.compile(r"(?<![\w/.-])docs/[\w./-]+\.md(?:#[\w-]*)?")
_LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"{]+)\"")
_HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$", re.MULTILINE)
_FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_NAMED_FILE = re.compile(r"`(\w[\w.-]*(?:/[\w.-]+)+\.(?:py|html|js|md))\b[^`]*`")
_OTHER_DOCUMENT = re.compile(
    r"[(;] ?(?:the )?(?:contract|specification|design)(?:,|:|;|\)| section|'s)|simulator[-]cli\b", re.IGNORECASE
)


class Problem(NamedTuple):
    """A reference that leads nowhere, or a citation of a document that is not in the repository."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def problems(root: Path) -> Iterator[Problem]:
    """Yield the problems of all files below a folder."""
    for path in sorted(files(root)):
        text = path.read_text(encoding="utf-8")
        yield from dangling_mentions(root, path, text)
        if path.suffix == ".md":
            yield from dangling_links(root, path, text)
            yield from missing_files(root, path, text)
        # Migrations are never edited, not even their comments.
        if path.suffix == ".py" and path.parent.name != "migrations":
            yield from cited_elsewhere(root, path, text)


def files(folder: Path) -> Iterator[Path]:
    """Yield the files to check; hidden folders are left out unless `FOLDERS` contains them."""
    for path in folder.iterdir():
        if path.is_dir():
            if path.name in FOLDERS or not (path.name.startswith(".") or path.name in SKIPPED):
                yield from files(path)
        elif path.suffix in SUFFIXES or path.name in NAMES:
            yield path


def dangling_mentions(root: Path, path: Path, text: str) -> Iterator[Problem]:
    """Yield each `docs/….md` in a text that does not exist."""
    for match in _MENTION.finditer(text):
        if not exists(root, match.group()):
            yield problem(root, path, text, match.start(), f"{match.group()} does not exist")


def dangling_links(root: Path, path: Path, text: str) -> Iterator[Problem]:
    """Yield each relative link of a Markdown file that leads nowhere."""
    plain = _CODE.sub(blank, _FENCED.sub(blank, text))
    for match in _LINK.finditer(plain):
        target = match.group(1) or match.group(2)
        if re.match(r"[a-z]+:|/", target):
            continue
        base = path if target.startswith("#") else path.parent
        if not exists(base, target):
            yield problem(root, path, text, match.start(), f"{target} does not exist")


def missing_files(root: Path, path: Path, text: str) -> Iterator[Problem]:
    """Yield each file that a Markdown file names and that does not exist."""
    for match in _NAMED_FILE.finditer(text):
        name = match.group(1)
        if not ((root / name).exists() or (root / "tests" / name).exists()):
            yield problem(root, path, text, match.start(), f"{name} does not exist")


def cited_elsewhere(root: Path, path: Path, text: str) -> Iterator[Problem]:
    """Yield each comment and string of a Python file that cites a document from outside of the repository."""
    for start, excerpt in prose(text):
        for match in _OTHER_DOCUMENT.finditer(excerpt):
            line = start + excerpt.count("\n", 0, match.start())
            message = f"“{match.group()}…” is not in the repository; link to docs/reference"
            yield Problem(path.relative_to(root), line, message)


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments and strings of a Python file, each with its first line."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def exists(base: Path, target: str) -> bool:
    """Return whether a path, relative to a folder or file, exists and has the heading of its anchor."""
    name, _, anchor = target.partition("#")
    path = (base / name).resolve() if name else base
    return path.exists() and (not anchor or anchor in anchors(path))


@cache
def anchors(path: Path) -> frozenset[str]:
    """Return the anchors of a Markdown file's headings, as GitHub creates them."""
    names: list[str] = []
    for heading in _HEADING.findall(_FENCED.sub("", path.read_text(encoding="utf-8"))):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        earlier = sum(
            re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", earlier_name) is not None for earlier_name in names
        )
        names.append(f"{anchor}-{earlier}" if earlier else anchor)
    return frozenset(names)


def blank(match: re.Match[str]) -> str:
    """Return spaces in place of a match; positions and line ends stay."""
    return re.sub(r"[^\n]", " ", match.group())


def problem(root: Path, path: Path, text: str, position: int, message: str) -> Problem:
    """Return a problem at a position of a file's text."""
    return Problem(path.relative_to(root), text.count("\n", 0, position) + 1, message)


def main() -> int:
    """Print all problems; return 1 if there are any."""
    failures = list(problems(ROOT))
    for each in failures:
        print(each)  # noqa: T201
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
