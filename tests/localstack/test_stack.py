"""Settings of a local stack, and their messages."""

import subprocess
import sys
from pathlib import Path

import pytest

from localstack import stack
from localstack.console import LocalStackError
from localstack.folder import DataFolder


@pytest.mark.parametrize(("chosen", "used"), [(None, "false"), ("true", "true")], ids=["default", "chosen"])
def test_the_admin_needs_no_second_factor_unless_asked_for(
    chosen: str | None, used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ADMIN_REQUIRES_MFA", raising=False)
    if chosen:
        monkeypatch.setenv("ADMIN_REQUIRES_MFA", chosen)
    assert stack._settings(DataFolder(tmp_path), port=1, secret_key="any")["ADMIN_REQUIRES_MFA"] == used


def test_the_port_is_taken_before_anything_starts() -> None:
    with stack._listen(0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(LocalStackError, match=f"Port {port} cannot be used"):
            stack._listen(port)


# A fresh process, like `manage.py local`, because dash redirects only the first ten descriptors.
TAKE_OVER = """
import shlex, socket, subprocess, sys
from localstack import stack
from localstack.supervisor import shell_with_socket
program = "import os,socket; c,_ = socket.socket(fileno=3).accept(); c.send(os.environ['LISTEN_PID'].encode())"
with stack._listen(0) as listener:
    command = shell_with_socket(f"{sys.executable} -c {shlex.quote(program)}", listener)
    with subprocess.Popen(command, pass_fds=[listener.fileno()]) as process:
        with socket.create_connection(listener.getsockname(), timeout=20) as client:
            assert client.recv(100).decode() == str(process.pid)
"""


def test_the_web_server_takes_over_the_socket() -> None:
    """It answers on the supervisor's own socket, which it gets as descriptor 3."""
    subprocess.run([sys.executable, "-c", TAKE_OVER], check=True, cwd=stack.CHECKOUT)
