"""New Python environments, with packages from the cache that `make` filled."""

import subprocess
import sys
import venv
from pathlib import Path

UV = Path(sys.executable).with_name("uv")


def make_environment(folder: Path, *packages: str | Path) -> Path:
    """Create an environment with what these arguments of `pip install` name, but without pip; return its Python.

    Like the Makefile, it uses uv, or pip where uv cannot reach the packages. Raises CalledProcessError.
    """
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    uv = [UV, "pip", "install", "--quiet", "--system-certs", "--python", python, *packages]
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *packages]
    if not UV.exists() or subprocess.run(uv, check=False).returncode:
        subprocess.run(pip, check=True)
    return python
