"""Results of `python -m bench`: one JSON file for each run, and the table."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench.figures import SCENARIOS, Figure, Values

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "bench" / "results"


@dataclass
class Measured:
    """The values of one figure in one run. `load` contains the load averages before and after each measurement."""

    values: list[float] = field(default_factory=list)
    load: list[float] = field(default_factory=list)
    note: str = ""


@dataclass
class Run:
    """One run: the commit, the machine, and all measured figures."""

    commit: str
    date: str
    quick: bool
    machine: str
    figures: dict[str, Measured] = field(default_factory=dict)

    @classmethod
    def start(cls, *, quick: bool) -> "Run":
        """Return a run of the current commit that begins now."""
        date = datetime.now(UTC).isoformat(timespec="seconds")
        cores, python = len(os.sched_getaffinity(0)), platform.python_version()
        return cls(current_commit(), date, quick, f"{cores} cores, Python {python}, Linux {platform.release()}")

    def add(self, values: Values, *, load: tuple[float, float]) -> None:
        """Add one measurement of some figures."""
        for key, value in values.items():
            measured = self.figures.setdefault(key, Measured())
            measured.values.append(value.value)
            measured.load += load
            measured.note = value.note

    def medians(self) -> dict[str, float]:
        return {key: median(measured.values) for key, measured in self.figures.items() if measured.values}

    def save(self, folder: Path = FOLDER) -> Path:
        """Write the run as JSON, named after its date and commit; return the file."""
        folder.mkdir(exist_ok=True)
        path = folder / f"{self.date[:19].replace(':', '-')}-{self.commit}.json"
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")
        return path


def load(path: Path) -> Run:
    """Read a saved run. Raises OSError or ValueError."""
    stored = json.loads(path.read_text())
    figures = {key: Measured(**fields) for key, fields in stored.pop("figures").items()}
    return Run(**stored, figures=figures)


def saved(folder: Path = FOLDER) -> list[Run]:
    """Return all saved runs, oldest first."""
    return [load(path) for path in sorted(folder.glob("*.json"))]


def previous_values(runs: Iterable[Run], *, quick: bool) -> dict[str, float]:
    """Return the latest value of each figure in earlier runs of the same size, given oldest first."""
    values: dict[str, float] = {}
    for run in runs:
        if run.quick == quick:
            values |= run.medians()
    return values


def current_commit() -> str:
    """Return the checkout's short commit, with a plus sign if files were changed; "unknown" outside of git."""
    try:
        revision = _git("rev-parse", "--short=12", "HEAD")
        return revision + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607
    return done.stdout.strip()


def table(run: Run, previous: Mapping[str, float]) -> str:
    """Return the table of a run, in the order of the scenarios."""
    medians = run.medians()
    rows = [("figure", "aim", "this run", "previous", "load", "remark")]
    for figure in (figure for figures in SCENARIOS.values() for figure in figures if figure.key in medians):
        before, measured = previous.get(figure.key), run.figures[figure.key]
        rows.append(
            (
                figure.title,
                figure.aim,
                judged(figure, medians[figure.key]),
                "-" if before is None else number(before),
                " ".join(f"{each:.1f}" for each in measured.load),
                measured.note,
            )
        )
    return formatted(rows)


def judged(figure: Figure, value: float) -> str:
    """Return a value with its unit and, if the figure has an aim, a mark for whether the value meets it."""
    return " ".join(part for part in (number(value), figure.unit, figure.judge(value)) if part)


def number(value: float) -> str:
    """Return a value with three significant digits, without an exponent."""
    size = abs(value)
    return f"{value:,.{0 if size >= 100 else 1 if size >= 10 else 2}f}"


def formatted(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as text with columns separated by two spaces. The first row is the header."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * width for width in widths]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in (rows[0], rule, *rows[1:])
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)
