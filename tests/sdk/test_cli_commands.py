"""The requests and the output of each command of `simctl`."""

import json
from pathlib import Path
from typing import Any

import pytest

from simservice_client.cli.exits import MEANINGS, Exit
from simservice_client.cli.parser import COMMANDS
from tests.sdk.commands import Simctl
from tests.sdk.fake_service import Answer, Service, example, refusal
from tests.stack import ROOT

RESULT, STATUS = "GET /v1/sim/jobs/{job_id}/result", "GET /v1/sim/jobs/{job_id}/status"
VALIDATE = "POST /v1/sim/jobs/validate"
README = ROOT / "sdk" / "python" / "README.md"


@pytest.fixture
def service(service: Service) -> Service:
    """A service on which every job has ended."""
    completed = {"status": "completed", "queue": None, "logEntries": None}
    service.answers[STATUS] = [Answer(example(STATUS) | completed)]
    return service


def document(simctl: Simctl, *arguments: str, stdin: str = "") -> Any:
    """Return the JSON document that a command prints, and nothing else."""
    done = simctl(*arguments, "--json", stdin=stdin)
    assert done.returncode == Exit.COMPLETED, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("arguments", "operation"),
    [
        (["credits"], "GET /v1/sim/credits"),
        (["usage"], "GET /v1/sim/usage"),
        (["show", "7"], RESULT),
        (["check", "-"], VALIDATE),
    ],
)
def test_json_is_the_object_of_the_api(simctl: Simctl, arguments: list[str], operation: str) -> None:
    assert document(simctl, *arguments, stdin="x") == example(operation)


@pytest.mark.parametrize(
    ("arguments", "operation", "member"),
    [(["list", "--limit", "1"], "GET /v1/sim/jobs", "jobs"), (["builds"], "GET /v1/sim/builds", "builds")],
)
def test_json_of_lists(simctl: Simctl, arguments: list[str], operation: str, member: str) -> None:
    assert document(simctl, *arguments) == example(operation)[member]


def test_json_of_a_job_that_has_not_ended(simctl: Simctl, service: Service) -> None:
    service.answers[RESULT] = [refusal(409, "result_not_ready")]
    assert document(simctl, "show", "7") == example("GET /v1/sim/jobs/{job_id}")


@pytest.mark.parametrize(
    ("action", "code"),
    [("cancel", "job_not_cancellable"), ("pause", "job_not_pausable"), ("resume", "job_not_pausable")],
)
def test_json_of_changes(simctl: Simctl, service: Service, action: str, code: str) -> None:
    service.answers[f"POST /v1/sim/jobs/8/{action}"] = [refusal(409, code)]
    done = simctl(action, "--json", "8", "9")
    assert done.returncode == Exit.REFUSED
    answer = example(f"POST /v1/sim/jobs/{{job_id}}/{action}")
    assert [each["status"] for each in json.loads(done.stdout)] == [answer["status"]]
    assert "job 8: " in done.stderr


@pytest.mark.parametrize(("action", "text"), [("pause", "Job 7 is paused.\n"), ("resume", "Job 7 is queued.\n")])
def test_pausing_and_resuming_say_what_happened(simctl: Simctl, service: Service, action: str, text: str) -> None:
    operation = f"POST /v1/sim/jobs/{{job_id}}/{action}"
    service.answers[operation] = [Answer(example(operation) | {"id": "7"})]
    assert simctl(action, "7").stdout == text


def test_a_paused_job_is_shown_as_paused(simctl: Simctl, service: Service) -> None:
    service.answers[RESULT] = [refusal(409, "result_not_ready")]
    job = "GET /v1/sim/jobs/{job_id}"
    service.answers[job] = [Answer(example(job) | {"status": "queued", "pausedAt": "2026-11-20T08:10:05.000Z"})]
    assert "Paused    since 2026-11-20" in simctl("show", "7").stdout


def test_a_run_prints_a_ranking(simctl: Simctl) -> None:
    done = simctl("run", "-", stdin="x")
    actor = example(RESULT)["result"]["summary"]["mainActor"]
    assert done.returncode == Exit.COMPLETED
    assert f"{actor['name']} (baseline)" in done.stdout
    means = [actor["mean"], *(each["mean"] for each in actor["profilesets"]["results"])]
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert [row[0] for row in rows] == [str(place) for place in range(1, len(means) + 1)]
    assert all(f"{mean:,.0f}" in done.stdout for mean in means)
    assert "+2.5 % ± 0.1" in done.stdout
    assert example(RESULT)["result"]["verdict"]["text"] in done.stdout.splitlines()
    assert example(RESULT)["links"]["share"] in done.stdout


def test_a_run_in_json_has_one_event_in_each_line(simctl: Simctl) -> None:
    done = simctl("run", "-", "--json", stdin="x")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["type"] for event in events] == ["submitted", "status", "result"]
    assert events[2]["result"] == example(RESULT)


