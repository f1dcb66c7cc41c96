"""`manage.py local` on machines that deny system calls of the sandbox, as containers do."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.stack import ROOT

Start = Callable[[str], subprocess.Popen[str]]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def data() -> Iterator[Path]:
    """A folder that every user can access, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o755)
        yield Path(path)


@pytest.fixture
def local_where(data: Path) -> Iterator[Start]:
    """Return a function that starts the local stack without some system calls."""
    started: list[subprocess.Popen[str]] = []
    own = ("DATABASE_URL", "REDIS_URL", "DATA_DIR", "SECRET_KEY", "SANDBOX")
    environment = {name: value for name, value in os.environ.items() if name not in own}

    def start(denied: str) -> subprocess.Popen[str]:
        container = [sys.executable, "-m", "tests.sandbox.container", denied]
        command = [sys.executable, "manage.py", "local", "--port", "0", "--data", str(data / "stack"), "--no-demo"]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [*container, *command], cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.terminate()
        process.communicate()


def test_the_local_stack_does_not_start_without_seccomp(
    local_where: Callable[[str], subprocess.Popen[str]],
) -> None:
    output, errors = local_where("seccomp").communicate()
    assert output == ""
    assert "No simulator can run here with SANDBOX=auto: the sandbox lacks: seccomp" in errors


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give simulators an identity here")
def test_missing_layers_are_named_in_one_line(local_where: Start) -> None:
    process = local_where("landlock,clone")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith("READY "), process.stderr.read()
    process.terminate()
    messages = [line for line in process.communicate()[1].splitlines() if "Sandbox layers" in line]
    assert messages == ["Sandbox layers not available here: file system view. See docs/explanation/security.md."]
