"""Results of `make bench`: one JSON file per run, with the commit, the machine and its load."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench import machine
from bench.figures import Values

FOLDER = Path(__file__).parent / "results"


@dataclass
class Measured:
    """The values of one figure in one run. `load` contains the load averages before and after each measurement."""

    values: list[float] = field(default_factory=list)
    load: list[tuple[float, float]] = field(default_factory=list)
    note: str = ""

    @property
    def value(self) -> float | None:
        """The median, or None if nothing was measured."""
        return median(self.values) if self.values else None


@dataclass
class Run:
    """One run of `make bench`."""

    commit: str
    date: str
    quick: bool
    machine: dict[str, Any]
    figures: dict[str, Measured] = field(default_factory=dict)

    @classmethod
    def start(cls, *, quick: bool) -> "Run":
        """Return a run of the current commit that begins now."""
        date = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(commit=machine.commit(), date=date, quick=quick, machine=machine.description())

    def add(self, values: Values, *, load: tuple[float, float]) -> None:
        """Add one measurement of some figures. A value of None means that the figure cannot be measured here."""
        for key, value in values.items():
            measured = self.figures.setdefault(key, Measured())
            measured.note = value.note
            if value.value is not None:
                measured.values.append(value.value)
                measured.load.append(load)

    def value_of(self, key: str) -> float | None:
        return self.figures[key].value if key in self.figures else None

    def save(self, folder: Path = FOLDER) -> Path:
        """Write the run as JSON, named after its date and commit; return the file."""
        folder.mkdir(exist_ok=True)
        path = folder / f"{self.date[:19].replace(':', '-')}-{self.commit}.json"
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")
        return path


def save_measurement(kind: str, measured: Mapping[str, Any]) -> Path:
    """Write another benchmark's measurement, which has a `date`, to the folder of its kind; return the file."""
    folder = FOLDER / kind
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{measured['date'][:19].replace(':', '-')}.json"
    path.write_text(json.dumps(measured, indent=1) + "\n")
    return path


def load(path: Path) -> Run:
    """Read a saved run. Raises OSError or ValueError."""
    stored = json.loads(path.read_text())
    figures = {
        key: Measured(one["values"], [(before, after) for before, after in one["load"]], one["note"])
        for key, one in stored.pop("figures").items()
    }
    return Run(**stored, figures=figures)


def saved(folder: Path = FOLDER) -> list[Path]:
    """Return the files of all saved runs, oldest first."""
    return sorted(folder.glob("*.json"))


def previous_values(runs: Iterable[Run], *, quick: bool) -> Mapping[str, float]:
    """Return the latest value of each figure in earlier runs of the same size, given oldest first."""
    values: dict[str, float] = {}
    for run in runs:
        if run.quick == quick:
            values |= {key: value for key in run.figures if (value := run.value_of(key)) is not None}
    return values
