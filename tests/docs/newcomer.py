"""Follow the README and the tutorial as a newcomer does: `make newcomer`.

The newcomer has git, make, Python and the usual small programs, but no compiler, no Node.js, no browser, no server,
and nothing in pip's cache; bubblewrap hides these programs. Prints the seconds of each step. Fails if the first
result takes more than a minute, or the tutorial more than three.
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
GIT, MAKE, BWRAP = (shutil.which(name) or name for name in ("git", "make", "bwrap"))
# Programs that developers and servers have. bubblewrap hides them, itself included.
HIDDEN = """
gcc cc g++ c++ clang go cargo node npm npx chromium google-chrome bwrap rclone psql postgres pgbouncer redis-server
redis-cli nginx prometheus promtool docker kubectl
""".split()
FOLDERS = ("/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin")


def main() -> int:
    """Clone the checkout, get a first result, follow the tutorial, and print the seconds of each step."""
    with tempfile.TemporaryDirectory() as temporary:
        environment = newcomers_environment(Path(temporary))
        clone = Path(temporary) / "clone"
        first_result = _timed("From `git clone` to the first result", lambda: _first_result(clone, environment))
        tutorial = _timed("Tutorial", lambda: _follow_tutorial(clone, environment))
    return 0 if first_result <= FIRST_RESULT_SECONDS and tutorial <= TUTORIAL_SECONDS else 1


def newcomers_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a newcomer, with an empty home folder."""
    (folder / "home").mkdir()
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    kept |= {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    python = Path(sys.base_prefix) / "bin"
    return {
        "HOME": str(folder / "home"),
        "PATH": f"{python}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        **kept,
    }


def without_tools(*command: str) -> list[str]:
    """Return a command line that runs a command where the programs of developers are hidden."""
    options = ["--dev-bind", "/", "/", "--die-with-parent"]
    for path in (Path(folder) / name for folder in FOLDERS for name in HIDDEN):
        if path.exists():
            options += ["--ro-bind", "/dev/null", str(path.resolve())]
    return [BWRAP, *options, *command]


def _first_result(clone: Path, environment: dict[str, str]) -> None:
    subprocess.run([GIT, "clone", "--quiet", ROOT, clone], env=environment, check=True)
    subprocess.run(without_tools(MAKE, "run", "ARGS=--once"), cwd=clone, env=environment, check=True)


def _follow_tutorial(clone: Path, environment: dict[str, str]) -> None:
    with running_service(clone, environment) as ready, shell_in(clone, environment) as shell:
        values = {"http://127.0.0.1:8000": ready["url"], "sk_…": ready["apiKey"]}
        follow("tutorial/first-result", shell, values, without={"TypeScript"})


@contextmanager
def running_service(clone: Path, environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """Run `make run` in a clone, on a free port. Yields its address and key."""
    command = without_tools(MAKE, "--silent", "run", "ARGS=--port 0 --no-demo")
    process = subprocess.Popen(
        command, cwd=clone, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        line = next((line for line in process.stdout if line.startswith("READY ")), None)
        assert line, "The service did not start."
        yield json.loads(line.removeprefix("READY "))
    finally:
        # bubblewrap does not pass the signal on. The service has stopped when nothing holds its output any more.
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)


def _timed(step: str, take: Callable[[], None]) -> float:
    """Take a step; print and return its seconds."""
    started = time.monotonic()
    take()
    seconds = time.monotonic() - started
    print(f"{step}: {seconds:.0f} s", flush=True)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
