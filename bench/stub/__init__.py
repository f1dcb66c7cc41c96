"""A simulator that writes a valid report and exits: compiled from C, or a shell script without a compiler."""

import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent
COMPILERS: tuple[str, ...] = ("cc", "gcc", "clang")


def build(folder: Path) -> Path:
    """Create the simulator in `folder`, which every user can then read, and return its path."""
    folder.mkdir(mode=0o755, exist_ok=True)
    folder.chmod(0o755)
    target = folder / "stub"
    compilers = list(filter(None, map(shutil.which, COMPILERS)))
    if compilers:
        subprocess.run([compilers[0], "-O2", "-o", str(target), str(SOURCES / "stub.c")], check=True)
    else:
        shell = shutil.which("dash") or "/bin/sh"
        script = (SOURCES / "stub.sh").read_text().replace("/bin/dash", shell, 1)
        target.write_text(script)
    target.chmod(0o755)
    return target
