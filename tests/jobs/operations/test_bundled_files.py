"""Jobs that include files of their build's bundle: what runs, what counts, and which includes fail."""

import json
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from billing.models import Plan
from clients.models import ApiKey
from jobs.execution import attempt
from jobs.models import Artifact, Job, Run
from tests.conftest import Api
from tests.factories import BuildFactory
from tests.jobs.bundles import FILES, bundled_build
from tests.jobs.simulators import claim, content, run

pytestmark = pytest.mark.django_db(transaction=True)

BASE = 'mage="A"\nlevel=80\niterations=50\n'


def submit(api: Api, text: str, **build: Any) -> Any:
    return api.post("jobs", {"build": {"channel": "latest", **build}, "profile": {"text": text}})


def run_with(folder: Path, text: str, files: dict[str, str], **fields: Any) -> Job:
    """Run a job on a build with these bundled files."""
    bundled_build(folder, files)
    return run(text=text, **fields)


def end_of(job: Job) -> tuple[str, str | None]:
    return job.status, job.error_code


@pytest.mark.parametrize(
    "text",
    [
        BASE + "input=apls/mage.simc\n",
        BASE + "mage.simc\n",
        BASE + "tier.simc\ngear/tier.simc\n",
        '"input=profiles/mage.simc"\niterations=50\n',
        'profiles/mage.simc iterations=50 profileset."A B"+=tier.simc\n',
    ],
)
def test_fragments_can_be_included_by_path_or_name(tmp_path: Path, text: str) -> None:
    # Two files are called mage.simc, so the name alone is ambiguous.
    files = FILES if "\nmage.simc" not in text else {"apls/mage.simc": FILES["apls/mage.simc"]}
    job = run_with(tmp_path, text, files)
    assert (end_of(job), job.status_reason) == (("completed", None), None)


def test_the_simulator_gets_the_text_of_all_included_files(tmp_path: Path) -> None:
    job = run_with(tmp_path, "raid.simc\niterations=50\n", FILES)
    ran = content(job, Artifact.Kind.INPUT).decode()
    assert all(line in ran for line in ('mage="Bundled"'.replace('"', ""), "actions+=/ice_lance", "head=hood,id=1"))
    assert ".simc\n" not in ran
    assert job.summary is not None
    assert {actor["name"] for actor in job.summary["actors"]["results"]} == {"Bundled", "Second"}


def test_submissions_and_builds_agree_on_includable_files(tmp_path: Path, api: Api) -> None:
    build = bundled_build(tmp_path)
    listed = api.get(f"builds/{build.pk}").json()["profiles"]["includable"]
    assert listed == sorted(FILES)
    assert all(submit(api, f"{BASE}input={path}\n").status_code == 200 for path in listed)
    assert submit(api, f"{BASE}tier.simc\n").status_code == 200
    assert submit(api, f"{BASE}mage.simc\n").json()["code"] == "input_sanitized_rejected"


@pytest.mark.slow
def test_an_included_action_list_allows_stages(tmp_path: Path) -> None:
    job = run_with(tmp_path, 'mage="A"\ninput=apls/mage.simc\ntrinkets.simc\n', FILES, multi_stage=True)
    assert job.summary is not None
    assert job.summary["multiStage"]["reason"] == "eligible_profileset_only"
    first, *_, last = job.summary["multiStage"]["stages"]
    assert (first["profilesets"], last["profilesets"] < 5) == (5, True)


def test_an_included_actor_counts_as_an_actor(tmp_path: Path) -> None:
    text = f"{BASE}input=profiles/mage.simc\ntrinkets.simc\n"
    job = run_with(tmp_path, text, FILES, multi_stage=True)
    assert job.summary is not None
    assert job.summary["multiStage"]["reason"] == "unsupported_multi_actor"


def test_included_numbers_are_clamped_to_the_limits(tmp_path: Path, settings: Settings) -> None:
    settings.MAX_ITERATIONS = 30
    many = {"many.simc": "iterations=5000\nprofileset.a+=iterations=5000\nprofileset.a+=level=80\n"}
    job = run_with(tmp_path, BASE.replace("iterations=50", "many.simc"), many)
    assert job.summary is not None
    assert job.summary["iterations"] <= 31
    report = json.loads(content(job, Artifact.Kind.JSON_REPORT))
    assert [profileset["iterations"] for profileset in report["sim"]["profilesets"]["results"]] == [30]


