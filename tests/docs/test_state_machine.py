"""The documents show the moves of the state machine that the code allows."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from jobs.enums import TERMINAL, ShardStatus, Status
from jobs.lifecycle.transitions import JobMove, Move, ShardMove

DOCS = Path(__file__).parents[2] / "docs"
STATE_MACHINE = DOCS / "reference/state-machine.md"
ROW = re.compile(r"^\| (.+?) \| (.+?) \| .+ \|$", re.MULTILINE)
ARROW = re.compile(r"^    (\S+) --> (\w+|\[\*\])", re.MULTILINE)


def tables(heading: str) -> Iterator[set[tuple[str, str]]]:
    """Yield the first and second column of each table of transitions in a section."""
    section = STATE_MACHINE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    _, *found = section.split("\n| from | to |")
    for table in found:
        rows = ROW.findall(table.split("\n\n")[0])
        yield {
            (before, after)
            for cells in rows
            for before, after in product(*map(statuses, cells))
            if "---" not in (before, after)
        }


def statuses(cell: str) -> list[str]:
    """Return the statuses in a cell; that of a new row is empty."""
    return re.findall(r"`(\w+)`", cell) or [cell.strip("\N{EN DASH}")]


@pytest.mark.parametrize(("heading", "moves"), [("Transitions", JobMove), ("Shards", ShardMove)])
def test_the_tables_contain_all_moves(heading: str, moves: type[Move]) -> None:
    assert list(tables(heading)) == [moves.pairs()]


@pytest.mark.parametrize("page", ["reference/state-machine.md", "explanation/architecture.md"])
def test_the_diagrams_contain_all_moves(page: str) -> None:
    (diagram,) = re.findall(r"stateDiagram-v2\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    arrows = set(ARROW.findall(diagram))
    assert arrows == {
        (before or "[*]", "ended" if after in TERMINAL else after) for before, after in JobMove.pairs()
    } | {("ended", "[*]")}
    (ended,) = re.findall(r'state "(.+)" as ended', diagram)
    assert set(ended.split(", ")) == set(TERMINAL)


@pytest.mark.parametrize("status", [*Status, *ShardStatus])
def test_each_status_is_described(status: str) -> None:
    assert re.search(rf"^\| `{status}` \| \w.+ \|", STATE_MACHINE.read_text(encoding="utf-8"), re.MULTILINE)
