"""Run directories are removed after their run, however it ends."""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from jobs.artifacts.credentials import GameCredentials
from jobs.execution import directories, runner
from jobs.execution.directories import private_directory, remove_leftovers, runs
from simc import command
from tests.localstack.conftest import eventually

Start = Callable[..., subprocess.Popen[str]]

OWN_HOST = socket.gethostname()
HOSTS = pytest.mark.parametrize("host", [OWN_HOST, "another-container"])

HOLD = """
with private_directory() as directory:
    (directory.cwd / "apikey.txt").write_text("id:secret")
    print(directory.root, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _own_data(settings: Settings, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a fake worker that runs a script under its own host name."""
    with ExitStack() as started:

        def start(script: str, *, host: str = OWN_HOST) -> subprocess.Popen[str]:
            lines = (
                "import os, signal, socket, sys, time",
                f"socket.gethostname = lambda: {host!r}",
                "from jobs.execution import directories",
                "from jobs.execution.directories import private_directory, remove_leftovers",
            )
            process = subprocess.Popen(
                [sys.executable, "-c", "\n".join([*lines, script])],
                env=os.environ | {"DATA_DIR": str(runs().parent), "DJANGO_SETTINGS_MODULE": "simservice.settings"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            started.enter_context(process)
            started.callback(process.kill)
            return process

        yield start


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def directory_of(process: subprocess.Popen[str]) -> Path:
    """Return the directory of a fake worker once it exists."""
    directory = Path(line_of(process))
    assert directory.is_dir()
    return directory


def create_leftovers(number: int) -> None:
    """Create the leftovers of killed workers: folders with files, and unlocked lock files."""
    runs().mkdir(parents=True, exist_ok=True)
    for each in range(number):
        prepared = runs().parent / "made"
        (prepared / "run-x" / "work" / "run").mkdir(parents=True)
        (prepared / "run-x" / "work" / "run" / "apikey.txt").write_text("id:secret")
        prepared.rename(runs() / f"gone.{each}")  # at once: a sweep may be under way
        (runs() / f"gone.{each}.lock").touch()


def test_a_run_removes_its_directory() -> None:
    with private_directory() as directory:
        (directory.cwd / "report").touch()
    assert list(runs().iterdir()) == []


@HOSTS
def test_leftovers_of_a_killed_worker_are_removed(start: Start, host: str) -> None:
    worker = start(HOLD, host=host)
    directory = directory_of(worker)
    assert directory.name.startswith(f"{host}.{worker.pid}.")
    worker.kill()
    worker.wait()
    assert len(list(directory.rglob("apikey.txt"))) == 1
    remove_leftovers()
    assert list(runs().iterdir()) == []


@HOSTS
def test_the_directory_of_a_live_run_is_never_removed(start: Start, host: str) -> None:
    directory = directory_of(start(HOLD, host=host))
    remove_leftovers()
    assert len(list(directory.rglob("apikey.txt"))) == 1


def test_a_paused_worker_keeps_its_directory(start: Start) -> None:
    worker = start(HOLD)
    directory = directory_of(worker)
    worker.send_signal(signal.SIGSTOP)
    remove_leftovers()
    assert directory.is_dir()


def test_a_process_does_not_remove_its_own_live_run() -> None:
    with private_directory() as directory:
        remove_leftovers()
        assert directory.cwd.is_dir()


def test_a_folder_whose_lock_is_gone_is_removed() -> None:
    (runs() / f"{OWN_HOST}.{os.getpid()}" / "run-x").mkdir(parents=True)
    remove_leftovers()
    assert list(runs().iterdir()) == []


def test_a_sweep_without_runs_does_nothing() -> None:
    remove_leftovers()
    assert not runs().exists()


@pytest.mark.parametrize("name", ["planted", "planted.lock"])
def test_a_planted_link_is_removed_and_not_followed(tmp_path: Path, name: str) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o750)
    (target / "kept").touch()
    runs().mkdir()
    (runs() / name).symlink_to(target)
    remove_leftovers()
    assert list(runs().iterdir()) == []
    assert (target / "kept").exists()
    assert target.stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("name", ["planted", "planted.lock"])
def test_a_planted_link_to_a_file_is_removed_and_not_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "kept").write_text("kept")
    runs().mkdir()
    (runs() / name).symlink_to(tmp_path / "kept")
    remove_leftovers()
    assert list(runs().iterdir()) == []
    assert (tmp_path / "kept").read_text() == "kept"


def test_a_link_in_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    create_leftovers(3)
    (runs() / "planted").mkdir()
    (runs() / "planted.lock").symlink_to(tmp_path / "absent")
    remove_leftovers()
    assert {each.name for each in runs().iterdir()} <= {"planted"}
    remove_leftovers()
    assert list(runs().iterdir()) == []
    assert not (tmp_path / "absent").exists()


