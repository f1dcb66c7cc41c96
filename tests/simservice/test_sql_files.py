"""The `.sql` files: their headings, their parts, and the values of enumerations in them."""

import re
from pathlib import Path

import pytest
from django.conf import settings

from billing.models import EntryReason, Pocket
from clients.models import Membership
from jobs.enums import ACTIVE, CLAIMED, WAITING, ShardStatus, Status, StopReason
from jobs.submission.store import Rule
from simservice.postgresql.statements import load
from webhooks.models import Delivery, Event

PACKAGES = ("billing", "clients", "jobs", "webhooks")
FILES = [path for package in PACKAGES for path in sorted(Path(settings.BASE_DIR, package).rglob("*.sql"))]
ENUMERATIONS = (
    Status,
    ShardStatus,
    StopReason,
    Pocket,
    EntryReason,
    Rule,
    Membership.Role,
    Event.State,
    Delivery.Outcome,
)
SETS = [{str(each) for each in statuses} for statuses in (WAITING, CLAIMED, ACTIVE)]
UNDESCRIBED = re.compile(r"^-- (?:name|part): .*\n(?!--)", re.MULTILINE)


def load_text(folder: Path, text: str, *others: dict[str, str], **parts: str) -> dict[str, str]:
    folder.joinpath("module.sql").write_text(text)
    return load(str(folder / "module.py"), *others, **parts)


def test_parts_are_included(tmp_path: Path) -> None:
    text = """
-- A file.

-- part: one
-- A part.
1 + {two}

-- name: sum
-- A statement.
-- It has two lines.
SELECT {one}, {three}, %(value)s

-- name: outer
-- A statement that includes another one.
SELECT ({sum})
"""
    statement = "/* sum */ SELECT 1 + 2, 3, %(value)s"
    assert load_text(tmp_path, text, {"two": "2"}, three="3") == {
        "one": "1 + 2",
        "sum": statement,
        "outer": f"/* outer */ SELECT ({statement})",
    }


def test_an_unknown_part_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="missing"):
        load_text(tmp_path, "-- name: one\n-- A statement.\nSELECT {missing}\n")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_heading_has_a_description(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("-- ")
    assert UNDESCRIBED.findall(text) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_literals_are_values_of_enumerations(path: Path) -> None:
    text = path.read_text()
    known = {str(each) for enumeration in ENUMERATIONS for each in enumeration}
    # What follows `->>` is a key of an object of JSON.
    assert set(re.findall(r"(?<!->> )'([a-z_]+)'", text)) <= known
    for listed in re.findall(r"status IN \(('[^)]*)\)", text):
        assert set(re.findall(r"\w+", listed)) in SETS
