"""A worker that is root only in a user namespace and shares the process namespace with the outside."""

import subprocess
import sys

import pytest

from tests.sandbox.bench import PROJECT, needs_root
from tests.sandbox.test_namespaces import needs_bubblewrap

# The child leaves the user namespace of its parent, which then maps its users; the child runs a simulator.
PROGRAM = """
import ctypes, os, sys, tempfile
from pathlib import Path

def enter_user_namespace():
    here, there = os.pipe(), os.pipe()
    child = os.fork()
    if child:
        os.read(here[0], 1)
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{child}/{name}").write_text("0 0 100000")
        os.write(there[1], b".")
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if ctypes.CDLL(None).unshare(0x10000000):
        sys.exit("no user namespace")
    os.write(here[1], b".")
    os.read(there[0], 1)

enter_user_namespace()
from sandbox import namespaces
from sandbox.confinement import Sandbox
from tests.sandbox.bench import Bench
from tests.sandbox.test_namespaces import BUBBLEWRAP

assert not namespaces.can_return()
with tempfile.TemporaryDirectory() as folder:
    Path(folder).chmod(0o755)
    bench = Bench(Path(folder), Sandbox(BUBBLEWRAP, "auto"))
    with bench.directory:
        print([bench.run("status", number).exit_status for number in (3, 0)])
"""


@needs_root
@needs_bubblewrap
def test_root_of_a_user_namespace_uses_bubblewrap() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=PROJECT, capture_output=True, text=True, check=False)
    if "no user namespace" in done.stderr:
        pytest.skip("user namespaces are forbidden here")
    assert done.stdout == "[3, 0]\n", done.stderr
