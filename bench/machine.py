"""The machine and the commit that a benchmark runs on."""

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def clean_up_when_terminated() -> None:
    """Raise SystemExit on SIGTERM, so that this process stops its servers and removes its folders."""

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)


def output_of(module: str, *arguments: str) -> str:
    """Run a module in a new process and return its output. On an interrupt, let it clean up first.

    Raises CalledProcessError if it fails.
    """
    command = [sys.executable, "-m", module, *arguments]
    # A new session, so that Ctrl-C interrupts only this process.
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            output, _ = process.communicate()
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return output


def load() -> float:
    """Return the load average of the last minute."""
    return round(os.getloadavg()[0], 2)


def busy_seconds() -> float:
    """Return the CPU seconds of all processes of the machine since its start."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts = map(int, fields[:7])
    return (user + nice + system + interrupts + soft_interrupts) / os.sysconf("SC_CLK_TCK")


def description() -> dict[str, Any]:
    """Return the machine's cores, memory and versions."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memoryMb": pages // 1_000_000,
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def commit() -> str:
    """Return the checkout's short commit, with a plus sign if files were changed; "unknown" outside of git."""
    try:
        revision = _git("rev-parse", "--short=12", "HEAD")
        return revision + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607
    return done.stdout.strip()
