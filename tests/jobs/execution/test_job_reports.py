"""The files of jobs in stages have each profileset once, and the report of all stages comes first."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from clients.models import ApiKey
from jobs.api.links import path_to
from jobs.live.progress import Line, Publisher
from jobs.models import Artifact, Build, Job
from jobs.results import queries
from simc import stage_reports
from simc.report_merge import limited
from tests.conftest import Api
from tests.jobs.execution.test_stages import LATER, NAMES, PROFILE, STAND_IN, run_staged
from tests.jobs.shards import sharded_runs
from tests.jobs.simulators import content, contents, make_stand_in, read, run

pytestmark = pytest.mark.django_db(transaction=True)

STAGED_SETS = f"{sharded_runs.PROFILE.replace('iterations=50', 'calculate_scale_factors=0')}"


def report_of(job: Job) -> Any:
    """Return the report that comes first in every list."""
    first = next(each for each in queries.artifacts_of(job) if each.kind == Artifact.Kind.JSON_REPORT)
    assert first.stage is None
    return json.loads(read(first))


def figures_of(job: Job) -> dict[str, tuple[float, ...]]:
    """Return the figures of each profileset in the report of a job."""
    keys = ("mean", "min", "max", "stddev", "mean_stddev")
    results = report_of(job)["sim"]["profilesets"]["results"]
    found = {each["name"]: tuple(each[key] for key in keys) for each in results}
    assert len(found) == len(results)
    return found


def table_of(job: Job) -> dict[str, tuple[float, ...]]:
    rows = list(csv.reader(io.StringIO(content(job, Artifact.Kind.CSV_REPORT).decode(), newline="")))[1:]
    assert rows[0][0] == report_of(job)["sim"]["players"][0]["name"]
    assert float(rows[0][1]) == report_of(job)["sim"]["players"][0]["collected_data"]["dps"]["mean"]
    return {row[0]: tuple(map(float, row[1:])) for row in rows[1:]}


def summary_of(job: Job) -> dict[str, float]:
    assert job.summary is not None
    return {row["name"]: row["mean"] for row in job.summary["mainActor"]["profilesets"]["results"]}


def assert_consistent(job: Job, names: list[str]) -> None:
    """Check that report, table and summary have the same figures in the same order."""
    figures = figures_of(job)
    assert list(figures.items()) == list(table_of(job).items())
    assert [(name, mean) for name, (mean, *_) in figures.items()] == list(summary_of(job).items())
    assert figures.keys() == set(names)
    assert_no_foreign_names(job, names)


def assert_no_foreign_names(job: Job, names: list[str]) -> None:
    """Check that the files of a job name only profilesets of its profile, and its reports each of them once."""
    for report in map(json.loads, contents(job, Artifact.Kind.JSON_REPORT)):
        found = [each["name"] for each in report["sim"]["profilesets"]["results"]]
        assert len(found) == len(set(found))
        assert set(found) <= set(names)
    for artifact in Artifact.objects.filter(job=job):
        assert b"~replicate" not in read(artifact), artifact
    assert "~replicate" not in json.dumps([job.summary, job.status_reason, job.warnings, job.missing_artifacts])


def test_a_job_of_the_built_in_simulator(minisim: Build, api: Api, key: tuple[ApiKey, str], client: Client) -> None:
    job = run_staged(client=key[0].client, text=f"{PROFILE}target_error=0.4\n", csv=True, html=True)
    assert_consistent(job, NAMES)
    report = report_of(job)
    assert report["sim"]["options"]["target_error"] == 0.4
    stages = [json.loads(text) for text in contents(job, Artifact.Kind.JSON_REPORT)[:2]]
    del report["sim"]["profilesets"], stages[1]["sim"]["profilesets"]
    assert report == stages[1]
    listed = api.get(f"jobs/{job.pk}/result").json()["result"]["artifacts"]
    assert [(each["name"], each["stage"]) for each in listed if each["kind"] == "json_report"] == [
        ("report.json", None),
        ("stage-1-report.json", 1),
        ("stage-2-report.json", 2),
    ]
    assert [each["name"] for each in listed[:3]] == ["report.json", "result.csv", "stage-1-input.simc"]
    assert client.get(path_to("share", job.share_token)).content.count(b"All stages:") == 1
    manifest = client.get(path_to("manifest", job.share_token)).json()
    assert [each["url"] for each in manifest["artifacts"]] == [each["url"] for each in listed]


@pytest.mark.parametrize("version", [2, 3])
def test_a_job_in_shards(tmp_path: Path, version: int) -> None:
    sharded_runs.make_simulator(tmp_path, "print(*names, sep='\\n')")
    job = sharded_runs.conducted(text=STAGED_SETS, multi_stage=True, csv=True, json_version=version)
    assert job.status == "completed"
    assert len(contents(job, Artifact.Kind.JSON_REPORT)) == 4
    assert_consistent(job, sharded_runs.NAMES)


def test_shards_give_the_report_of_one_process(tmp_path: Path) -> None:
    sharded_runs.make_simulator(tmp_path)
    jobs = [sharded_runs.conducted(parallel_slots=n, text=STAGED_SETS, multi_stage=True) for n in (1, 4)]
    assert figures_of(jobs[0]) == figures_of(jobs[1])


def test_a_job_that_is_stopped_in_a_later_stage(tmp_path: Path) -> None:
    make_stand_in(tmp_path, STAND_IN + LATER)
    job = run_staged(ceiling_credits=64, ceiling_runtime_seconds=2, csv=True)
    assert job.status == "timed_out"
    assert_consistent(job, NAMES)


def test_a_stopped_stage_that_is_less_precise_leaves_the_one_before(tmp_path: Path) -> None:
    body = STAND_IN.replace("leave(names[:4])", "error = 9; leave(names[:4])") + LATER
    make_stand_in(tmp_path, body.replace("def stop(*_):", "def stop(*_):\n    global error"))
    job = run_staged(ceiling_credits=64, ceiling_runtime_seconds=2, csv=True)
    assert job.status == "timed_out"
    assert_consistent(job, NAMES)
    sample = report_of(job)["sim"]["players"][0]["collected_data"]["dps"]
    assert sample["mean_std_dev"] == pytest.approx(10 * 1.4142 / 1.96)


def test_a_job_that_fails_in_a_later_stage(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\nleave(names if error > 1 else names[2:])")
    job = run_staged(csv=True)
    assert job.status == "failed"
    assert_consistent(job, NAMES)


def test_a_complete_stage_replaces_more_precise_figures(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\nerror = 3 - error if error < 1 else error\nleave(names)")
    job = run_staged(csv=True)
    assert_consistent(job, NAMES)
    assert job.summary is not None
    assert job.summary["mainActor"]["profilesets"]["results"][0]["stage"] == 3


def test_messages_name_no_replicates(tmp_path: Path) -> None:
    message = "print(f'Error: {names[1]} has no head', file=sys.stderr, flush=True)"
    make_stand_in(tmp_path, f"{STAND_IN}\nprint(*names)\n{message}\nsys.exit(leave(names[:3]))")
    job = run_staged()
    assert job.status == "failed"
    assert "set 1 has no head" in str(job.status_reason)
    assert_no_foreign_names(job, NAMES)


def test_live_lines_name_no_replicates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\nprint(*names, sep='\\n', flush=True)\ntime.sleep(1)\nleave(names)")
    lines: list[str] = []
    as_json = Publisher._as_json

    def recorded(publisher: Publisher, line: Line) -> str:
        entry = as_json(publisher, line)
        lines.append(json.loads(entry)[1])
        return entry

    monkeypatch.setattr(Publisher, "_as_json", recorded)
    run_staged()
    assert set(NAMES) <= set(lines)
    assert not [line for line in lines if "~" in line]


def test_the_input_of_a_stage_is_what_was_asked_for(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\nleave(names)")
    first, second, last = contents(run_staged(), Artifact.Kind.INPUT)
    assert [text.count("profileset.") for text in (first, second, last)] == [8, 6, 2]
    assert [text.count("twice") for text in (first, second, last)] == [1, 1, 0]


HOSTILE = ["set 1", "set 1~replicate", "set 2~replicate", "set 3~replicate2_", "set 4~replicate~replicate", "set 5"]


@pytest.mark.parametrize("slots", [1, 4])
def test_names_like_those_of_replicates_stay(tmp_path: Path, slots: int) -> None:
    sharded_runs.make_simulator(tmp_path, "print(*names, sep='\\n')")
    sets = "".join(f'profileset."{name}"+=level=1\n' for name in HOSTILE)
    job = sharded_runs.conducted(
        text=f'mage="A"\ncalculate_scale_factors=0\n{sets}', multi_stage=True, csv=True, parallel_slots=slots
    )
    assert job.status == "completed", job.status_reason
    assert figures_of(job).keys() == table_of(job).keys() == summary_of(job).keys() == set(HOSTILE)
    assert set(re.findall("^set .*", contents(job, Artifact.Kind.STDOUT_LOG)[0], re.MULTILINE)) == set(HOSTILE)
    first = json.loads(contents(job, Artifact.Kind.JSON_REPORT)[0])
    assert sorted(each["name"] for each in first["sim"]["profilesets"]["results"]) == sorted(HOSTILE)


def test_a_report_that_is_too_large_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\nleave(names)")
    monkeypatch.setattr(stage_reports, "limited", lambda file, _: limited(file, 1000))
    job = run_staged()
    assert job.status == "completed"
    reason = "The reports of the stages cannot be merged: it would be larger than 1000 bytes."
    assert job.missing_artifacts == [{"kind": "json_report", "stage": None, "reason": reason}]
    first = next(each for each in queries.artifacts_of(job) if each.kind == Artifact.Kind.JSON_REPORT)
    assert first.stage == 1


def test_a_job_without_any_report_has_none(tmp_path: Path) -> None:
    make_stand_in(tmp_path, "sys.exit(3)")
    job = run_staged()
    assert not Artifact.objects.filter(job=job, kind="json_report").exists()
    assert [each["stage"] for each in job.missing_artifacts] == [1]


def test_a_report_of_a_stage_that_cannot_be_read_is_missing(tmp_path: Path) -> None:
    body = "leave(names)\nif error > 1: open('report.json', 'a').write('}')"
    make_stand_in(tmp_path, f"{STAND_IN}\n{body}")
    job = run_staged()
    assert job.status == "failed"
    assert not Artifact.objects.filter(job=job, kind="json_report").exists()
    (entry,) = job.missing_artifacts
    assert (entry["stage"], entry["reason"]) == (1, "It is truncated or not valid JSON.")


def test_a_job_in_a_single_pass_has_the_report_of_the_simulator(tmp_path: Path) -> None:
    text = (
        '{"sim": {"players": [{"name": "A"}],\\n "profilesets": {"results": [{"name": "x~replicate", "mean": 5}]}}}'
    )
    make_stand_in(tmp_path, f"open('report.json', 'w').write('{text}')")
    job = run(text=f"{PROFILE}target_error=1.0\n")
    assert content(job, Artifact.Kind.JSON_REPORT).decode() == text.replace("\\n", "\n")


def test_an_outage_of_the_disk_gives_up_the_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\nleave(names)")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stage_reports.StageReports, "write", full)
    job = run_staged()
    assert not job.is_terminal
    assert not Artifact.objects.filter(job=job).exists()
