"""Processes whose id was reused, processes that cannot be killed, and last messages of a supervisor."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from sandbox import children, namespaces
from sandbox.client import LauncherClient, SupervisorClient
from tests.sandbox.bench import PROJECT


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that must not be killed."""
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        yield process
        assert process.poll() is None
        process.kill()


def ended_process() -> int:
    """Return a descriptor of a process that has been reaped."""
    with subprocess.Popen(["/bin/true"]) as process:
        return os.pidfd_open(process.pid)


def test_a_reused_id_of_a_supervisor_is_not_killed(
    bystander: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.client.END_SECONDS", 0.05)
    client = SupervisorClient()
    client.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.pid, client.process = bystander.pid, ended_process()
    with other:
        client.close()


def test_a_reused_id_of_a_descendant_is_not_killed(
    bystander: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a descendant when the processes were listed, but is none when it would be killed."""
    listings = iter([[bystander.pid], []])
    monkeypatch.setattr(children, "descendants", lambda *_: next(listings))
    with subprocess.Popen(["/bin/sleep", "60"]) as top:
        children.kill([top.pid])
        assert top.wait(20) == -signal.SIGKILL


def answer_twice(pause: socket.socket) -> None:
    """Write a line from one process and, when the other end sends something, a line from another one."""
    for number in range(2):
        if os.fork() == 0:
            if number:
                pause.recv(1)
            pause.send(b"\n")
            os._exit(0)
        if not number:
            os.wait()


def test_a_reused_id_of_a_pause_process_is_not_joined() -> None:
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    with ours, theirs:
        answer_twice(theirs)
        first = namespaces.pause_pid(ours)
        with pytest.raises(namespaces.NotJoined, match="has ended"):
            namespaces.require_answer(ours, first)
        os.wait()


def test_a_last_message_is_received_after_an_unread_order() -> None:
    client = SupervisorClient()
    client.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    other.send(json.dumps({"ended": {"status": 0}}).encode())
    client.order(b"kill")
    other.close()
    assert client.receive(1) == {"ended": {"status": 0}}
    client.close()


def test_an_unread_order_without_a_message_ends_the_run() -> None:
    client = SupervisorClient()
    client.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.order(b"kill")
    other.close()
    assert client.receive(1) == {}
    client.close()


def test_a_descriptor_that_the_worker_has_no_room_for_is_optional() -> None:
    client = SupervisorClient()
    client.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for message in (b'{"supervisor": 5}', b'{"started": []}'):
        other.send(message)
    assert client._receive_start(time.monotonic() + 5) == {"started": []}
    assert (client.pid, client.process) == (5, None)
    other.close()
    client.close()


def test_a_launcher_that_cannot_be_killed_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    client = LauncherClient()
    before = client.launch({}, [])
    os.kill(before, signal.SIGSTOP)
    assert client.process
    stuck = client.process
    monkeypatch.setattr("sandbox.client.KILL_SECONDS", 0.1)
    monkeypatch.setattr(stuck, "kill", lambda: None)
    started_at = time.monotonic()
    client.replace(before)
    assert time.monotonic() - started_at < 10
    assert client.launch({}, []) != before
    monkeypatch.undo()
    client.stop()
    stuck.kill()
    stuck.wait()


def test_attempts_to_kill_become_rarer() -> None:
    pauses = [children.FIRST_PAUSE_SECONDS]
    while len(pauses) < 12:
        pauses.append(children.next_pause(pauses[-1], has_ended=False))
    assert pauses[:3] == [0.002, 0.004, 0.008]
    assert pauses[-1] == children.LONGEST_PAUSE_SECONDS
    assert children.next_pause(0.5, has_ended=True) == children.FIRST_PAUSE_SECONDS


# The supervisors of the runs `stuck` and `later` die. An orphan of `stuck` cannot be killed until the worker closes
# its socket.
STUCK = """
import os, socket, sys, threading, time
from sandbox import children, launcher

children.adopt_orphans()
theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
subject = launcher.Launcher(theirs)
kill = children.kill
attempts = []
is_released = threading.Event()
children.kill = lambda pids: (attempts.append(pids), kill(pids if is_released.is_set() else set(pids) - spared))

def add(has_orphan, *, fails):
    run, worker = socket.socketpair()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        orphan = os.fork() if has_orphan else 1
        if orphan == 0:
            time.sleep(60)
        os.write(writing, str(orphan).encode())
        if not fails:
            time.sleep(60)
        os._exit(1)
    control = socket.socketpair()[0]
    added = subject.supervisors[pid] = launcher.SupervisorProcess(pid, control)
    added.run, added.is_connected = run.detach(), False
    worker.settimeout(20)
    return worker, pid, int(os.read(reading, 20))

stuck, _, orphan = add(True, fails=True)
spared = {orphan}
serving = threading.Timer(1.5, lambda: (is_released.set(), ours.close()))
later, pid, _ = add(True, fails=False)
threading.Timer(0.5, os.kill, (pid, 9)).start()
serving.start()
seen = []

def read(run, name):
    assert run.recv(1) == b""
    seen.append((name, is_released.is_set()))

readers = [threading.Thread(target=read, args=each) for each in ((stuck, "stuck"), (later, "later"))]
for reader in readers:
    reader.start()
subject.serve()
for reader in readers:
    reader.join()
assert seen == [("later", False), ("stuck", True)], seen
assert len(attempts) < 40, len(attempts)
"""


def test_an_orphan_that_stays_delays_only_its_own_run() -> None:
    """Nor does the launcher use much CPU time on it."""
    subprocess.run([sys.executable, "-c", STUCK], cwd=PROJECT, check=True, timeout=60)
