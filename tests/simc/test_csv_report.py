"""The CSV table: its rows, its numbers and hostile names."""

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simc import csv_report
from simc.reports import Player, Profileset, Report, Statistics

HEADER = "name,dps_mean,dps_min,dps_max,dps_std_dev,dps_mean_std_dev\r\n"


def figures(mean: float) -> Statistics:
    return Statistics(mean=mean, mean_stddev=0.25, stddev=2.5, min=1.0, max=9.0)


def make_report(*players: str, sets: dict[str, float] | None = None) -> Report:
    """Return a report of some actors, and of profilesets by their means."""
    return Report(
        players=tuple(Player(name=name, dps=figures(5), talents="", gear=()) for name in players),
        profilesets=tuple(Profileset(name, figures(mean), 1) for name, mean in (sets or {}).items()),
        raid_dps=figures(5),
        iterations=10,
        errors=(),
    )


def table(report: Report, *, every_actor: bool = True) -> str:
    target = io.StringIO(newline="")
    csv_report.write(report, target, every_actor=every_actor)
    return target.getvalue()


def test_the_table_has_a_header_and_all_rows() -> None:
    assert table(make_report("A", sets={"x": 7.5})) == HEADER + "A,5,1.0,9.0,2.5,0.25\r\nx,7.5,1.0,9.0,2.5,0.25\r\n"


def test_actors_keep_their_order_and_profilesets_are_ranked() -> None:
    rows = list(csv.reader(io.StringIO(table(make_report("B", "A", sets={"low": 1, "high": 3, "also high": 3})))))
    assert [row[0] for row in rows[1:]] == ["B", "A", "also high", "high", "low"]


def test_other_actors_can_be_left_out() -> None:
    rows = table(make_report("Base", "Copy", sets={"x": 1}), every_actor=False).splitlines()
    assert [row.partition(",")[0] for row in rows[1:]] == ["Base", "x"]


def test_every_profileset_has_a_row() -> None:
    report = make_report("A", sets={f"set {number}": number for number in range(1, 5001)})
    assert len(table(report).splitlines()) == 5002


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        (5.0, "5.0"),
        (1e-07, "0.0000001"),
        (1e22, "10000000000000000000000"),
        (123456.789, "123456.789"),
        (-0.5, "-0.5"),
    ],
)
def test_numbers_are_written_in_digits(figure: float, shown: str) -> None:
    assert table(make_report("A", sets={"x": figure})).splitlines()[2].split(",")[1] == shown


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("=cmd()|' /C calc'!A0", "'=cmd()|' /C calc'!A0"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\tx", "'\tx"),
        ("\rx", "'\rx"),
        ('=1,"2"\n3', '\'=1,"2"\n3'),
        ("'+1", "''+1"),
        ("'plain'", "''plain'"),
        ("plain", "plain"),
        ("a=b", "a=b"),
        ('with "quotes", and\ncommas', 'with "quotes", and\ncommas'),
        ("<b>é</b>", "<b>é</b>"),
        ("x" * 300, "x" * 300),
    ],
)
def test_a_name_is_one_field_and_not_a_formula(name: str, read: str) -> None:
    rows = list(csv.reader(io.StringIO(table(make_report(name)), newline="")))
    assert len(rows) == 2
    assert len(rows[1]) == 6
    assert rows[1][0] == read


@given(st.text(st.sampled_from("'+=-@\t\rax"), max_size=4))
def test_a_cell_can_be_mapped_back_to_its_name(name: str) -> None:
    cell = csv_report.harmless(name)
    assert not re.match(r"[=+\-@\t\r]", cell)
    assert (cell.removeprefix("'")) == name
