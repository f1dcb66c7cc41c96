"""Jobs with stat weights and plots, with the built-in simulator: alone, in stages and in shards."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from jobs.models import Artifact, Build, Job
from jobs.results import details
from jobs.results.details import Actor
from tests.jobs.shards.sharded_runs import conducted
from tests.jobs.simulators import content, contents, make_stand_in, run
from tests.simc.details_check import Check, check_plots, check_weights

pytestmark = pytest.mark.django_db(transaction=True)

EXTRAS = "calculate_scale_factors=1\ndps_plot_stat=crit,haste\ndps_plot_points=4\ndps_plot_iterations=100\n"
MAGE = f'mage="A"\nspec=frost\nlevel=80\ngear_crit_rating=3000\ngear_haste_rating=3000\n{EXTRAS}'
SETS = "".join(f'profileset."set {n}"+=trinket1=stone,id=1,ilevel={600 + 12 * n}\n' for n in range(1, 9))
NONE = "the simulator's report has none"


def actors_of(job: Job) -> tuple[Actor, ...]:
    found = details.details_of(job)
    assert found is not None
    return found.actors


def assert_equal_to_report(job: Job) -> None:
    """Assert that the weights and curves are those of the job's last report."""
    reports = [json.loads(text)["sim"] for text in contents(job, Artifact.Kind.JSON_REPORT)]
    document, check = details.document_of(job), Check()
    assert document is not None
    for found, player in zip(document["actors"], reports[-1]["players"], strict=True):
        check_weights(check, found, player, reports[-1]["options"]["scaling"])
        check_plots(check, found, reports[-1]["dps_plot"])
    assert check.problems == []
    assert check.compared > 10


def warnings_of(job: Job) -> list[str]:
    assert job.summary is not None
    found: list[str] = job.summary.get("warnings", [])
    return found


def test_a_job_has_weights_and_curves(minisim: Build) -> None:
    job = run(text=f"{MAGE}iterations=200\n", csv=True)
    assert (job.status, job.status_reason, warnings_of(job)) == ("completed", None, [])
    (actor,) = actors_of(job)
    assert actor.weights is not None
    assert {each.stat for each in actor.weights.stats} == {"Int", "Crit", "Haste", "Mastery", "Vers"}
    assert actor.weights.stats[0].stat == "Int"
    assert actor.weights.pawn.startswith('( Pawn: v1: "A-Frost": Class=Mage, Spec=Frost, Intellect=')
    changes = [[point.change for point in plot.points] for plot in actor.plots]
    assert changes == [[-320, -160, 0, 160, 320]] * 2
    assert_equal_to_report(job)
    # 7 expected stats with 200 fights each, and 8 points with 100
    assert job.summary is not None
    assert job.summary["additional_fights"] == 7 * 200 + 8 * 100
    # The table stays as it is.
    rows = list(csv.reader(io.StringIO(content(job, Artifact.Kind.CSV_REPORT).decode(), newline="")))
    assert [row[0] for row in rows] == ["name", "A"]


def test_several_actors_have_their_own(minisim: Build) -> None:
    text = f'{MAGE}iterations=100\nwarrior="B"\nlevel=80\nspec=fury\n'
    job = run(text=text)
    mage, warrior = actors_of(job)
    assert mage.weights is not None
    assert warrior.weights is not None
    assert "Str" in {each.stat for each in warrior.weights.stats}
    assert "Str" not in {each.stat for each in mage.weights.stats}
    assert [len(actor.plots) for actor in (mage, warrior)] == [2, 2]
    assert_equal_to_report(job)


def test_stages_simulate_them_once_and_keep_them(minisim: Build) -> None:
    job = run(text=f"{MAGE}{SETS}target_error=0.5\n", multi_stage=True)
    assert job.status == "completed"
    assert job.summary is not None
    assert len(job.summary["multiStage"]["stages"]) == 2
    inputs = contents(job, Artifact.Kind.INPUT)
    assert ["dps_plot_stat" in text for text in inputs] == [False, True]
    assert ["calculate_scale_factors" in text for text in inputs] == [False, True]
    logs = contents(job, Artifact.Kind.STDOUT_LOG)
    phases = [len(set(re.findall(r"Generating (-?\d+ (?:Crit|Haste)|Int): ", log))) for log in logs]
    assert phases == [0, 9]
    assert_equal_to_report(job)
    assert job.summary["additional_fights"] > 0


def test_shards_simulate_them_once_and_keep_them(minisim: Build) -> None:
    job = conducted(helpers=1, text=f"{MAGE}{SETS}iterations=60\n")
    assert (job.status, job.slots_used) == ("completed", 2)
    assert job.summary is not None
    assert job.summary["mainActor"]["profilesets"]["count"] == 8
    assert_equal_to_report(job)
    assert warnings_of(job) == []


def test_a_report_without_them_is_stated_in_words(tmp_path: Path) -> None:
    body = """
sample = {'mean': 1000, 'mean_std_dev': 1, 'std_dev': 10, 'count': 100, 'min': 1, 'max': 2000}
sim = {'options': {'iterations': 100}, 'players': [{'name': 'A', 'collected_data': {'dps': sample}}]}
json.dump({'version': '1', 'report_version': '2.0.0', 'sim': sim}, open('report.json', 'w'))
"""
    make_stand_in(tmp_path, body)
    job = run(text=f"{MAGE}iterations=100\n")
    assert job.status == "completed"
    assert warnings_of(job) == [
        f"The profile asks for stat weights, but {NONE}.",
        f"The profile asks for plots, but {NONE}.",
    ]
    plain = run(text="mage=A\niterations=100\n")
    assert warnings_of(plain) == []
    assert plain.summary is not None
    assert "additional_fights" not in plain.summary


def additional(job: Job) -> Any:
    assert job.summary is not None
    return job.summary.get("additional_fights")


def test_a_job_with_fewer_stats_has_fewer_fights(minisim: Build) -> None:
    job = run(text='mage="A"\nlevel=80\niterations=100\ncalculate_scale_factors=1\nscale_only=crit,haste\n')
    assert additional(job) == 200
    (actor,) = actors_of(job)
    assert actor.weights is not None
    assert {each.stat for each in actor.weights.stats} == {"Crit", "Haste"}
