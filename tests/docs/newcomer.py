"""Follow the README and the tutorial as a newcomer does: `make newcomer`.

The newcomer has git, make, Python and the usual small programs, but no compiler, no Node.js, no browser, no
bubblewrap, and nothing in pip's cache. Prints the seconds of each step. Fails if the first result takes more than a
minute, or the tutorial more than three.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.guide_runs import ROOT, follow, shell_in

FIRST_RESULT_SECONDS = 60
TUTORIAL_SECONDS = 180
GIT, MAKE = shutil.which("git") or "git", shutil.which("make") or "make"
PROGRAMS = """
awk basename bash cat chmod cp curl cut date dirname echo env expr find git grep head id kill ln ls make mkdir mktemp mv
nproc ps pwd python3 readlink rm sed seq sh sleep sort tail tee test touch tr true uname uniq wc xargs
""".split()


def main() -> int:
    """Clone the checkout, get a first result, follow the tutorial, and print the seconds of each step."""
    with tempfile.TemporaryDirectory() as temporary:
        environment = newcomers_environment(Path(temporary))
        clone = Path(temporary) / "clone"
        first_result = _timed("From `git clone` to the first result", lambda: _first_result(clone, environment))
        tutorial = _timed("Tutorial", lambda: _follow_tutorial(clone, environment))
    return 0 if first_result <= FIRST_RESULT_SECONDS and tutorial <= TUTORIAL_SECONDS else 1


def newcomers_environment(folder: Path) -> dict[str, str]:
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


def _first_result(clone: Path, environment: dict[str, str]) -> None:
    subprocess.run([GIT, "clone", "--quiet", ROOT, clone], env=environment, check=True)
    subprocess.run([MAKE, "run", "ARGS=--once"], cwd=clone, env=environment, check=True)


def _follow_tutorial(clone: Path, environment: dict[str, str]) -> None:
    with running_service(clone, environment) as ready, shell_in(clone, environment) as shell:
        values = {"http://127.0.0.1:8000": ready["url"], "sk_…": ready["apiKey"]}
        follow("tutorial", shell, values, without={"TypeScript"})


@contextmanager
def running_service(clone: Path, environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """Run `make run` in a clone, on a free port. Yields its address and key."""
    command = [MAKE, "--silent", "run", "ARGS=--port 0 --no-demo"]
    process = subprocess.Popen(
        command, cwd=clone, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        line = next((line for line in process.stdout if line.startswith("READY ")), None)
        assert line, "The service did not start."
        yield json.loads(line.removeprefix("READY "))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _timed(step: str, take: Callable[[], None]) -> float:
    """Take a step; print and return its seconds."""
    started = time.monotonic()
    take()
    seconds = time.monotonic() - started
    print(f"{step}: {seconds:.0f} s", flush=True)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
