"""`simctl` against a whole stack."""

import json
from pathlib import Path
from typing import Any

import pytest

from simservice_client.cli.exits import Exit
from tests.sdk.commands import Simctl
from tests.stack import LONG, QUICK, ROOT, Stack

pytestmark = [pytest.mark.xdist_group("api"), pytest.mark.timeout(300)]
GEAR = ROOT / "minisim" / "profiles" / "frost_mage_gear.simc"


@pytest.fixture(scope="module")
def simctl(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Simctl:
    """The command after a login."""
    logged_in = Simctl.of(tmp_path_factory.mktemp("home"))
    done = logged_in("login", "--url", stack.ready["url"], "--key-stdin", stdin=stack.ready["apiKey"])
    assert (done.returncode, done.stderr) == (Exit.COMPLETED, "")
    return logged_in


def document(simctl: Simctl, *arguments: str) -> Any:
    done = simctl(*arguments, "--json")
    assert done.returncode == Exit.COMPLETED, done.stderr
    return json.loads(done.stdout)


def submitted(simctl: Simctl, text: str, *arguments: str) -> str:
    """Submit a job and return its id."""
    done = simctl("run", "-", "--no-wait", *arguments, stdin=text)
    assert done.returncode == Exit.COMPLETED, done.stderr
    return done.stdout.strip()


def test_a_ranking_on_a_terminal(simctl: Simctl, tmp_path: Path) -> None:
    with simctl.on_terminal("run", str(GEAR), "--output", str(tmp_path / "files"), columns=100) as terminal:
        assert terminal.wait() == Exit.COMPLETED
    assert "frost_mage_gear.simc" in terminal.output
    assert "Frost Mage (baseline)" in terminal.output
    assert "Trinket: Frozen Hourglass" in terminal.output
    assert (tmp_path / "files" / "report.json").stat().st_size


def test_several_files_run_at_once(simctl: Simctl, tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("a.simc", "b.simc")]
    for path in files:
        Path(path).write_text(QUICK)
    done = simctl("run", "--json", "--metadata", "test=batch", *files)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == Exit.COMPLETED
    assert [event["file"] for event in events if event["type"] == "submitted"] == files
    assert [event["file"] for event in events if event["type"] == "result"] == files
    results = [event["result"] for event in events if event["type"] == "result"]
    assert [result["metadata"] for result in results] == 2 * [{"test": "batch"}]


def test_a_job_from_start_to_end(simctl: Simctl, stack: Stack, tmp_path: Path) -> None:
    job = submitted(simctl, QUICK, "--html", "--priority", "background")
    stack.wait_for_end(job)
    shown = document(simctl, "show", job)
    assert (shown["status"], shown["priority"]) == ("completed", "background")
    assert job in [each["id"] for each in document(simctl, "list", "--status", "completed", "--since", "1h")]
    files = document(simctl, "download", job, str(tmp_path))
    assert {Path(path).name for path in files.values()} >= {"report.json", "report.html", "input.simc"}
    assert "minisim" in simctl("logs", job).stdout
    (row,) = document(simctl, "compare", job, job)["rows"]
    assert [figure["percent"] for figure in row["figures"]] == [None, 0]
    assert simctl("cancel", job).returncode == Exit.REFUSED


def test_a_long_job_is_followed_and_cancelled(simctl: Simctl, stack: Stack) -> None:
    job = submitted(simctl, LONG, "--no-multi-stage")
    stack.wait(job, lambda known: known["status"] == "running", seconds=60)
    assert simctl("download", job).returncode == Exit.REFUSED
    with simctl.on_terminal("logs", "-f", job) as terminal:
        terminal.wait_for("minisim")
        assert simctl("cancel", job).stdout == f"Job {job} is being cancelled.\n"
        assert terminal.wait() == Exit.COMPLETED
    assert f"job {job} cancelled" in terminal.output
    assert document(simctl, "show", job)["status"] == "cancelled"


def test_ctrl_c_cancels_a_running_job(simctl: Simctl, stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "long.simc").write_text(LONG)
    with simctl.on_terminal("run", str(tmp_path / "long.simc"), columns=100) as terminal:
        terminal.wait_for("%")
        terminal.type("\x03")
        terminal.wait_for("[y/N] ")
        terminal.type("y\n")
        assert terminal.wait() == Exit.INTERRUPTED
    job = terminal.output.partition("submitted as job ")[2].split()[0]
    assert stack.wait_for_end(job)["status"] == "cancelled"


def test_a_refused_profile(simctl: Simctl) -> None:
    text = f"{QUICK}output=/etc/passwd\n"
    done = simctl("check", "-", stdin=text)
    assert done.returncode == Exit.NOT_COMPLETED
    assert "standard input:4: output=/etc/passwd: it writes a file" in done.stderr
    assert simctl("run", "-", stdin=text).returncode == Exit.REFUSED


def test_an_accepted_profile(simctl: Simctl) -> None:
    done = simctl("check", str(GEAR))
    assert (done.returncode, done.stderr) == (Exit.COMPLETED, "")
    assert "Variants  12\n" in done.stdout


def test_the_account(simctl: Simctl, stack: Stack) -> None:
    assert document(simctl, "credits")["grants"]
    assert document(simctl, "usage")["plan"]["maxActiveJobs"] > 0
    assert {build["channel"] for build in document(simctl, "builds")} == {"latest", "nightly", "weekly"}
    for command in ("credits", "usage", "builds", "list"):
        assert simctl(command).returncode == Exit.COMPLETED


def test_a_wrong_key(simctl: Simctl) -> None:
    done = simctl.with_variables(SIMSERVICE_API_KEY="sk_wrong")("list")
    assert (done.returncode, done.stderr) == (Exit.REFUSED, "simctl: The API key is invalid. (invalid_token)\n")
