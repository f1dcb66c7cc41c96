"""The guides for API consumers, followed on a real stack."""

import ast
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dashboard.public.documents import FILES, INDEX
from tests.docs.guide_runs import FOLDER, ROOT, Shell, blocks_of, follow, matches, shell_in
from tests.docs.typescript import provide_node
from tests.npm import Missing
from tests.stack import LONG, QUICK, Stack

pytestmark = [pytest.mark.xdist_group("api"), pytest.mark.timeout(300)]
PREPARE, TYPESCRIPT = "Prepare a folder", "TypeScript"


@pytest.fixture(scope="module")
def prepared(values: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell in the tutorial's folder, beside the part of a clone that it uses."""
    clone = tmp_path_factory.mktemp("clone")
    ignored = shutil.ignore_patterns("*.egg-info", "__pycache__", "build")
    shutil.copytree(ROOT / "sdk" / "python", clone / "sdk" / "python", ignore=ignored)
    with shell_in(clone, {}) as shell:
        follow("tutorial/first-result", shell, values, only={PREPARE})
        yield shell


def test_the_tutorial_works(prepared: Shell, values: dict[str, str]) -> None:
    follow("tutorial/first-result", prepared, values, without={PREPARE, TYPESCRIPT})


def test_the_typescript_program_works(prepared: Shell, values: dict[str, str], tmp_path: Path) -> None:
    try:
        provide_node(tmp_path)
    except Missing as missing:
        pytest.skip(str(missing))
    prepared.run(f"PATH={tmp_path}:$PATH")
    follow("tutorial/first-result", prepared, values, only={TYPESCRIPT})


def in_checkout(stack: Stack) -> dict[str, str]:
    """Return the environment of the recipes: that of the tutorial, with the library of this checkout."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    reached = {"SIMSERVICE_URL": stack.ready["url"], "SIMSERVICE_API_KEY": stack.ready["apiKey"]}
    return {**reached, "PATH": path, "PYTHONPATH": str(ROOT / "sdk" / "python" / "src")}


@pytest.fixture
def shell(stack: Stack, tmp_path: Path) -> Iterator[Shell]:
    with shell_in(tmp_path, in_checkout(stack)) as started:
        yield started


def test_trinkets_are_compared(shell: Shell, values: dict[str, str]) -> None:
    follow("how-to/compare-trinkets", shell, values)


def test_a_regression_changes_the_exit_status(shell: Shell, values: dict[str, str], tmp_path: Path) -> None:
    follow("how-to/nightly-regression", shell, values)
    last_night = tmp_path / "results" / "2000-01-01.json"
    results = json.loads(last_night.read_text())
    results["mage"]["mean"] *= 1.02
    last_night.write_text(json.dumps(results))
    assert matches(
        "mage -1.96% CHANGED (same build)\nwarrior +0.00% unchanged (same build)\nExit status: 1",
        shell.run('python nightly.py || echo "Exit status: $?"'),
    )


def test_a_backfill_works(shell: Shell, values: dict[str, str]) -> None:
    follow("how-to/backfill", shell, values)


def test_existing_tools_work(shell: Shell, values: dict[str, str]) -> None:
    follow("how-to/use-existing-tools", shell, values)


def test_a_report_is_read_from_its_share_link(shell: Shell, values: dict[str, str]) -> None:
    follow("how-to/read-reports", shell, values)


def test_a_killed_backfill_resumes_without_second_jobs(
    stack: Stack, values: dict[str, str], tmp_path: Path
) -> None:
    write_inbox(tmp_path, jobs=12)
    earlier = job_ids(stack)
    program = subprocess.Popen([sys.executable, "backfill.py"], cwd=tmp_path, env=in_checkout(stack))
    while len(list((tmp_path / "results").glob("*.json"))) < 3:
        assert program.poll() is None
        time.sleep(0.05)
    program.kill()
    program.wait()
    assert run_backfill(stack, tmp_path) == "12 results, 0 failures\n"
    assert len(job_ids(stack) - earlier) == 12


@pytest.fixture
def two_active_jobs(stack: Stack) -> Iterator[None]:
    """Let the account have two unfinished jobs only, when those of other tests have ended."""
    stack.wait_for_all_ends()
    with psycopg.connect(stack.ready["databaseUrl"]) as connection:
        connection.execute("UPDATE billing_plan SET max_active_jobs = 2")
    yield
    stack.lift_limits()


def test_a_backfill_waits_while_the_account_has_too_many_jobs(
    stack: Stack, two_active_jobs: None, tmp_path: Path
) -> None:
    write_inbox(tmp_path, jobs=3)
    blocking = [stack.submit(LONG) for _ in range(2)]
    program = subprocess.Popen([sys.executable, "backfill.py"], cwd=tmp_path, env=in_checkout(stack))
    time.sleep(3)
    assert program.poll() is None
    for job in blocking:
        stack.call("POST", f"jobs/{job}/cancel")
    assert program.wait(120) == 0


def write_inbox(folder: Path, *, jobs: int) -> None:
    """Save the program and some profiles that no other test submits."""
    text = (FOLDER / "how-to" / "backfill.md").read_text(encoding="utf-8")
    (program,) = [block.text for block in blocks_of(text) if block.file == "backfill.py"]
    (folder / "backfill.py").write_text(program)
    (folder / "inbox").mkdir()
    for number in range(jobs):
        (folder / "inbox" / f"{number}.simc").write_text(f"{QUICK}# {folder.name} {number}\n")


def run_backfill(stack: Stack, folder: Path) -> str:
    """Run the program to its end, and return what it prints."""
    command = [sys.executable, "backfill.py"]
    done = subprocess.run(
        command, cwd=folder, env=in_checkout(stack), check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def job_ids(stack: Stack) -> set[str]:
    """Return the ids of the account's last 100 jobs."""
    return {job["id"] for job in stack.call("GET", "jobs?limit=100")["jobs"]}


def test_every_guide_is_followed_by_a_test() -> None:
    guides = {file.removesuffix(".md") for name, file in FILES.items() if name != INDEX}
    files = Path(__file__).parent.glob("test_*.py")
    assert guides - set().union(*(followed_by_tests(file.read_text(encoding="utf-8")) for file in files)) == set()


def followed_by_tests(source: str) -> set[str]:
    """Return the guides that the test functions of a file follow, with at most some sections left out."""
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    tests = [function for function in functions if function.name.startswith("test_")]
    calls = [node for test in tests for node in ast.walk(test) if isinstance(node, ast.Call)]
    whole = [call for call in calls if all(keyword.arg != "only" for keyword in call.keywords)]
    return {ast.unparse(call.args[0]).strip("'") for call in whole if ast.unparse(call.func) == "follow"}


@pytest.mark.parametrize(
    ("expected", "output", "is_same"),
    [
        ("Frosty 25614 DPS", "Frosty 31,022.5 DPS\n", True),
        ("Exit status: 0", "Exit status: 1", False),
        ('{"id":"12",…}', '{"id":"1795", "x": {}}', True),
        ("+1.0% better", "+1.0% worse", False),
        ("…\ncompleted\n", "queued\nrunning\ncompleted\n", True),
        ("…\ncompleted\n", "queued\nfailed\n", False),
        ("Share page: …\n…\ncompleted\n", "Share page: x\ncompleted\n", True),
        ("Share page: …\n…\ncompleted\n", "Share page: x\nfailed\n", False),
    ],
)
def test_outputs_are_compared_loosely(expected: str, output: str, *, is_same: bool) -> None:
    assert matches(expected, output) is is_same


def test_a_failing_command_fails_the_guide(tmp_path: Path) -> None:
    with shell_in(tmp_path, {}) as shell, pytest.raises(AssertionError, match="The command failed"):
        shell.run("false\necho unreachable")
