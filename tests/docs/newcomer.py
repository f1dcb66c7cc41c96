"""Follow the README and the tutorial as a newcomer does: `make newcomer`.

The machine has only git, make, Python and the usual small programs: no compiler, no Node.js, no browser, no server,
and nothing in pip's cache. Prints the seconds of each step, and fails if the first result takes more than a minute.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.guide_runs import ROOT, follow, shell_in
from tests.docs.tutorial import running_service

FIRST_RESULT_SECONDS = 60
PROGRAMS = """
awk basename bash cat chmod cp curl cut date dirname env expr find git grep head id kill ln ls make mkdir mktemp mv
nproc ps pwd python3 readlink rm sed seq sh sleep sort tail tee touch tr true uname uniq wc xargs
""".split()


def main() -> int:
    """Clone the checkout, get a first result, follow the tutorial, and print the seconds of each step."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        environment = machine(folder)
        started = time.monotonic()
        _run(environment, "git", "clone", "--quiet", str(ROOT), str(folder / "clone"), cwd=folder)
        _run(environment, "make", "run", "ARGS=--once", cwd=folder / "clone")
        first_result = time.monotonic() - started
        print(f"From `git clone` to the first result: {first_result:.0f} s")
        _timed("The tutorial", lambda: _follow_tutorial(folder / "clone", environment))
    return 0 if first_result <= FIRST_RESULT_SECONDS else 1


def machine(folder: Path) -> dict[str, str]:
    """Return the environment of a newcomer, with an empty home folder and few programs."""
    (folder / "home").mkdir()
    (folder / "bin").mkdir()
    for name in PROGRAMS:
        program = shutil.which(name)
        if program is None:
            raise SystemExit(f"{name} is not installed.")
        (folder / "bin" / name).symlink_to(program)
    network = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_"))}
    network |= {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    return {"HOME": str(folder / "home"), "PATH": str(folder / "bin"), "LANG": "C.UTF-8", **network}


def _run(environment: dict[str, str], *command: str, cwd: Path) -> None:
    subprocess.run(
        [shutil.which(command[0], path=environment["PATH"]) or command[0], *command[1:]],
        cwd=cwd,
        env=environment,
        check=True,
    )


def _follow_tutorial(clone: Path, environment: dict[str, str]) -> None:
    with running_service(clone, environment) as ready, shell_in(clone, environment) as shell:
        values = {"http://127.0.0.1:8000": ready["url"], "sk_…": ready["apiKey"]}
        follow("tutorial", shell, values, without={"TypeScript"})


def _timed(step: str, take: Callable[[], None]) -> None:
    started = time.monotonic()
    take()
    print(f"{step}: {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