def test_every_option_reaches_the_service(simctl: Simctl, service: Service) -> None:
    options = "--priority high --channel weekly --branch midnight --build 7 --no-multi-stage --max-credits 5"
    more = "--max-runtime 6 --max-queue 7 --metadata a=b --metadata c=d=e --webhook --html --csv --json-version 3"
    assert simctl("run", "--no-wait", "-", *options.split(), *more.split(), stdin="x").returncode == 0
    assert service.bodies == [
        {
            "build": {"channel": "weekly", "gitBranch": "midnight", "id": "7"},
            "profile": {"text": "x"},
            "runtime": {"multiStage": False, "maxCredits": 5, "maxRuntimeSeconds": 6, "maxQueueSeconds": 7},
            "priority": "high",
            "metadata": {"a": "b", "c": "d=e"},
            "webhook": {"events": ["job.terminal"]},
            "artifacts": {"html": True, "csv": True, "json": {"version": "3"}},
        }
    ]


def test_nothing_is_sent_for_options_that_are_not_given(simctl: Simctl, service: Service) -> None:
    simctl("check", "-", stdin="x")
    assert service.bodies == [{"build": {"channel": "latest"}, "profile": {"text": "x"}}]


def test_a_check_names_the_estimate_with_its_range(simctl: Simctl) -> None:
    cost = example(VALIDATE)["estimate"]["credits"]
    output = simctl("check", "-", stdin="x").stdout
    assert f"{cost['expected']:,} credits ({cost['low']:,} to {cost['high']:,})" in output


def with_files(service: Service, **contents: bytes) -> None:
    """Let the service have a job with a file of each kind."""
    result = example(RESULT)
    artifact = result["result"]["artifacts"][0]
    result["result"]["artifacts"] = [
        artifact | {"kind": kind, "name": f"../{kind}", "url": f"{service.url}/{kind}", "bytes": len(content)}
        for kind, content in contents.items()
    ]
    service.answers[RESULT] = [Answer(result)]
    service.answers |= {f"GET /{kind}": [Answer(content)] for kind, content in contents.items()}


def test_a_download_stays_in_its_folder(simctl: Simctl, service: Service, tmp_path: Path) -> None:
    with_files(service, csv_report=b"a,b", input=b"x")
    assert document(simctl, "download", "7", str(tmp_path / "out"), "--kind", "input") == {
        "../input": str(tmp_path / "out" / "input")
    }
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["input"]
    assert simctl("download", "7", str(tmp_path / "out")).stdout.count("\n") == 2


def test_a_run_downloads_the_files(simctl: Simctl, service: Service, tmp_path: Path) -> None:
    with_files(service, csv_report=b"a,b")
    (tmp_path / "x.simc").write_text("x")
    assert simctl("run", "-", "--output", str(tmp_path / "one"), stdin="x").returncode == 0
    assert (tmp_path / "one" / "csv_report").read_bytes() == b"a,b"
    files = [str(tmp_path / "x.simc"), str(tmp_path / "x.simc")]
    assert simctl("run", *files, "--output", str(tmp_path / "two")).returncode == 0
    job = example("POST /v1/sim/jobs")["id"]
    assert (tmp_path / "two" / job / "csv_report").read_bytes() == b"a,b"


def test_the_logs_of_a_job_that_has_ended(simctl: Simctl, service: Service) -> None:
    with_files(service, stdout_log=b"one\n\x1b[1mtwo\tx\xff\n", input=b"secret", stderr_log=b"three\n")
    assert simctl("logs", "7").stdout == "one\n\\x1b[1mtwo x\ufffd\nthree\n"
    sources = [entry["source"] for entry in document(simctl, "logs", "7")]
    assert sources == ["stdout", "stdout", "stderr"]


def running(*messages: str) -> Answer:
    entries = [{"source": "stdout", "message": message, "ts": 1} for message in messages]
    return Answer(example(STATUS) | {"status": "running", "logEntries": entries})


def test_the_logs_of_a_running_job_are_followed(simctl: Simctl, service: Service) -> None:
    ended = service.answers[STATUS]
    service.answers[STATUS] = [running("a"), running("a", "b"), running("b", "c"), *ended]
    done = simctl("logs", "-f", "7")
    assert (done.returncode, done.stdout) == (Exit.COMPLETED, "a\nb\nc\n")
    service.answers[STATUS] = [running("a"), *ended]
    done = simctl("logs", "-f", "--json", "7")
    assert [json.loads(line)["message"] for line in done.stdout.splitlines()] == ["a"]


def test_the_logs_of_a_waiting_job(simctl: Simctl, service: Service) -> None:
    service.answers[STATUS] = [Answer(example(STATUS) | {"status": "queued", "logEntries": None})]
    done = simctl("logs", "7")
    assert (done.returncode, done.stdout) == (Exit.COMPLETED, "")
    assert "queued" in done.stderr


