"""Run `simctl` with pipes and on a pseudo-terminal."""

import contextlib
import fcntl
import io
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from simservice_client.cli import main
from tests.stack import ROOT

# A shell starts commands in the background with Ctrl-C ignored, and so would be all tests of Ctrl-C.
COMMAND = ["/usr/bin/env", "--default-signal=INT", sys.executable, "-m", "simservice_client.cli"]
# The leader of a session gets the first terminal that it opens.
ON_TERMINAL = "import os, sys; os.open(os.ttyname(2), os.O_RDWR); os.execv(sys.argv[1], sys.argv[1:])"
PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Simctl:
    """The command with an environment of its own."""

    environment: Mapping[str, str]

    @classmethod
    def of(cls, folder: Path, **chosen: str) -> "Simctl":
        """Return the command with a home folder and more variables."""
        own = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "sdk" / "python" / "src"),
            "PYTHONIOENCODING": "utf-8",
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / "configuration"),
            "TERM": "xterm",
            "TZ": "UTC",
        }
        return cls(own | chosen)

    def with_variables(self, **chosen: str | None) -> "Simctl":
        """Return the command with other variables; None removes one."""
        merged = {**self.environment, **chosen}
        return Simctl({name: value for name, value in merged.items() if value is not None})

    def __call__(self, *arguments: str, stdin: str | bytes = b"") -> subprocess.CompletedProcess[str]:
        """Run a command with pipes."""
        content = stdin.encode() if isinstance(stdin, str) else stdin
        command = [*COMMAND, *arguments]
        done = subprocess.run(command, env=self.environment, input=content, capture_output=True, check=False)
        return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())

    def call(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        """Run a command in this process, which takes a tenth of the time."""
        output, errors, content = (io.TextIOWrapper(io.BytesIO(each), "utf-8") for each in (b"", b"", stdin))
        with (
            patch.dict(os.environ, self.environment, clear=True),
            patch("sys.stdin", content),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
        ):
            status = main(arguments)
        written = [stream.detach().getvalue().decode() for stream in (output, errors)]
        return subprocess.CompletedProcess(arguments, status, *written)

    def start(self, *arguments: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start a command with pipes."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*COMMAND, *arguments], env=self.environment, stdin=pipe, stdout=stdout, stderr=pipe, text=True
        )

    @contextlib.contextmanager
    def on_terminal(self, *arguments: str, columns: int = 80, stdin: int | None = None) -> Iterator["Terminal"]:
        """Run a command on a terminal, perhaps with another standard input."""
        own, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        launcher = [sys.executable, "-c", ON_TERMINAL, *COMMAND]
        process = subprocess.Popen(
            [*launcher, *arguments],
            env=self.environment,
            stdin=theirs if stdin is None else stdin,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        try:
            yield Terminal(own, process)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait()
            os.close(own)


@dataclass
class Terminal:
    """A running command and what it has written to its terminal."""

    descriptor: int
    process: subprocess.Popen[bytes]
    output: str = ""

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.descriptor, text.encode())

    def wait_for(self, text: str) -> None:
        """Read until a text appears."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.output:
            assert time.monotonic() < deadline, self.output
            assert self._read(), self.output

    def wait(self) -> int:
        """Read until the command ends, and return its exit status."""
        while self._read():
            pass
        return self.process.wait(PATIENCE_SECONDS)

    def _read(self) -> bool:
        """Read what there is. Return false once there will be nothing more."""
        if select.select([self.descriptor], [], [], PATIENCE_SECONDS)[0]:
            with contextlib.suppress(OSError):  # Linux reports the end of a terminal as an error
                content = os.read(self.descriptor, 65536)
                self.output += content.decode(errors="replace")
                return bool(content)
        return False


def lines_on_screen(output: str) -> Sequence[str]:
    """Return the lines of a terminal's output, without what was overwritten."""
    return [line.rstrip("\r").rpartition("\r")[2] for line in output.split("\n")]