REFUSED = {
    "an include of itself": (
        {"a.simc": "input=deep/b.simc\n", "deep/b.simc": "level=80\na.simc\n"},
        "deep/b.simc, line 2, a.simc: the file includes itself: a.simc → deep/b.simc → a.simc",
    ),
    "a refused directive": (
        {"a.simc": "level=80\ndeep/b.simc\n", "deep/b.simc": "\nhtml=/tmp/x\n"},
        "deep/b.simc, line 2, html=/tmp/x: it writes a file",
    ),
    "a refused directive in a profileset": (
        {"a.simc": 'profileset."x y"+=b.simc\n', "b.simc": "threads=8\n"},
        "b.simc, line 1, profileset.x y+=threads=8: the service sets",
    ),
    "a file of the machine": ({"a.simc": "input=/etc/passwd\n"}, "a.simc, line 1, /etc/passwd: the build has no"),
    "a template that becomes a directive": (
        {"a.simc": "$(x)=html\n$(x)=/tmp/x\n$(x)$(x)\n"},
        "a.simc, line 3, $(x)$(x): a template is",
    ),
    "an armory import": (
        {"a.simc": "armory=eu,x,y\n"},
        "a.simc, line 1, armory=eu,x,y: it requires game credentials",
    ),
    "too many levels": (
        {f"{name}.simc": f"{name + 1}.simc\n" for name in range(30)} | {"a.simc": "0.simc\n", "30.simc": ""},
        "more than 20 levels deep",
    ),
    "too many files": ({"a.simc": "b.simc\n" * 2001, "b.simc": ""}, "more than 2,000 files"),
    "too many options": ({"a.simc": "b.simc\n" * 300, "b.simc": "x=1\n" * 300}, "exceeds 60,000 options"),
    "too much text": ({"a.simc": "b.simc\n" * 20, "b.simc": "#" * (1 << 20)}, "exceeds 16,777,216 characters"),
    "two files of the name": (
        {"a.simc": "t.simc\n", "x/t.simc": "", "y/t.simc": ""},
        "t.simc: several files have this name; include one by its path: x/t.simc, y/t.simc",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_include_with_a_blocked_directive_fails_the_job(tmp_path: Path, case: str) -> None:
    files, reason = REFUSED[case]
    job = run_with(tmp_path, f"{BASE}a.simc\n", files)
    assert end_of(job) == ("failed", "input_invalid")
    assert job.status_reason is not None
    assert reason in job.status_reason
    assert (job.credits_consumed, Run.objects.exists()) == (0, False)


def test_an_include_missing_from_the_build_fails_the_job(api: Api, tmp_path: Path) -> None:
    bundled_build(tmp_path)
    assert submit(api, f"{BASE}apls/mage.simc\n").status_code == 200
    newer = BuildFactory.create(executable="/bin/false")
    job = execute_waiting()
    assert end_of(job) == ("failed", "input_invalid")
    assert f"on the build {newer}. Line 4, apls/mage.simc: the build has no such file" in (job.status_reason or "")
    body = api.get(f"jobs/{job.pk}/status").json()
    assert (body["errorCode"], body["statusReason"]) == ("input_invalid", job.status_reason)


def execute_waiting() -> Job:
    """Run the waiting job."""
    job = claim()
    attempt.execute(job)
    return Job.objects.get(pk=job.pk)


def test_a_missing_bundled_file_is_a_fault_of_the_build(tmp_path: Path) -> None:
    build = bundled_build(tmp_path)
    (tmp_path / "apls" / "mage.simc").unlink()
    job = run(text=f"{BASE}apls/mage.simc\n")
    assert end_of(job) == ("failed", "build_unavailable")
    assert f"A file of the build {build} is missing or has changed. Line 4" in (job.status_reason or "")


@pytest.mark.parametrize("link", ["apls/mage.simc", "apls"])
def test_a_bundled_file_replaced_by_a_link_is_not_followed(tmp_path: Path, link: str) -> None:
    folder, outside = tmp_path / "bundle", tmp_path / "outside"
    bundled_build(folder)
    (folder / link).rename(outside)
    (folder / link).symlink_to(outside)
    job = run(text=f"{BASE}apls/mage.simc\n")
    assert end_of(job) == ("failed", "build_unavailable")


def test_included_variants_count_against_the_plan(tmp_path: Path, api: Api, key: tuple[ApiKey, str]) -> None:
    Plan.objects.update(max_variants=4)
    bundled_build(tmp_path)
    assert submit(api, f"{BASE}trinkets.simc\n").status_code == 200
    job = execute_waiting()
    assert end_of(job) == ("failed", "input_invalid")
    assert job.status_reason == "With its included files, the profile has 5 variants; the plan allows 4."


def test_included_plots_count_against_the_plan(tmp_path: Path, api: Api, key: tuple[ApiKey, str]) -> None:
    Plan.objects.update(max_variants=19)
    bundled_build(tmp_path, {"plots.simc": "dps_plot_stat=crit\n"})
    assert submit(api, f"{BASE}plots.simc\n").status_code == 200
    job = execute_waiting()
    assert end_of(job) == ("failed", "input_invalid")
    assert job.status_reason == "With its included files, the profile has 20 variants; the plan allows 19."


def test_included_profiles_count_at_submission(tmp_path: Path, api: Api, key: tuple[ApiKey, str]) -> None:
    Plan.objects.update(max_variants=0)
    bundled_build(tmp_path, profiles=["profiles/mage.simc"])
    assert submit(api, f"{BASE}apls/mage.simc\n").status_code == 200
    assert submit(api, f"{BASE}profiles/mage.simc\n").json()["code"] == "too_many_variants"


def test_a_fragment_alone_has_nothing_to_simulate(tmp_path: Path) -> None:
    job = run_with(tmp_path, "a.simc\n", {"a.simc": "max_time=100\n"})
    assert end_of(job) == ("failed", "input_invalid")
    assert "nothing to simulate" in (job.status_reason or "").lower()
