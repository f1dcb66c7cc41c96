"""Follow the tutorial from a fresh clone and print the seconds: `make tutorial`. Fails above three minutes."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.guide_runs import ROOT, follow, shell_in
from tests.docs.typescript import provide_node
from tests.npm import Missing

LIMIT_SECONDS = 180
GIT, MAKE = shutil.which("git") or "git", shutil.which("make") or "make"


def main() -> int:
    """Clone the checkout, install it, follow the tutorial, and print the seconds of both."""
    with tempfile.TemporaryDirectory() as temporary:
        clone, programs = Path(temporary) / "clone", Path(temporary) / "bin"
        programs.mkdir()
        subprocess.run([GIT, "clone", "--quiet", str(ROOT), str(clone)], check=True)
        without = _without(programs)
        started = time.monotonic()
        subprocess.run([MAKE, "--silent", ".venv/.runtime"], cwd=clone, check=True)
        installed = time.monotonic()
        with running_service(clone) as ready, shell_in(clone, {}) as shell:
            shell.run(f"PATH={programs}:$PATH")
            values = {"http://127.0.0.1:8000": ready["url"], "sk_…": ready["apiKey"]}
            follow("tutorial/first-result", shell, values, without=without)
            ended = time.monotonic()
    print(f"Installation of .venv: {installed - started:.0f} s")
    print(f"`make run` and the tutorial{' without TypeScript' if without else ''}: {ended - installed:.0f} s")
    return 0 if ended - installed < LIMIT_SECONDS else 1


def _without(programs: Path) -> set[str]:
    """Prepare Node.js; return the sections that cannot be followed."""
    try:
        provide_node(programs)
    except Missing as missing:
        print(missing, file=sys.stderr)
        return {"TypeScript"}
    return set()


@contextmanager
def running_service(clone: Path) -> Iterator[dict[str, str]]:
    """Run `make run` in a clone, on a free port. Yields its address and key."""
    command = [MAKE, "--silent", "run", "ARGS=--port 0 --no-demo"]
    process = subprocess.Popen(command, cwd=clone, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    try:
        line = next((line for line in process.stdout if line.startswith("READY ")), None)
        assert line, "The service did not start."
        yield json.loads(line.removeprefix("READY "))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


if __name__ == "__main__":
    sys.exit(main())
