"""`manage.py local`: arguments, errors, and whole stacks that leave nothing running."""

import json
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from localstack import cli
from localstack.folder import DataFolder
from localstack.stack import CHECKOUT
from tests.localstack.conftest import eventually, processes_in
from tests.stack import Stack, prepare

pytestmark = pytest.mark.timeout(240)
MARKER = "LOCALSTACK_TEST"
Local = Callable[..., subprocess.Popen[str]]


def test_arguments_have_defaults() -> None:
    arguments = cli.parse_arguments([])
    assert (arguments.port, arguments.data, arguments.demo, arguments.once) == (
        8000,
        CHECKOUT / ".local",
        True,
        False,
    )


def test_every_argument_is_parsed() -> None:
    arguments = cli.parse_arguments(["--port", "0", "--data", "/x", "--no-demo"])
    assert (arguments.port, arguments.data, arguments.demo) == (0, Path("/x"), False)


@pytest.mark.parametrize(
    "argv", [["--port", "65536"], ["--port", "-1"], ["--port", "web"], ["--once", "--no-demo"], ["x"]]
)
def test_invalid_arguments_are_rejected(argv: list[str]) -> None:
    with pytest.raises(SystemExit):
        cli.parse_arguments(argv)


@pytest.fixture
def local() -> Iterator[Local]:
    """Return a function that starts `manage.py local` with a marker, to find its processes."""
    started: list[subprocess.Popen[str]] = []
    unset = {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "DATA_DIR"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}

    def start(*arguments: str, marker: str = "", **settings: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(CHECKOUT / "manage.py"), "local", *arguments]
        pipe = subprocess.PIPE
        started.append(
            subprocess.Popen(
                command, env=environment | {MARKER: marker} | settings, stdout=pipe, stderr=pipe, text=True
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.terminate()
        process.communicate()


def test_a_used_port_is_rejected_before_anything_starts(local: Local, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = local("--data", str(tmp_path), "--port", str(listener.getsockname()[1]))
        output, errors = process.communicate()
    assert process.returncode == 1
    assert output == ""
    assert "cannot be used" in errors
    assert not (tmp_path / "postgres").exists()


def test_a_second_stack_on_the_same_folder_is_rejected(local: Local, tmp_path: Path) -> None:
    with DataFolder(tmp_path).locked():
        process = local("--data", str(tmp_path), "--port", "0")
        output, errors = process.communicate()
    assert (process.returncode, output) == (1, "")
    assert errors.startswith("A stack already runs on")


def test_invalid_settings_are_rejected_before_anything_starts(local: Local, tmp_path: Path) -> None:
    process = local("--data", str(tmp_path), "--port", "0", LEASE_SECONDS="soon", REDIS_URL="redis://:pa/ss@any")
    output, errors = process.communicate()
    assert (process.returncode, output) == (2, "")
    assert errors.startswith("The settings have 2 problems:\n- LEASE_SECONDS is 'soon'")
    assert not (tmp_path / "postgres").exists()


def ready(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    mark, _, ready_json = process.stdout.readline().partition(" ")
    assert mark == "READY", process.communicate()[1]
    addresses: dict[str, Any] = json.loads(ready_json)
    return addresses


def remaining_processes(marker: str, data: Path) -> list[psutil.Process]:
    """Return every process with the marker, and PostgreSQL, which overwrites its environment."""
    return [each for each in psutil.process_iter() if is_marked(each, marker)] + processes_in(data)


def is_marked(process: psutil.Process, marker: str) -> bool:
    with suppress(psutil.Error, OSError):
        return bool(process.environ().get(MARKER) == marker)
    return False


@pytest.mark.slow
def test_two_stacks_run_at_once_and_one_starts_again_after_a_kill(local: Local, tmp_path: Path) -> None:
    markers, folders = [uuid.uuid4().hex, uuid.uuid4().hex], [tmp_path / "one", tmp_path / "two"]
    prepare(folders[1])
    arguments = [("--data", str(each), "--port", "0", "--no-demo") for each in folders]
    stacks = [local(*each, marker=marker) for each, marker in zip(arguments, markers, strict=True)]
    facts = [ready(each) for each in stacks]
    assert len({each[name] for each in facts for name in ("url", "databaseUrl", "redisUrl", "apiKey")}) == 8
    for each in facts:
        assert requests.get(f"{each['url']}/readyz", timeout=10).json()["status"] == "ok"

    for process in remaining_processes(markers[1], folders[1]):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    assert eventually(lambda: remaining_processes(markers[1], folders[1]) == [])
    stacks[1] = local(*arguments[1], marker=markers[1])
    after = ready(stacks[1])
    assert [after[name] for name in ("apiKey", "password")] == [facts[1][name] for name in ("apiKey", "password")]

    for stack in stacks:
        stack.send_signal(signal.SIGTERM)
    assert [(stack.communicate()[0], stack.returncode) for stack in stacks] == [("", 0), ("", 0)]
    assert [remaining_processes(*each) for each in zip(markers, folders, strict=True)] == [[], []]


@pytest.mark.slow
def test_the_demo_is_skipped_if_a_real_build_is_the_newest(local: Local, tmp_path: Path) -> None:
    data, simulator = tmp_path / "data", tmp_path / "build" / "simc"
    prepare(data)
    simulator.parent.mkdir()
    simulator.write_text("#!/bin/sh\necho 'SimulationCraft 1120-01 for World of Warcraft 11.2.0.63003 Live'\n")
    for path, mode in ((tmp_path, 0o755), (simulator.parent, 0o755), (simulator, 0o755)):
        path.chmod(mode)
    first = local("--data", str(data), "--port", "0", "--no-demo")
    stack = Stack(ready(first), process=first, data=data)
    stack.manage("registerbuild", str(simulator), "--branch", "midnight", "--commit", "0ddba11")
    first.terminate()
    first.communicate()

    again = local("--data", str(data), "--port", "0", "--once")
    output, _ = again.communicate()
    assert again.returncode == 0
    assert "The newest build is SimulationCraft 1120-01. No demo job was submitted" in output
    assert "failed" not in output


@pytest.mark.slow
def test_the_demo_job_completes(local: Local, tmp_path: Path) -> None:
    prepare(tmp_path / "data")
    process = local("--data", str(tmp_path / "data"), "--port", "0", "--once")
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "(baseline)" in output
    assert "/share/" in output
    assert "The admin does not require a second factor here" in errors
