"""CPU time and memory of the programs of the Procfile and of the servers, which all are children of one process."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

SERVERS = ("postgres", "redis")
WEB_AND_SERVERS = ("web", *SERVERS)
SUPERVISOR = "supervisor"


def programs(supervisor: psutil.Process) -> dict[str, list[psutil.Process]]:
    """Return the processes of each program, the program's own first. Its name is that of its log file."""
    found = defaultdict[str, list[psutil.Process]](list)
    for child in supervisor.children():
        with suppress(OSError, psutil.Error):
            log = Path(f"/proc/{child.pid}/fd/1").readlink()
            if log.suffix == ".log":
                found[log.stem] += [child, *child.children(recursive=True)]
    return dict(found)


def cpu_seconds(supervisor: psutil.Process) -> dict[str, float]:
    """Return the CPU seconds of each program with its ended and live descendants, and of the supervisor itself."""
    own = supervisor.cpu_times()
    seconds = {SUPERVISOR: float(own.user + own.system)}
    for name, processes in programs(supervisor).items():
        seconds[name] = 0.0
        for process in processes:
            with suppress(psutil.Error):
                times = process.cpu_times()
                seconds[name] += times.user + times.system + times.children_user + times.children_system
    return seconds


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return the CPU seconds between two readings."""
    return {name: seconds - before.get(name, 0.0) for name, seconds in after.items()}


def megabytes(supervisor: psutil.Process) -> dict[str, float]:
    """Return the resident memory of the largest process of each program that is not a server."""
    memory = dict[str, float]()
    for name, processes in programs(supervisor).items():
        for process in processes if name not in SERVERS else ():
            with suppress(psutil.Error):
                memory[name] = max(memory.get(name, 0.0), process.memory_info().rss / 1e6)
    return memory


def listed(amounts: Mapping[str, float], *, digits: int = 0) -> str:
    """Return the amount of each program as a text."""
    return ", ".join(f"{name} {amount:.{digits}f}" for name, amount in amounts.items())


@contextmanager
def suspended(supervisor: psutil.Process, *, but: tuple[str, ...] = SERVERS) -> Iterator[None]:
    """Suspend all programs except those in `but` during the block."""
    chosen = [each for name, processes in programs(supervisor).items() if name not in but for each in processes]
    for process in chosen:
        with suppress(psutil.Error):
            process.suspend()
    try:
        yield
    finally:
        for process in chosen:
            with suppress(psutil.Error):
                process.resume()
