"""Simulators without a combat model: one that writes a valid report and exits, and one that sleeps for each fight.

The first is a shell script if there is no C compiler.
"""

import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent
COMPILERS: tuple[str, ...] = ("cc", "gcc", "clang")


def build(folder: Path) -> Path:
    """Create the simulator that exits at once, and return its path. Every user can then read `folder`."""
    target = _readable(folder) / "stub"
    if not _compiled("stub.c", target):
        shell = shutil.which("dash") or "/bin/sh"
        script = (SOURCES / "stub.sh").read_text().replace("/bin/dash", shell, 1)
        target.write_text(script)
    target.chmod(0o755)
    return target


def build_sleeper(folder: Path) -> Path:
    """Create the simulator that sleeps, and return its path. Raises RuntimeError if there is no C compiler."""
    target = _readable(folder) / "sleeper"
    if not _compiled("sleeper.c", target):
        raise RuntimeError(f"this simulator needs a C compiler: {', '.join(COMPILERS)}")
    target.chmod(0o755)
    return target


def _readable(folder: Path) -> Path:
    """Create a folder that every user can read, and return it."""
    folder.mkdir(mode=0o755, exist_ok=True)
    folder.chmod(0o755)
    return folder


def _compiled(source: str, target: Path) -> bool:
    """Compile a simulator. Return False if there is no compiler."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is not None:
        subprocess.run([compiler, "-O2", "-o", str(target), str(SOURCES / source), "-lm"], check=True)
    return compiler is not None
