"""The CSV report of a job."""

import csv
import io
import json
from pathlib import Path

import pytest
from pytest_django import Settings

from jobs.models import Artifact
from tests.jobs.simulators import REPORT, content, make_stand_in, run

pytestmark = pytest.mark.django_db(transaction=True)

PLAYERS = [{"name": name, "collected_data": {"dps": {"mean": 5.5}}} for name in ("=Base", "Copy")]
SETS = [{"name": f"set {number}", "mean": number} for number in range(1, 301)]
LEAVE_BIG_REPORT = "open('report.json', 'w').write({!r})".format(
    json.dumps({**REPORT, "sim": {"options": {}, "players": PLAYERS, "profilesets": {"results": SETS}}})
)


@pytest.mark.parametrize(
    ("variant", "actors"), [("C", ["'=Base", "Copy"]), ("R", ["'=Base"])], ids=["every actor", "baseline only"]
)
def test_the_table_has_the_variants_actors_and_all_profilesets(
    tmp_path: Path, settings: Settings, variant: str, actors: list[str]
) -> None:
    settings.API_VARIANT = variant
    make_stand_in(tmp_path, LEAVE_BIG_REPORT)
    job = run(csv=True)
    rows = list(csv.reader(io.StringIO(content(job, Artifact.Kind.CSV_REPORT).decode(), newline="")))
    assert [row[0] for row in rows[1 : len(actors) + 1]] == actors
    assert len(rows) == 1 + len(actors) + 300


@pytest.mark.parametrize(
    ("requested", "body"), [(False, LEAVE_BIG_REPORT), (True, "pass")], ids=["not asked for", "no report"]
)
def test_other_jobs_have_no_csv_report(tmp_path: Path, requested: object, body: str) -> None:
    make_stand_in(tmp_path, body)
    job = run(csv=requested)
    assert not Artifact.objects.filter(job=job, kind="csv_report").exists()
