"""Names of actors and profilesets, which are whole everywhere but on pages."""

import csv
import io
import json
import random

import pytest
from django.test import Client as Browser

from clients.models import ApiKey
from jobs.api.links import path_to
from jobs.live.preview import Figures, Preview, RankedProfileset, preview_of
from jobs.live.progress import Progress, Publisher
from jobs.models import Artifact, Build, Job
from jobs.results import rankings
from simc import report_details
from simc.reports import Player, Profileset, Statistics
from tests.conftest import Api
from tests.factories import make_running_job
from tests.jobs.simulators import content, run

pytestmark = pytest.mark.django_db(transaction=True)

ALIKE = "x" * 600
SETS = {f"{ALIKE}{number}": 2500 + 100 * number for number in range(9)}
PROFILE = 'mage="A"\nspec=frost\ngear_intellect=2000\niterations=200\n' + "".join(
    f'profileset."{name}"+=gear_intellect={value}\n' for name, value in SETS.items()
)


def finished(text: str, key: ApiKey, **fields: object) -> Job:
    job = run(key.client, text=text, csv=True, **fields)
    assert job.status == "completed", job.status_reason
    return job


@pytest.mark.parametrize("multi_stage", [False, True])
def test_long_names_are_whole_in_result_and_files(
    multi_stage: bool,  # noqa: FBT001
    minisim: Build,
    api: Api,
    key: tuple[ApiKey, str],
) -> None:
    job = finished(PROFILE, key[0], multi_stage=multi_stage)
    actor = api.get(f"jobs/{job.pk}/result").json()["result"]["summary"]["mainActor"]
    names = [entry["name"] for entry in actor["profilesets"]["results"]]
    assert (sorted(names), actor["profilesets"]["count"]) == (sorted(SETS), len(SETS))
    rows = list(csv.DictReader(io.StringIO(content(job, Artifact.Kind.CSV_REPORT).decode(), newline="")))
    assert {row["name"] for row in rows} == {"A", *SETS}
    if not multi_stage:
        report = json.loads(content(job, Artifact.Kind.JSON_REPORT))
        assert {entry["name"] for entry in report["sim"]["profilesets"]["results"]} == set(SETS)


def test_names_longer_than_other_texts_are_whole(minisim: Build, key: tuple[ApiKey, str]) -> None:
    alike = "y" * 30_000
    text = (
        f'mage="A"\nspec=frost\niterations=50\nprofileset."{alike}1"+=level=60\nprofileset."{alike}2"+=level=61\n'
    )
    summary = finished(text, key[0]).summary or {}
    results = summary["mainActor"]["profilesets"]["results"]
    assert {entry["name"] for entry in results} == {f"{alike}1", f"{alike}2"}


def test_a_long_character_name_is_whole_in_the_result(minisim: Build, api: Api, key: tuple[ApiKey, str]) -> None:
    name = f"{'N' * 400}1"
    job = finished(f'mage="{name}"\nspec=frost\niterations=50\n', key[0])
    result = api.get(f"jobs/{job.pk}/result?include=details").json()["result"]
    assert result["summary"]["mainActor"]["name"] == name
    assert result["details"]["actors"][0]["name"] == name


def test_long_names_are_shortened_on_pages(minisim: Build, key: tuple[ApiKey, str], client: Browser) -> None:
    job = finished(PROFILE, key[0])
    page = client.get(path_to("share", job.share_token)).content.decode()
    for number in range(9):
        shown = f"{ALIKE[:200]}…{(ALIKE + str(number))[-100:]}"
        assert f">{shown}<" in page
        assert f'title="{ALIKE}{number}"' in page
        assert f">{ALIKE}{number}<" not in page


def test_long_names_are_whole_in_the_list_of_all() -> None:
    figures = Statistics(mean=1, mean_stddev=1, stddev=1, min=0, max=2)
    names = [f"{ALIKE}{number}" for number in range(rankings.LISTED + 1)]
    packed = rankings.packed([Profileset(name, figures, 1) for name in names])
    assert packed is not None
    assert [entry.name for entry in rankings.unpacked(packed)] == sorted(names)


def test_all_names_of_the_largest_profile_are_listed() -> None:
    draw = random.Random(1)  # noqa: S311 - names that cannot be compressed
    figures = Statistics(mean=1, mean_stddev=1, stddev=1, min=0, max=2)
    names = ["".join(chr(draw.randrange(0x4E00, 0x9FFF)) for _ in range(3000)) for _ in range(rankings.LISTED + 20)]
    assert sum(len(name.encode()) for name in names) < 2 << 20
    packed = rankings.packed([Profileset(name, figures, 1) for name in names])
    assert packed is not None
    assert [entry.name for entry in rankings.unpacked(packed)] == sorted(names)


def test_long_names_are_whole_in_the_preview() -> None:
    job = make_running_job()
    best = [RankedProfileset(name=f"{ALIKE}{n}", mean=2.0, error=0.0, stage=1) for n in range(2)]
    known = Preview(seconds_left=None, baseline=Figures(mean=1, error=0), finished=2, count=2, best=best)
    Publisher(job, preview=lambda: known).publish(Progress(percent=1, stage=None))
    job.status = "running"
    stored = preview_of(job)
    assert stored is not None
    assert [entry.name for entry in stored.best] == [f"{ALIKE}0", f"{ALIKE}1"]


def test_debuffs_belong_to_the_actor_with_the_whole_name() -> None:
    names = [f"{ALIKE}1", f"{ALIKE}2"]
    targets = report_details.Targets()
    buffs = report_details.Buffs()
    for name in names:
        buffs.take({"name": f"bleed {name[-1]}", "spell_name": "Bleed", "uptime": 50, "source": name})
    targets.take({"buffs": buffs})
    figures = Statistics(mean=1, mean_stddev=1, stddev=1, min=0, max=2)
    actors = [report_details.actor({}, Player(name, figures)) for name in names]
    found = report_details.document(actors, options={}, targets=targets, iterations=1)["actors"]
    assert [len(actor["buffs"]) for actor in found] == [1, 1]
