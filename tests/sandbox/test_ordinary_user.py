"""The sandbox of a worker without root's rights: some tests of this folder again, as an ordinary user."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.bench import PROJECT, needs_root

FILES = (
    "test_hostile.py",
    "test_identity.py",
    "test_landlock.py",
    "test_launcher.py",
    "test_memory.py",
    "test_missing_layers.py",
    "test_namespaces.py",
    "test_private_directory.py",
    "test_proxy_socket.py",
    "test_sandbox.py",
    "test_usage.py",
)
# These tests need neither the services nor Django's settings.
OPTIONS = ("-c", os.devnull, "-p", "no:django", "-p", "no:cacheprovider", "-q", "-rs", "--rootdir", str(PROJECT))


@needs_root
@pytest.mark.timeout(600)
def test_the_sandbox_works_for_an_ordinary_worker(open_directory: Path) -> None:
    folder = Path(__file__).parent
    tests = [*OPTIONS, "--confcutdir", str(folder), *(str(folder / name) for name in FILES)]
    command = [sys.executable, "-m", "tests.sandbox.ordinary_user", str(open_directory), sys.executable]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, "-m", "pytest", *tests],
        cwd=PROJECT,
        env=environment | {"HOME": str(open_directory), "TMPDIR": str(open_directory)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed
    assert int(passed[1]) > 90
