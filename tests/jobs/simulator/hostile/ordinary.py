"""Simulators that print, sleep, end, or leave files."""

import os
import resource
import signal
import sys
import time
from pathlib import Path

from tests.jobs.simulator.hostile.printing import attempt, say


def environment() -> None:
    for name, value in sorted(os.environ.items()):
        say(f"{name}={value}")
    say("cwd", Path.cwd())
    say("uid", os.getuid())
    say("groups", *os.getgroups())
    say(
        "limits", *(resource.getrlimit(getattr(resource, f"RLIMIT_{n}"))[0] for n in ("CPU", "AS", "FSIZE", "CORE"))
    )


def status(code: str) -> None:
    sys.exit(int(code))


def die(number: str) -> None:
    os.kill(os.getpid(), int(number))


def progress() -> None:
    sys.stdout.write("version\n")
    for done in range(3):
        sys.stdout.write(f"{done}/3\r")
        sys.stdout.flush()
    sys.stdout.write("3/3\nlast words without an end")
    sys.stderr.write("a warning\n")


def noise() -> None:
    sys.stdout.buffer.write(b"\xff\xfe caf\xc3\xa9\n" + b"x" * 100_000 + b"\nafter\n")


def flood() -> None:
    block = b"0123456789abcde\n" * 65536
    for _ in range(1024):
        os.write(1, block)


def sleep() -> None:
    say("running")
    time.sleep(60)


def deaf() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU):
        signal.signal(number, signal.SIG_IGN)
    sleep()


def polite() -> None:
    try:
        sleep()
    except KeyboardInterrupt:
        Path("report.json").write_text("{}")
        say("interrupted")
        sys.exit(0)


def spin() -> None:
    while True:
        pass


def shows(name: str) -> None:
    say(Path(name).read_text())


def leaves(secret: str) -> None:
    """Create a link, a FIFO, a hard link and a directory under the names of reports."""
    attempt("link", lambda: Path("link.json").symlink_to(secret))
    attempt("fifo", lambda: os.mkfifo("fifo.json"))
    attempt("hard", lambda: os.link(secret, "hard.json"))
    Path("directory.json").mkdir()
    Path("good.json").write_text("{}")
