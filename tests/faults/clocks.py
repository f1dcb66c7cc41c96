"""Processes whose clock is wrong: a small preloaded library shifts it."""

import shutil
import subprocess
from pathlib import Path

COMPILER = shutil.which("cc") or ""
SOURCE = Path(__file__).with_name("clock_shift.c")
HOUR, DAY = 3600, 86_400
SHIFTS = (-40 * DAY, -HOUR, HOUR, 40 * DAY)


def build_library(folder: Path) -> Path:
    """Compile the library that shifts the clock, and return its path."""
    library = folder / "clock_shift.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True)
    return library


def shifted(library: Path, seconds: int) -> dict[str, str]:
    """Return the variables that shift a process's clock by some seconds."""
    return {"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(seconds)}
