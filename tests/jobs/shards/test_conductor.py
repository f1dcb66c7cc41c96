"""Jobs that complete in shards: their results, artifacts and costs are those of one process."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from jobs.execution import conductor, shard_plan
from jobs.models import Artifact, Build, Job, Run
from jobs.queue import announcements
from jobs.results import details
from tests.jobs.shards.sharded_runs import (
    NAMES,
    PROFILE,
    RATE,
    RESULTS,
    SETS,
    assert_nothing_left,
    conducted,
    make_simulator,
    results_of,
)
from tests.jobs.simulators import content, contents

pytestmark = pytest.mark.django_db(transaction=True)

STAGED = f'mage="A"\n{SETS}'


def report_of(job: Job) -> Any:
    return json.loads(content(job, Artifact.Kind.JSON_REPORT))


def by_name(report: Any) -> dict[str, Any]:
    return {entry["name"]: entry for entry in report["sim"]["profilesets"]["results"]}


def assert_billed_for_counting_tries(job: Job) -> None:
    runs = Run.objects.filter(job=job).exclude(stopped_for="lost")
    assert job.sim_duration_ms == sum(run.wall_ms or 0 for run in runs)
    assert job.credits_consumed == -(-job.sim_duration_ms // 1000) * RATE


@pytest.mark.parametrize("helpers", [0, 1, 3])
def test_a_job_runs_in_its_slots(tmp_path: Path, helpers: int) -> None:
    make_simulator(tmp_path, seconds=0.4)
    job = conducted(helpers=helpers)
    assert (job.status, job.status_reason, job.simulator_exit_code) == ("completed", None, "0")
    assert job.slots_used == 1 + helpers
    assert results_of(job) == RESULTS
    assert sorted(Run.objects.values_list("shard", "try_number")) == [(number, 1) for number in range(5)]
    assert_billed_for_counting_tries(job)
    assert_nothing_left(job)


def test_more_helpers_than_slots_do_not_help(tmp_path: Path) -> None:
    make_simulator(tmp_path, seconds=0.3)
    job = conducted(helpers=4, parallel_slots=2)
    assert (job.status, job.slots_used) == ("completed", 2)


def test_the_result_is_that_of_one_process(tmp_path: Path) -> None:
    make_simulator(tmp_path)
    alone, job = conducted(parallel_slots=1), conducted(helpers=1)
    assert (alone.slots_used, job.summary) == (1, alone.summary)
    one, merged = report_of(alone), report_of(job)
    assert by_name(merged) == by_name(one)
    assert merged["sim"]["statistics"]["elapsed_time_seconds"] > one["sim"]["statistics"]["elapsed_time_seconds"]
    for report in (one, merged):
        del report["sim"]["profilesets"]["results"], report["sim"]["statistics"]
    assert merged == one


def test_the_input_is_the_one_submitted_and_says_that_shards_ran(tmp_path: Path) -> None:
    make_simulator(tmp_path)
    alone, job = conducted(parallel_slots=1), conducted()
    one, merged = (content(each, Artifact.Kind.INPUT).decode() for each in (alone, job))
    assert merged.removeprefix(one) == ("# The service split this stage into 5 shards with the same profilesets.\n")


def test_logs_have_headings(tmp_path: Path) -> None:
    make_simulator(tmp_path, "print('sets:', len(names))")
    log = content(conducted(helpers=1), Artifact.Kind.STDOUT_LOG).decode().splitlines()
    assert log == ["[shard 1 of 5]", "sets: 12"] + [
        line for n in range(2, 6) for line in (f"[shard {n} of 5]", "sets: 3")
    ]


def test_the_csv_report_lists_every_profileset_once(tmp_path: Path) -> None:
    make_simulator(tmp_path)
    table = content(conducted(csv=True), Artifact.Kind.CSV_REPORT).decode()
    rows = list(csv.reader(io.StringIO(table, newline="")))
    assert [row[0] for row in rows] == ["name", "A", *reversed(NAMES)]


def test_warnings_of_several_shards_are_listed_once(tmp_path: Path) -> None:
    make_simulator(tmp_path, "print('Unknown option foo', file=sys.stderr)")
    job = conducted(helpers=1)
    assert job.summary is not None
    assert len(job.summary["warnings"]) == 1


def test_a_deterministic_job_is_equal_to_one_pass(minisim: Build) -> None:
    text = f"{PROFILE}deterministic=1\n"
    whole, sharded = conducted(text=text, parallel_slots=1), conducted(text=text, helpers=2)
    assert details.document_of(sharded) == details.document_of(whole) is not None
    one, merged = report_of(whole), report_of(sharded)
    assert by_name(merged) == by_name(one)
    assert merged["sim"]["players"] == one["sim"]["players"]
    assert len(by_name(merged)) == 12


def test_a_report_of_version_3_is_merged(minisim: Build) -> None:
    job = conducted(helpers=1, json_version=3)
    assert (job.status, job.slots_used) == ("completed", 2)
    report = report_of(job)
    assert report["report_version"].startswith("3")
    assert by_name(report).keys() == set(NAMES)


def test_a_job_in_stages_runs_each_in_shards(tmp_path: Path) -> None:
    make_simulator(tmp_path, seconds=0.1)
    job = conducted(helpers=1, text=STAGED, multi_stage=True, csv=True)
    assert (job.status, job.slots_used) == ("completed", 2)
    assert results_of(job).keys() == set(NAMES)
    assert set(Run.objects.filter(shard__gt=0).values_list("stage", flat=True)) >= {1, 2}
    assert len(contents(job, Artifact.Kind.JSON_REPORT)) == 4
    assert_billed_for_counting_tries(job)
    assert_nothing_left(job)


def test_later_stages_use_the_times_of_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_simulator(tmp_path, seconds=0.1)
    expected: list[float | None] = []

    reason_not_sharded = shard_plan.reason_not_sharded

    def recorded(*args: Any, expected_seconds: float | None, **fields: Any) -> Any:
        expected.append(expected_seconds)
        return reason_not_sharded(*args, expected_seconds=expected_seconds, **fields)

    monkeypatch.setattr(shard_plan, "reason_not_sharded", recorded)
    assert conducted(text=STAGED, multi_stage=True).status == "completed"
    assert expected[0] is None
    assert len(expected) == 3
    assert all(seconds is not None and seconds > 0 for seconds in expected[1:])


def test_stages_in_shards_cull_like_one_process(tmp_path: Path) -> None:
    make_simulator(tmp_path)
    jobs = [conducted(parallel_slots=slots, text=STAGED, multi_stage=True) for slots in (1, 4)]
    alone, job = (each.summary for each in jobs)
    assert alone is not None
    assert job == alone
    assert len(alone["multiStage"]["stages"]) == 3


def test_replicates_run_in_shards(tmp_path: Path) -> None:
    make_simulator(tmp_path, "print(*names, sep='\\n')")
    job = conducted(text=STAGED, multi_stage=True)
    first = contents(job, Artifact.Kind.STDOUT_LOG)[0].partition("[shard 2")[2]
    assert sorted(re.findall("set .*", first)) == sorted([*NAMES, *NAMES])


def test_the_stage_with_the_html_report_runs_whole(tmp_path: Path) -> None:
    make_simulator(tmp_path, "if 'html=report.html' in sys.argv: open('report.html', 'w').write('page')")
    job = conducted(helpers=1, text=STAGED, multi_stage=True, html=True)
    assert (job.status, job.slots_used, job.missing_artifacts) == ("completed", 2, [])
    assert content(job, Artifact.Kind.HTML_REPORT) == b"page"
    assert set(Run.objects.filter(stage=3).values_list("shard", flat=True)) == {0}
    assert_billed_for_counting_tries(job)
    assert_nothing_left(job)


def test_a_profileset_may_do_nothing_in_its_only_iteration_of_the_first_shard(tmp_path: Path) -> None:
    make_simulator(tmp_path, "if is_first: names = names[1:]")
    job = conducted()
    assert job.status == "completed"
    assert results_of(job).keys() == set(NAMES)


def test_helpers_are_woken_when_the_job_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process ends before the first periodic observation."""
    make_simulator(tmp_path)
    monkeypatch.setattr(conductor, "OBSERVE_SECONDS", 60.0)
    woken = list[tuple[int, int]]()
    monkeypatch.setattr(announcements, "wake", lambda lane, *, slots: woken.append((lane, slots)))
    job = conducted()
    assert job.status == "completed"
    assert woken[0] == (job.priority, 3)


def test_no_shard_of_a_deterministic_simulation_runs_twice(tmp_path: Path) -> None:
    """With two threads, the simulator reports half of the iterations of each profileset."""
    make_simulator(tmp_path, "counts.update({name: max(1, count // 2) for name, count in counts.items()})")
    job = conducted(helpers=1, vcpus=2, text=f"{PROFILE}deterministic=1\n")
    assert (job.status, len(results_of(job))) == ("completed", len(NAMES))
    assert set(Run.objects.values_list("try_number", flat=True)) == {1}
