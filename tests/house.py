"""Measure the shape of the code: `python -m tests.house [--at COMMIT] [--walk JOURNEY]`.

Reads the tracked files, or those of any commit, as syntax trees. Imports and executes nothing of them.

- The rooms of a package are the modules and packages directly below it, except migrations, management commands and
  template tags. An import from one room into another is an arrow. A circle is a group of rooms that reach each
  other. Floors are the rooms in the longest chain of arrows, where a circle is one room.
- A module is uncovered if no `layers` contract of import-linter names it, or a package that contains it, below its
  top-level package.
- `tests/journeys.py` describes the journeys. Their rooms are files.
- Product lines are Python and SQL without migrations and the SDK. Lines of tests and bench are Python, those of
  docs are Markdown. Functions, helpers and names are those of the product; names without the built-in simulator's.
"""

import argparse
import ast
import io
import re
import shutil
import subprocess
import tarfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from tests.journeys import JOURNEYS, Code, Walk

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = (".py", ".sql", ".md", ".toml")
# Top-level folders without rooms
APART = {"bench", "deploy", "docs", "examples", "sdk", "tests"}
NO_ROOMS = {"management", "migrations", "templatetags"}
# The most lines of a private function that counts as a helper
SHORT = 6


def git(*arguments: str) -> bytes:
    return subprocess.run(
        [shutil.which("git") or "git", *arguments], cwd=ROOT, capture_output=True, check=True
    ).stdout


