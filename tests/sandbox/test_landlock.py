"""Landlock: the rights that each version restricts, and its effect without other layers."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import landlock
from tests.sandbox.bench import PROJECT


@pytest.mark.parametrize(("abi", "bits"), [(1, 13), (2, 14), (3, 15), (4, 15), (5, 16), (7, 16)])
def test_each_version_restricts_its_own_rights(abi: int, bits: int) -> None:
    assert landlock.file_rights(abi) == (1 << bits) - 1


ALONE = """
import os, socket, sys
sys.path.insert(0, sys.argv[1])
from sandbox import confine, landlock
confine.prctl(confine.PR_SET_NO_NEW_PRIVS, 1)
assert landlock.restrict(readable=["/"], writable=[], tcp_port=None)
for action in (
    lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2]))),
    lambda: socket.create_server(("127.0.0.1", 0)),
    lambda: os.kill(os.getppid(), 0),
    lambda: open("/dev/null", "w"),
):
    try:
        action()
    except PermissionError:
        print("refused")
    else:
        print("WORKED")
"""


@pytest.mark.skipif(
    landlock.version() < landlock.SIGNALS_SINCE, reason="this kernel's Landlock covers files only, if it has one"
)
def test_landlock_alone_restricts_files_network_and_signals(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-S", "-c", ALONE, str(PROJECT), str(server.getsockname()[1])]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert printed.split() == ["refused"] * 4


UNSCOPED = """
from sandbox import confine, landlock
landlock.version = lambda: 5
print(*confine.leave_network())
"""


@pytest.mark.skipif(os.geteuid() == 0, reason="root needs no user namespace")
def test_a_user_namespace_needs_landlock_to_restrict_signals() -> None:
    done = subprocess.run([sys.executable, "-c", UNSCOPED], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["network_namespace"]
