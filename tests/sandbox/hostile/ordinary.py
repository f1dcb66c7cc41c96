"""Simulators that print, sleep, end, or leave files."""

import locale
import os
import resource
import signal
import sys
import time
from pathlib import Path

from tests.sandbox.hostile.printing import attempt, print_line


def environment() -> None:
    for name, value in sorted(os.environ.items()):
        print_line(f"{name}={value}")
    print_line("cwd", Path.cwd())
    print_line("uid", os.getuid())
    print_line("groups", *os.getgroups())
    print_line(
        "limits", *(resource.getrlimit(getattr(resource, f"RLIMIT_{n}"))[0] for n in ("CPU", "AS", "FSIZE", "CORE"))
    )


def use_locale(name: str) -> None:
    """Use a locale as glibc finds it, like `std::locale` of C++."""
    print_line("uses", locale.setlocale(locale.LC_ALL, name))


def status(code: str) -> None:
    sys.exit(int(code))


def fat(megabytes: str) -> None:
    """Use memory in one process."""
    block = bytearray(os.urandom(1024)) * (int(megabytes) << 10)
    print_line("holding", len(block) >> 20)
    time.sleep(30)


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
    print_line("running")
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
        print_line("interrupted")
        sys.exit(0)


def spin() -> None:
    while True:
        pass


def shows(name: str) -> None:
    print_line(Path(name).read_text())


def leaves(secret: str) -> None:
    """Create a link, a FIFO, a hard link and a directory under the names of reports."""
    attempt("link", lambda: Path("link.json").symlink_to(secret))
    attempt("fifo", lambda: os.mkfifo("fifo.json"))
    attempt("hard", lambda: os.link(secret, "hard.json"))
    Path("directory.json").mkdir()
    Path("good.json").write_text("{}")