def with_means(name: str, mean: float, **profilesets: float) -> Answer:
    """Return a result with an error of 3 for each mean."""
    result = example(RESULT)
    actor = result["result"]["summary"]["mainActor"]
    (figures,) = actor["profilesets"]["results"][:1]
    listed = [figures | {"name": each, "mean": value, "mean_error": 3.0} for each, value in profilesets.items()]
    actor |= {"name": name, "mean": mean, "mean_error": 3.0, "profilesets": {"count": 2, "results": listed}}
    return Answer(result)


def test_a_comparison_matches_names_and_marks_clear_differences(simctl: Simctl, service: Service) -> None:
    service.answers["GET /v1/sim/jobs/1/result"] = [with_means("Mage", 1000.0, hat=1010.0, ring=900.0)]
    service.answers["GET /v1/sim/jobs/2/result"] = [with_means("Mage", 1004.0, hat=1020.0, boots=800.0)]
    rows = {row["name"]: row["figures"] for row in document(simctl, "compare", "1", "2")["rows"]}
    assert list(rows) == ["Mage (baseline)", "hat", "ring", "boots"]
    assert rows["Mage (baseline)"][1] == {
        "mean": 1004.0,
        "meanError": 3.0,
        "percent": pytest.approx(0.4),
        "exceedsError": False,
    }
    assert (rows["hat"][1]["exceedsError"], rows["ring"][1], rows["boots"][0]) == (True, None, None)
    lines = simctl("compare", "1", "2").stdout.splitlines()
    (hat,) = [line for line in lines if line.startswith("hat")]
    assert hat.split() == ["hat", "1,010", "3", "1,020", "3", "+1.0", "%", "±", "0.5", "*"]


def test_a_comparison_counts_names_that_are_not_listed(simctl: Simctl, service: Service) -> None:
    for job, mean in (("1", 1000.0), ("2", 1009.0)):
        result = with_means("Mage", 900.0, hat=mean)
        result.body["result"]["summary"]["mainActor"]["profilesets"]["count"] = 5000
        service.answers[f"GET /v1/sim/jobs/{job}/result"] = [result]
    (_, row) = document(simctl, "compare", "1", "2")["rows"]
    assert row["figures"][1]["exceedsError"] is False


def test_jobs_with_different_metrics_are_not_compared(simctl: Simctl, service: Service) -> None:
    for job, metric in (("1", "dps"), ("2", "raid_dps")):
        result = with_means("Mage", 1000.0)
        result.body["result"]["summary"]["metric"] = metric
        service.answers[f"GET /v1/sim/jobs/{job}/result"] = [result]
    done = simctl("compare", "1", "2")
    assert done.returncode == Exit.NOT_COMPLETED
    assert "different metrics" in done.stderr


def test_a_comparison_uses_what_replicates_showed(simctl: Simctl, service: Service) -> None:
    first, second = with_means("Mage", 1000.0, hat=1010.0), with_means("Mage", 1004.0, hat=1020.0)
    second.body["result"]["summary"]["multiStage"]["widening"] = 3.0
    service.answers["GET /v1/sim/jobs/1/result"] = [first]
    service.answers["GET /v1/sim/jobs/2/result"] = [second]
    lines = simctl("compare", "1", "2").stdout.splitlines()
    (hat,) = [line for line in lines if line.startswith("hat")]
    assert hat.split() == ["hat", "1,010", "3", "1,020", "3", "+1", "%", "±", "2"]


def test_a_comparison_without_known_errors_marks_nothing(simctl: Simctl, service: Service) -> None:
    for job, mean in (("1", 1000.0), ("2", 1100.0)):
        result = with_means("Mage", mean)
        result.body["result"]["summary"]["mainActor"]["mean_error"] = 0.0
        service.answers[f"GET /v1/sim/jobs/{job}/result"] = [result]
    (row,) = document(simctl, "compare", "1", "2")["rows"]
    assert row["figures"][1]["exceedsError"] is False


def test_a_list_is_filtered_and_ends_at_its_limit(simctl: Simctl, service: Service) -> None:
    page = example("GET /v1/sim/jobs")
    page["jobs"] = 10 * page["jobs"][:1]
    page["page"] |= {"hasMore": True, "nextCursor": "next"}
    service.answers["GET /v1/sim/jobs"] = [Answer(page)]
    assert len(document(simctl, "list", "--limit", "15", "--status", "failed", "--status", "timed_out")) == 15
    assert len(service.requests) == 2
    assert "limit=15&status=failed%2Ctimed_out" in service.queries[0]
    simctl("list", "--since", "2026-01-31T00:00Z")
    assert "createdAfter=2026-01-31T00%3A00%3A00.000Z" in service.queries[-1]


def test_the_readme_lists_every_command_and_exit_status() -> None:
    text = README.read_text()
    assert [name for name in COMMANDS if f"`simctl {name}" not in text] == []
    assert [meaning for status, meaning in MEANINGS.items() if f"| {status.value} | {meaning} |" not in text] == []


def test_the_help_lists_the_exit_statuses(simctl: Simctl) -> None:
    output = simctl("--help").stdout
    assert [meaning for meaning in MEANINGS.values() if meaning not in output] == []
