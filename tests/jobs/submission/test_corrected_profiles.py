"""Jobs whose profile is corrected before it runs, from the submission to the report."""

import json
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from jobs.execution.shard_plan import cut
from jobs.models import Artifact, Job
from simc.profiles.analysis import analyse, corrected
from simc.profiles.numbers import Bounds
from simc.profiles.policy import Rules
from tests.conftest import Api
from tests.jobs.bundles import bundled_build
from tests.jobs.simulators import content, run

pytestmark = pytest.mark.django_db(transaction=True)

SETS = "".join(f"profileset.S{number}+=main_hand=staff,id=7,ilevel={600 + 20 * number}\n" for number in range(1, 6))
ENEMY_FIRST = f'enemy=E\nmage="A"\nlevel=80\nspec=frost\nmain_hand=staff,id=7,ilevel=600\niterations=100\n{SETS}'


@pytest.fixture
def _minisim(tmp_path: Path) -> None:
    bundled_build(tmp_path, {})


def report_of(job: Job) -> dict[str, Any]:
    sim: dict[str, Any] = json.loads(content(job, Artifact.Kind.JSON_REPORT))["sim"]
    return sim


@pytest.mark.parametrize("multi_stage", [False, True])
@pytest.mark.usefixtures("_minisim")
def test_sets_change_the_character_below_an_enemy(multi_stage: bool) -> None:  # noqa: FBT001
    job = run(text=ENEMY_FIRST, multi_stage=multi_stage)
    assert (job.status, job.status_reason) == ("completed", None)
    assert job.summary is not None
    main = job.summary["mainActor"]
    assert main["profilesets"]["results"][0]["name"] == "S5"
    assert main["profilesets"]["results"][0]["mean"] > main["mean"]


def test_shards_contain_the_corrected_main_actor() -> None:
    analysis = analyse(ENEMY_FIRST, rules=Rules(), bounds=Bounds(iterations=9, target_error=1))
    text = corrected(ENEMY_FIRST, analysis)
    profile = cut(text, culled=frozenset(), replicates={}, keeps_final_options=False)
    assert "profileset_main_actor_index=1" in profile.base.split("\n")


def test_an_enemy_in_an_included_file_counts(tmp_path: Path) -> None:
    files = {"boss.simc": "enemy=E\n", "mage.simc": 'mage="A"\nlevel=80\nspec=frost\n'}
    bundled_build(tmp_path, files)
    job = run(text=f"boss.simc\nmage.simc\niterations=50\n{SETS}")
    assert job.status == "completed"
    assert "profileset_main_actor_index=1" in content(job, Artifact.Kind.INPUT).decode()


@pytest.mark.usefixtures("_minisim")
def test_a_picture_reaches_no_report() -> None:
    text = (
        'mage="A"\nTHUMB"NAIL"=https://pictures.example/1.jpg\nwarrior="B"\nthumbnail=https://pictures.example/2\n'
    )
    job = run(text=f"{text}iterations=50\nprofileset.S+=thumbnail=https://pictures.example/3\n", html=True)
    assert job.status == "completed"
    for kind in (Artifact.Kind.HTML_REPORT, Artifact.Kind.INPUT):
        assert b"pictures.example" not in content(job, kind)


@pytest.mark.usefixtures("_minisim")
def test_the_maximum_holds_without_iterations(settings: Settings) -> None:
    settings.MAX_ITERATIONS = 120
    job = run(text=f'mage="A"\ntarget_error=0.01\n{SETS}profileset.S1+=iterations=0\n')
    sim = report_of(job)
    assert sim["options"]["iterations"] <= 121
    assert {each["iterations"] for each in sim["profilesets"]["results"]} == {120}


def test_a_submission_lists_what_was_corrected(api: Api) -> None:
    text = f"{ENEMY_FIRST}thumbnail=https://pictures.example/1.jpg\n"
    body = api.post("jobs", {"build": {"channel": "latest"}, "profile": {"text": text}}).json()
    assert [(each["kind"], each["line"], each["applied"]) for each in body["warnings"]] == [
        ("option_replaced", 1, 1),
        ("option_replaced", 12, None),
    ]


def test_a_text_without_line_breaks_is_refused_with_a_hint(api: Api) -> None:
    for text in ('# A - Frost#mage="A"level=60', 'mage="A"level=60profileset.B+=gear_intellect=4000'):
        response = api.post("jobs", {"build": {"channel": "latest"}, "profile": {"text": text}})
        assert response.status_code == 422
        assert "--data-binary" in response.json()["error"]


def test_a_refusal_shows_invisible_characters_and_reasons(api: Api) -> None:
    text = 'mage="A"\n\ufeffwarrior="B"\n'
    meta = api.post("jobs", {"build": {"channel": "latest"}, "profile": {"text": text}}).json()["meta"]
    (blocked,) = meta["blocked"]
    assert (blocked["line"], blocked["text"]) == (2, "<U+FEFF>warrior=B")
    assert "U+FEFF" in blocked["reason"]
    assert meta["message"] == f"Line 2, <U+FEFF>warrior=B: {blocked['reason']}."
