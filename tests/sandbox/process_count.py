"""Print how many processes one start of a simulator creates; fail if it executes a Python interpreter.

`process_count.py BUBBLEWRAP`, started by root; BUBBLEWRAP is empty for a sandbox without it. The count is the
difference of process ids in a new process namespace, where nothing else runs.
"""

import ctypes
import os
import sys
import tempfile
from pathlib import Path

from sandbox import confine, confinement
from sandbox.landlock import checked
from sandbox.private_directory import PrivateDirectory
from sandbox.process import ConfinedProcess
from tests.sandbox.bench import LIMITS

CLONE_NEWPID = 0x20000000
# The threads of the worker that read the simulator's output have ids too.
READERS = 2

libc = ctypes.CDLL(None, use_errno=True)


def next_pid() -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def run(bubblewrap: Path | None) -> None:
    """Run a simulator that does nothing."""
    with tempfile.TemporaryDirectory() as top, PrivateDirectory.create(Path(top)) as directory:
        Path(top).chmod(0o755)
        process = ConfinedProcess(
            ["/bin/true"],
            directory=directory,
            sandbox=confinement.Sandbox(bubblewrap, "auto"),
            limits=LIMITS,
            readable=[],
            on_line=lambda *_: None,
        )
        with process:
            ended = process.wait(20)
            assert ended
            assert ended.exit_status == 0


def count(bubblewrap: Path | None) -> int:
    """Return the number of processes of the second start, during which no interpreter can be executed."""
    confine.mount("none", "/", "", confine.MS_REC | confine.MS_PRIVATE)
    confine.mount("proc", "/proc", "proc", 0)
    run(bubblewrap)
    confine.mount("/dev/null", str(confinement.INTERPRETER), "", confine.MS_BIND)
    before = next_pid()
    run(bubblewrap)
    return next_pid() - before - 1 - READERS


def main() -> None:
    """Count in new namespaces of processes and mounts."""
    checked(libc.unshare, CLONE_NEWPID | confine.CLONE_NEWNS)
    pid = os.fork()
    if pid == 0:
        sys.stdout.write(f"{count(Path(sys.argv[1]) if sys.argv[1] else None)}\n")
        sys.stdout.flush()
        os._exit(0)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    main()
