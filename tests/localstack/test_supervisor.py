"""The supervisor restarts programs that end and leaves no process running."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from localstack import supervisor as module
from localstack.console import LocalStackError
from localstack.supervisor import Program, Supervisor, shell
from tests.localstack.conftest import eventually, processes_in

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + SLEEP
# A child in its own session, as a worker starts simulators.
PARENT_OF_STRAY = (
    f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True);" + SLEEP
)
PRINT_END_TIME = """
import signal, sys, time
def end(*_):
    time.sleep(globals().get("LATER", 0))
    sys.exit(print(time.time()))
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
time.sleep(600)
"""
MakeProgram = Callable[[str], Program]


def starts(program: Program) -> int:
    return program.log.read_text().count("up")


def test_a_killed_program_is_restarted(
    supervisor: Supervisor, program: MakeProgram, capsys: pytest.CaptureFixture[str]
) -> None:
    sleeper = program(SLEEP)
    supervisor.start(sleeper)
    assert eventually(lambda: starts(sleeper) == 1)
    processes_in(sleeper.folder)[0].kill()
    supervisor.watch(1.6)
    assert eventually(lambda: starts(sleeper) == 2)
    assert "program ended with status -9" in capsys.readouterr().err


def test_a_crashing_program_is_restarted_with_growing_delays(
    supervisor: Supervisor, program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MIN_DELAY_SECONDS", 0.0625)
    monkeypatch.setattr(module, "MAX_DELAY_SECONDS", 0.25)
    delays: list[float] = []
    monkeypatch.setattr(module, "print_message", lambda _: delays.append(supervisor._children[0].delay))
    supervisor.start(replace(program(""), command=["false"]))
    for _ in range(60):
        supervisor.watch(0.5)
        if len(delays) >= 4:
            break
    assert delays[:4] == [0.0625, 0.125, 0.25, 0.25]


def test_a_program_that_ran_for_long_is_restarted_at_once(
    supervisor: Supervisor, program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STABLE_SECONDS", 0.0)
    monkeypatch.setattr(module, "MIN_DELAY_SECONDS", 600.0)
    sleeper = program(SLEEP)
    supervisor.start(sleeper)
    assert eventually(lambda: starts(sleeper) == 1)
    processes_in(sleeper.folder)[0].kill()
    supervisor.watch(1)
    assert eventually(lambda: starts(sleeper) == 2)


def test_stop_kills_a_program_that_ignores_sigterm(
    supervisor: Supervisor, program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.3)
    stubborn = program(STUBBORN)
    supervisor.start(stubborn)
    assert eventually(lambda: starts(stubborn) == 1)
    supervisor.stop()
    assert processes_in(stubborn.folder) == []


def test_servers_stop_after_the_programs_that_use_them(
    supervisor: Supervisor, program: MakeProgram, tmp_path: Path
) -> None:
    server = replace(program(PRINT_END_TIME), log=tmp_path / "server.log", stops_last=True)
    client = program("LATER = 0.3" + PRINT_END_TIME)
    for each in (server, client):
        supervisor.start(each)
    assert eventually(lambda: starts(server) and starts(client))
    supervisor.stop()
    server_ended, client_ended = (float(each.log.read_text().split()[1]) for each in (server, client))
    assert server_ended > client_ended


def test_a_server_that_does_not_start_is_reported_with_its_log(
    supervisor: Supervisor, program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.5)

    def ping() -> None:
        raise ConnectionError("nobody there")

    with pytest.raises(LocalStackError, match=r"(?s)nobody there.*program \| no such luck"):
        supervisor.start_server(program("print('no such luck')"), ping, not_yet=ConnectionError)


def test_programs_restart_while_a_command_runs(
    supervisor: Supervisor, program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MIN_DELAY_SECONDS", 0.01)
    supervisor.start(replace(program("print('up')"), command=["echo", "up"]))
    log = supervisor._children[0].program.log
    waiting = ["/bin/sh", "-c", f"until [ $(grep -c up {log}) -ge 2 ]; do sleep 0.05; done; exit 7"]
    assert supervisor.run(waiting, folder=log.parent, environment=os.environ) == 7


def test_a_command_ends_with_the_wait_for_it(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "watch", lambda _: sys.exit())
    with pytest.raises(SystemExit):
        supervisor.run(["sleep", "600"], folder=tmp_path, environment=os.environ)
    assert eventually(lambda: processes_in(tmp_path) == [])


def test_a_procfile_line_leaves_no_shell_behind(supervisor: Supervisor, program: MakeProgram) -> None:
    line = replace(program(""), command=shell("sleep ${SECONDS_TO_SLEEP:-600}"))
    supervisor.start(line)
    assert eventually(lambda: [each.name() for each in processes_in(line.folder)] == ["sleep"])


@pytest.fixture
def supervising(tmp_path: Path) -> Callable[[str], subprocess.Popen[bytes]]:
    """Return a function that runs a supervisor with one program in a new process until SIGTERM."""

    def start(source: str) -> subprocess.Popen[bytes]:
        script = f"""
            import os, signal, sys
            from pathlib import Path
            from localstack.supervisor import Program, Supervisor
            folder = Path({str(tmp_path)!r})
            signal.signal(signal.SIGTERM, lambda *_: sys.exit())
            supervisor = Supervisor(adopt_orphans=True)
            supervisor.start(Program(name="program", command=[sys.executable, "-c", {source!r}], folder=folder,
                                     log=folder / "program.log", environment=os.environ))
            try:
                supervisor.watch(600)
            finally:
                supervisor.stop()
        """
        return subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)])

    return start


def test_stop_leaves_no_process_of_another_session_behind(
    supervising: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    parent = supervising(PARENT_OF_STRAY)
    assert eventually(lambda: len(processes_in(tmp_path)) == 2)
    parent.terminate()
    assert parent.wait(timeout=10) == 0
    assert processes_in(tmp_path) == []


def test_child_processes_end_before_a_program_restarts(
    supervising: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    parent = supervising(PARENT_OF_STRAY)
    assert eventually(lambda: len(processes_in(tmp_path)) == 2)
    leader, stray = sorted(processes_in(tmp_path), key=psutil.Process.create_time)
    leader.kill()
    assert eventually(lambda: not stray.is_running())
    assert eventually(lambda: len(processes_in(tmp_path)) == 2)
    parent.terminate()
    parent.wait(timeout=10)


def test_programs_end_when_their_supervisor_is_killed(
    supervising: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    parent = supervising(STUBBORN)
    assert eventually(lambda: (tmp_path / "program.log").exists() and processes_in(tmp_path))
    time.sleep(0.2)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert eventually(lambda: processes_in(tmp_path) == [])
