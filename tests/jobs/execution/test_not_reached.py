"""Actors and profilesets that a stopped run never simulated: omitted and counted."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from django.test import Client as HttpClient
from pytest_django import Settings

from clients.audit import SYSTEM
from clients.models import ApiKey
from jobs.lifecycle import cancellation
from jobs.models import Artifact, Job
from tests.conftest import Api
from tests.dashboard.browsing import text_of
from tests.jobs.simulators import content, make_stand_in, run, run_with_action

pytestmark = pytest.mark.django_db(transaction=True)

# Writes a report like an interrupted SimulationCraft: without data of what was not simulated.
STAND_IN = """
def actor(name, count, mean):
    fights = {"fight_length": {"count": count, "mean": 300}} if count else {}
    dps = {"dps": {"count": count, "mean": mean, "mean_std_dev": 1}} if mean else {}
    return {"name": name, "collected_data": {**fights, **dps}}
def leave(actors, sets=()):
    results = [{"name": name, "mean": 1200, "mean_stddev": 1, "stddev": 10} for name in sets]
    sim = {"options": {"iterations": 10}, "players": actors, "profilesets": {"results": results}}
    json.dump({"sim": sim}, open("report.json", "w"))
def run(*left):
    def stop(*_):
        leave(*left)
        sys.exit(0)
    signal.signal(signal.SIGINT, stop)
    print("running", flush=True)
    time.sleep(60)
"""
ACTORS = '[actor("A", 10, 1000), actor("Healer", 10, 0)] + [actor(f"Late {n}", 0, 0) for n in range(19)]'
SETS = 'mage="A"\n' + "".join(f'profileset."set {number}"+=talents={number}\n' for number in range(5))
CEILING = {"ceiling_credits": 64, "ceiling_runtime_seconds": 2}


def stopped(tmp_path: Path, remaining: str, **fields: Any) -> Job:
    """Return a job that was stopped at its cap and wrote a report."""
    make_stand_in(tmp_path, f"{STAND_IN}\nrun({remaining})")
    return run(**{**CEILING, "csv": True, **fields})


def names_of(job: Job) -> list[str]:
    """Return the names in a job's CSV report."""
    table = content(job, Artifact.Kind.CSV_REPORT).decode()
    return [row[0] for row in csv.reader(io.StringIO(table, newline=""))][1:]


def page_of(job: Job) -> str:
    """Return the text of a job's share page."""
    return text_of(HttpClient().get(f"/share/{job.share_token}"))


def test_actors_that_never_ran_are_counted(tmp_path: Path, api: Api, key: tuple[ApiKey, str]) -> None:
    job = stopped(tmp_path, ACTORS, client=key[0].client)
    assert str(job.status_reason).endswith("was stopped. 19 actors were not simulated.")
    summary = api.get(f"jobs/{job.pk}/result").json()["result"]["summary"]
    assert summary["not_reached"] == {"actors": 19, "profilesets": 0}
    assert [actor["name"] for actor in summary["actors"]["results"]] == ["A", "Healer"]
    assert names_of(job) == ["A", "Healer"]
    page = page_of(job)
    assert page.count("2 of 21 actors simulated") == 1
    assert "were not simulated" not in page
    assert "Late" not in page


def test_in_variant_r_the_table_has_the_baseline(tmp_path: Path, settings: Settings) -> None:
    settings.API_VARIANT = "R"
    assert names_of(stopped(tmp_path, ACTORS)) == ["A"]


def test_profilesets_that_never_ran_are_counted(tmp_path: Path) -> None:
    job = stopped(tmp_path, '[actor("A", 10, 1000)], ["set 0", "set 1"]', text=SETS)
    assert job.summary is not None
    assert job.summary["not_reached"] == {"actors": 0, "profilesets": 3}
    assert str(job.status_reason).endswith(" 3 profilesets were not simulated.")
    assert names_of(job) == ["A", "set 0", "set 1"]


def test_a_job_without_its_baseline_has_no_headline(tmp_path: Path) -> None:
    job = stopped(tmp_path, '[actor("A", 0, 0)]', text=SETS)
    assert job.summary is not None
    assert job.summary["mainActor"] is None
    assert job.summary["not_reached"] == {"actors": 1, "profilesets": 5}
    assert str(job.status_reason).endswith(" 1 actor and 5 profilesets were not simulated.")
    assert "There are no results to list." in page_of(job)


def test_a_cancelled_run_counts_what_never_ran(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\nrun({ACTORS})")
    job = run_with_action(lambda job: cancellation.cancel(job, by=SYSTEM))
    assert job.status == "cancelled"
    assert str(job.status_reason).endswith(" 19 actors were not simulated.")


def test_actors_and_profilesets_that_ran_are_not_counted(tmp_path: Path) -> None:
    job = stopped(tmp_path, '[actor("A", 10, 0)]', text=SETS)
    assert job.summary is not None
    assert "not_reached" not in job.summary
    assert job.summary["mainActor"]["mean"] == 0


def test_a_completed_run_keeps_actors_without_damage(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f'{STAND_IN}\nleave([actor("A", 10, 1000), actor("Tank", 0, 0)])')
    job = run(csv=True, text='mage="A"\niterations=10\n')
    assert job.summary is not None
    assert job.summary["actors"]["count"] == 2
    assert "not_reached" not in job.summary
    assert names_of(job) == ["A", "Tank"]
