"""Write `requirements.lock`: the version and the hashes of every package in the image."""

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "deploy" / "requirements.lock"
PYTHON = "3.11"
HEADING = """\
# Wheels for Python 3.11 on Linux (x86-64 and aarch64). `make lock` writes this file from requirements.txt.
"""


def resolve(machine: str) -> dict[str, str]:
    """Return the hash of the wheel of each package for a machine, by `name==version`."""
    with tempfile.TemporaryDirectory() as target:
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--quiet"]
        platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in (36, 28, 17, 12, 5)]
        platforms += [f"--platform=manylinux2014_{machine}", f"--platform=linux_{machine}"]
        options = [f"--target={target}", "--report=-", "--only-binary=:all:", f"--python-version={PYTHON}"]
        files = ["--requirement=requirements.txt", "--constraint=constraints.txt"]
        done = subprocess.run([*command, *platforms, *options, *files], cwd=ROOT, check=True, capture_output=True)
    report = json.loads(done.stdout)
    return {
        f"{package['metadata']['name'].lower()}=={package['metadata']['version']}": package["download_info"][
            "archive_info"
        ]["hashes"]["sha256"]
        for package in report["install"]
    }


def main() -> None:
    """Write the file."""
    hashes: defaultdict[str, set[str]] = defaultdict(set)
    for machine in ("x86_64", "aarch64"):
        for package, value in resolve(machine).items():
            hashes[package].add(value)
    lines = [
        " \\\n    ".join([package, *(f"--hash=sha256:{value}" for value in sorted(hashes[package]))])
        for package in sorted(hashes)
    ]
    LOCK.write_text(HEADING + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