def test_a_sweep_before_the_lock_only_costs_a_new_name(monkeypatch: pytest.MonkeyPatch) -> None:
    flock = fcntl.flock
    first: list[bool] = []

    def raced(file: Any, operation: int) -> None:
        if not first:
            first.append(True)
            remove_leftovers()
            assert list(runs().iterdir()) == []
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", raced)
    with private_directory() as directory:
        remove_leftovers()
        assert directory.cwd.is_dir()
        assert len(list(runs().iterdir())) == 2


def test_a_sweep_between_locking_and_making_removes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    mkdir = Path.mkdir

    def raced(self: Path, *arguments: Any, **options: Any) -> None:
        remove_leftovers()
        mkdir(self, *arguments, **options)
        remove_leftovers()

    monkeypatch.setattr(Path, "mkdir", raced)
    with private_directory() as directory:
        assert directory.cwd.is_dir()


RACE = """
print("ready", flush=True)
sys.stdin.readline()
remove_leftovers()
"""


def test_concurrent_sweeps_remove_only_dead_runs(start: Start) -> None:
    create_leftovers(50)
    directory = directory_of(start(HOLD))
    sweepers = [start(RACE) for _ in range(3)]
    assert [line_of(each) for each in sweepers] == ["ready"] * 3
    for each in sweepers:
        each.communicate("go\n")
    assert [each.returncode for each in sweepers] == [0, 0, 0]
    assert set(runs().iterdir()) == {directory, directories.lock_of(directory)}


STRESS = """
deadline = time.monotonic() + 2
while time.monotonic() < deadline:
    with private_directory() as directory:
        remove_leftovers()
        (directory.cwd / "apikey.txt").write_text("id:secret")
        assert (directory.cwd / "apikey.txt").exists()
"""


def test_runs_that_start_during_sweeps_keep_their_directory(start: Start) -> None:
    workers = [start(STRESS) for _ in range(4)]
    assert [each.wait() for each in workers] == [0, 0, 0, 0]
    assert list(runs().iterdir()) == []


KILLED_AT = """
original = os.{name}
count = 0
def killed(*arguments, **options):
    global count
    count += 1
    if count > {after}:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*arguments, **options)
os.{name} = killed
remove_leftovers()
"""


@pytest.mark.parametrize("point", [("unlink", 0), ("unlink", 1), ("rmdir", 0), ("rmdir", 1), ("rmdir", 3)])
def test_a_sweep_that_was_killed_is_finished_by_the_next(start: Start, point: tuple[str, int]) -> None:
    create_leftovers(1)
    name, after = point
    assert start(KILLED_AT.format(name=name, after=after)).wait() == -signal.SIGKILL
    assert list(runs().iterdir()) != []
    remove_leftovers()
    assert list(runs().iterdir()) == []


def test_a_live_worker_removes_leftovers_of_its_own_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(_: Path) -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(directories, "remove_tree", busy)
        with private_directory() as directory:
            pass
    assert directory.cwd.is_dir()
    remove_leftovers()
    assert list(runs().iterdir()) == []


def test_a_run_that_raised_leaves_nothing() -> None:
    with pytest.raises(ZeroDivisionError), private_directory():
        raise ZeroDivisionError
    assert list(runs().iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sim", "control", "webhooks"])
def test_workers_of_any_kind_remove_leftover_credentials(start: Start, kind: str) -> None:
    with private_directory() as directory:
        credentials = GameCredentials(client_id="id", client_secret="secret")
        runner.prepare(directory, "", credentials=credentials)
        shutil.copytree(directory.root, runs() / "killed" / "run-x")
    assert len(list(runs().rglob(command.CREDENTIALS_NAME))) == 1
    options = ["--queues", "nobody", "--hostname", f"{kind}@here", "--pool", "threads", "--loglevel", "error"]
    start(f"from simservice.celery import app\napp.worker_main({['worker', *options]})")
    assert eventually(lambda: list(runs().iterdir()) == [], seconds=30)


FAIL_ONCE = """
sweep, failures = remove_leftovers, iter([OSError()])
def failing():
    for failure in failures:
        raise failure
    sweep()
directories.remove_leftovers, directories.SWEEP_SECONDS = failing, 0.05
directories.sweep_leftovers()
sys.stdin.read()
"""


def test_a_failed_sweep_is_retried(start: Start) -> None:
    start(FAIL_ONCE)
    create_leftovers(1)
    assert eventually(lambda: list(runs().iterdir()) == [])


def test_the_sweep_is_repeated_while_a_worker_lives(start: Start) -> None:
    sweeper = start(
        "directories.SWEEP_SECONDS = 0.05\ndirectories.sweep_leftovers()\nprint('ready', flush=True)\n"
        "sys.stdin.read()"
    )
    assert line_of(sweeper) == "ready"
    for _ in range(2):
        create_leftovers(1)
        assert eventually(lambda: list(runs().iterdir()) == [])


def test_a_scratch_folder_is_kept_while_it_is_used() -> None:
    with directories.scratch_folder() as folder:
        remove_leftovers()
        assert folder.is_dir()
    assert not list(runs().iterdir())
