"""CPU time and memory of the processes of a local stack, by program of the Procfile."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

SERVERS = ("postgres", "redis")
SUPERVISOR = "supervisor"
SIMULATION = "sim"
LAUNCHER, RUNS = "sim: launcher", "sim: supervisors, bubblewrap and simulators"
# The parts of the simulation worker's CPU time: the worker itself, its launcher, and everything that they start.
SIMULATION_PARTS = (SIMULATION, LAUNCHER, RUNS)


def programs(supervisor: psutil.Process) -> dict[str, list[psutil.Process]]:
    """Return the supervisor's children by program. A child's program is the name of its log file."""
    found = defaultdict(list)
    for child in supervisor.children():
        with suppress(OSError):
            log = Path(f"/proc/{child.pid}/fd/1").readlink()
            if log.suffix == ".log":
                found[log.stem].append(child)
    return dict(found)


def cpu_seconds(supervisor: psutil.Process) -> dict[str, float]:
    """Return the CPU seconds of each program with its ended and live descendants, and of the supervisor itself.

    The simulation worker's are divided into SIMULATION_PARTS.
    """
    found = programs(supervisor)
    seconds = {name: sum(map(_tree_seconds, processes)) for name, processes in found.items()}
    workers = found.get(SIMULATION, [])
    worker, launcher = (sum(map(_own_seconds, each)) for each in (workers, _launchers(workers)))
    parts = (worker, launcher, seconds.get(SIMULATION, 0.0) - worker - launcher)
    return {SUPERVISOR: _own_seconds(supervisor), **seconds, **dict(zip(SIMULATION_PARTS, parts, strict=True))}


def _launchers(workers: list[psutil.Process]) -> list[psutil.Process]:
    """Return the launchers of simulation workers: their only direct children."""
    return [child for worker in workers for child in worker.children()]


def _own_seconds(process: psutil.Process) -> float:
    """Return the CPU seconds of a process without its children."""
    times = process.cpu_times()
    return float(times.user + times.system)


def _tree_seconds(process: psutil.Process) -> float:
    """Return the CPU seconds of a process, its live descendants, and all their reaped children."""
    return float(
        sum(times.user + times.system + times.children_user + times.children_system for times in _times(process))
    )


def _times(process: psutil.Process) -> Iterator[psutil._ntuples.pcputimes]:
    for each in [process, *_descendants(process)]:
        with suppress(psutil.Error):
            yield each.cpu_times()


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return list(process.children(recursive=True))
    return []


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return the CPU seconds between two readings."""
    return {name: seconds - before.get(name, 0.0) for name, seconds in after.items()}


def megabytes(supervisor: psutil.Process) -> dict[str, float]:
    """Return the megabytes of resident memory of each Python process, numbered if a program has several."""
    memory = {}
    for name, leaders in programs(supervisor).items():
        if name not in SERVERS:
            for number, process in enumerate(_resident(leaders)):
                memory[f"{name}{number or ''}"] = process
    return memory


def _resident(leaders: list[psutil.Process]) -> list[float]:
    """Return the megabytes of the leaders and of their Python descendants, largest first."""
    sizes = []
    for each in (process for leader in leaders for process in [leader, *_descendants(leader)]):
        with suppress(psutil.Error):
            if "python" in each.name() or each in leaders or "gunicorn" in each.name():
                sizes.append(each.memory_info().rss / 1e6)
    return sorted(sizes, reverse=True)


def all_of(supervisor: psutil.Process, *, but: tuple[str, ...]) -> list[psutil.Process]:
    """Return the processes of all programs except those in `but`, parents before children."""
    return [
        process
        for name, leaders in programs(supervisor).items()
        if name not in but
        for leader in leaders
        for process in [leader, *_descendants(leader)]
    ]
