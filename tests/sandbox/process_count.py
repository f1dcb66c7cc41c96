"""Print how many processes one start of a simulator creates; fail if it executes a Python interpreter.

`process_count.py BUBBLEWRAP`, started by root; BUBBLEWRAP is empty for a sandbox without it. The count is the
difference of process ids in a new process namespace, where nothing else runs.
"""

import ctypes
import os
import sys
import tempfile
from pathlib import Path

from sandbox import confinement, enter
from sandbox.landlock import checked
from sandbox.private_directory import PrivateDirectory
from sandbox.process import Limits, SimulatorProcess

CLONE_NEWPID = 0x20000000
# The threads of the worker that read the simulator's output have ids too.
READERS = 2
LIMITS = Limits(
    wall_seconds=60,
    cpu_seconds=60,
    memory_bytes=1 << 30,
    file_bytes=1 << 20,
    disk_bytes=1 << 20,
    processes=30,
    open_files=64,
    log_bytes=1000,
    output_bytes=1000,
)

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
        process = SimulatorProcess(
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
    enter.mount("none", "/", "", enter.MS_REC | enter.MS_PRIVATE)
    enter.mount("proc", "/proc", "proc", 0)
    run(bubblewrap)
    enter.mount("/dev/null", str(confinement.INTERPRETER), "", enter.MS_BIND)
    before = next_pid()
    run(bubblewrap)
    return next_pid() - before - 1 - READERS


def main() -> None:
    """Count in new namespaces of processes and mounts."""
    checked(libc.unshare, CLONE_NEWPID | enter.CLONE_NEWNS)
    pid = os.fork()
    if pid == 0:
        sys.stdout.write(f"{count(Path(sys.argv[1]) if sys.argv[1] else None)}\n")
        sys.stdout.flush()
        os._exit(0)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    main()