def files_of(commit: str | None) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each file of a commit, or of each tracked file as it is now."""
    if commit is None:
        for path in git("ls-files").decode().splitlines():
            if path.endswith(SUFFIXES) and (ROOT / path).is_file():
                yield path, (ROOT / path).read_text(encoding="utf-8")
        return
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit))) as files:
        for member in files:
            content = files.extractfile(member) if member.name.endswith(SUFFIXES) else None
            if content is not None:
                yield member.name, content.read().decode()


class Package(NamedTuple):
    """The shape of one package."""

    rooms: int
    arrows: int
    floors: int
    circles: list[list[str]]


class House:
    """The files of a commit, or the tracked files as they are now."""

    def __init__(self, commit: str | None = None) -> None:
        self.files = dict(files_of(commit))
        modules = {
            path: text
            for path, text in self.files.items()
            if path.endswith(".py") and "/" in path and path.partition("/")[0] not in APART
        }
        self.code = Code(modules)
        self.modules = {
            name: module for name, module in self.code.modules.items() if not NO_ROOMS & {*name.split(".")}
        }

    @cached_property
    def imports(self) -> list[tuple[str, str]]:
        """All imports of one module by another."""
        return [
            (name, target)
            for name, module in self.modules.items()
            for imported in {*module.imports.values()}
            for target in (imported, imported.rpartition(".")[0])
            if target in self.modules and target != name
        ]

    def package(self, name: str) -> Package:
        """Return the shape of a package; that of the whole product for an empty name."""
        rooms = {room for module in self.modules if (room := room_of(module, name))}
        arrows = {(room_of(a, name), room_of(b, name)) for a, b in self.imports}
        below = {room: {b for a, b in arrows if a == room and b and b != room} for room in rooms}
        reached = {room: reach(room, below) for room in rooms}
        circle_of = {room: frozenset({room, *(r for r in reached[room] if room in reached[r])}) for room in rooms}

        def floor(circle: frozenset[str]) -> int:
            lower = {circle_of[b] for room in circle for b in below[room]} - {circle}
            return 1 + max(map(floor, lower), default=0)

        circles = [sorted(circle) for circle in {*circle_of.values()} if len(circle) > 1]
        floors = max(map(floor, {*circle_of.values()}), default=0)
        return Package(len(rooms), sum(map(len, below.values())), floors, circles)

    @cached_property
    def packages(self) -> dict[str, Package]:
        """The shapes of the whole, `.`, and of each package with at least two rooms."""
        names = sorted({name.rpartition(".")[0] for name in self.modules} - {""})
        shapes = {".": self.package("")} | {name: self.package(name) for name in names}
        return {name: shape for name, shape in shapes.items() if shape.rooms > 1}

    @cached_property
    def uncovered(self) -> list[str]:
        """The modules that no contract of layers covers."""
        tools = tomllib.loads(self.files["pyproject.toml"])["tool"]
        contracts = tools.get("importlinter", {}).get("contracts", [])
        layers = [layer for contract in contracts for layer in layers_of(contract)]
        named = {layer for layer in layers if "." in layer}
        packages = {name.rpartition(".")[0] for name in self.modules}
        return [
            name
            for name in sorted(self.modules.keys() - packages)
            if "." in name and not any(f"{name}.".startswith(f"{layer}.") for layer in named)
        ]

    def walk(self, journey: str) -> Walk:
        return Walk(self.code, JOURNEYS[journey])

    @cached_property
    def lines(self) -> Counter[str]:
        """The lines of each kind of file."""
        counts: Counter[str] = Counter()
        for path, text in self.files.items():
            if kind := kind_of(path):
                counts[kind] += text.count("\n")
        return counts

    @cached_property
    def functions(self) -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        """The functions of the product, each with the path of its file."""
        return [
            (path, node)
            for path, text in self.files.items()
            if path.endswith(".py") and kind_of(path) == "product"
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]

    @cached_property
    def helpers(self) -> list[str]:
        """The short private functions whose name occurs once more in their module."""
        return [
            f"{path}:{node.name}"
            for path, node in self.functions
            if re.match(r"_[a-z]", node.name)
            and length(node) <= SHORT
            and len(re.findall(rf"\b{node.name}\b", self.files[path])) == 2
        ]

    @cached_property
    def repeated(self) -> dict[str, int]:
        """The public functions and classes of modules that are defined more than once."""
        names = Counter(
            name
            for module in self.code.modules.values()
            if not module.name.startswith("minisim") and ".migrations." not in module.name
            for name, node in module.definitions.items()
            if not name.startswith("_") and not isinstance(node, ast.Assign)
        )
        return {name: count for name, count in names.items() if count > 1}

    def definitions(self, name: str) -> list[str]:
        """Return the lines that `grep -rn "def NAME"` finds."""
        return [
            f"{path}:{number}"
            for path, text in self.files.items()
            if path.endswith(".py")
            for number, line in enumerate(text.splitlines(), 1)
            if f"def {name}" in line
        ]


def room_of(module: str, package: str) -> str:
    """Return the room of a package to which a module belongs, or an empty string."""
    inside = module.removeprefix(f"{package}.") if package else module
    return inside.partition(".")[0] if inside != module or not package else ""


def reach(room: str, below: Mapping[str, set[str]]) -> set[str]:
    """Return the rooms that chains of arrows from a room lead to."""
    found: set[str] = set()
    waiting = [*below[room]]
    while waiting:
        if (one := waiting.pop()) not in found:
            found.add(one)
            waiting += below[one]
    return found


def layers_of(contract: Mapping[str, Any]) -> Iterator[str]:
    """Yield the dotted names in a contract of layers."""
    if contract["type"] == "layers":
        for layer in contract["layers"]:
            for name in re.findall(r"[\w.]+", layer):
                yield from [f"{container}.{name}" for container in contract.get("containers", [])] or [name]


def kind_of(path: str) -> str:
    """Return the kind of a file whose lines are counted, or an empty string."""
    top, _, suffix = path.partition("/")[0], *path.rpartition(".")[1:]
    if suffix == "md":
        return "docs"
    if suffix not in {"py", "sql"}:
        return ""
    if "/migrations/" in path:
        return "migrations"
    return top if top in {"bench", "sdk", "tests"} else "product"


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def report(house: House) -> Iterator[str]:
    """Yield the lines of the report."""
    yield f"{'package':32} rooms arrows floors circles uncovered modules"
    for name, shape in house.packages.items():
        uncovered = sum(name == "." or module.startswith(f"{name}.") for module in house.uncovered)
        yield f"{name:32} {shape.rooms:5} {shape.arrows:6} {shape.floors:6} {len(shape.circles):7} {uncovered:9}"
    for name, shape in house.packages.items():
        yield from (f"circle in {name}: {' '.join(circle)}" for circle in shape.circles)
    yield f"\n{'journey':32} files stays returns"
    for name in JOURNEYS:
        try:
            walk = house.walk(name)
        except LookupError as error:
            yield f"{name:32} {error}"
        else:
            yield f"{name:32} {walk.rooms:5} {walk.stays:5} {walk.returns:7}"
    yield "\nlines: " + ", ".join(f"{kind} {count:,}" for kind, count in house.lines.most_common())
    lengths = [length(node) for _, node in house.functions]
    p90 = quantiles(lengths, n=10)[-1]
    yield f"functions: {len(lengths):,}; lines: median {median(lengths):.0f}, p90 {p90:.0f}, longest {max(lengths)}"
    yield f"private helpers of at most {SHORT} lines, used once: {len(house.helpers)}"
    yield f"public names defined twice or more: {len(house.repeated)}"
    yield f"claim_job is defined in: {' '.join(house.definitions('claim_job')) or 'no file'}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the shape of the code.")
    parser.add_argument("--at", metavar="COMMIT", help="measure a commit instead of the working tree")
    parser.add_argument("--walk", metavar="JOURNEY", choices=JOURNEYS, help="show the functions of a journey")
    options = parser.parse_args()
    house = House(options.at)
    print(*(house.walk(options.walk).lines if options.walk else report(house)), sep="\n")


if __name__ == "__main__":
    main()
