"""Processes whose clock is wrong: a small preloaded library shifts it."""

import shutil
import struct
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


class JumpingClock:
    """A clock shared by processes, which jumps while they run. `variables` make a process use it."""

    def __init__(self, library: Path, file: Path) -> None:
        file.write_bytes(bytes(8))
        self.file = file
        self.variables = {"LD_PRELOAD": str(library), "CLOCK_SHIFT_FILE": str(file)}

    def jump(self, seconds: int) -> None:
        """Set the clock to some seconds ahead of the machine's, or behind it."""
        with self.file.open("r+b") as file:
            file.write(struct.pack("=q", seconds))
