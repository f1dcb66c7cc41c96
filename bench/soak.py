"""A long run of the whole stack: `python -m bench.soak --minutes 60 --rate 25`.

Many accounts submit jobs at a fixed rate while the simulation worker is killed every two minutes. Prints a row for
each period, then a verdict; the exit status is 1 if a job was lost or billed twice.
"""

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from typing import Any

import psutil

from bench import machine, processes, results, soak_checks
from bench.local import LocalStack, local_stack
from bench.open_loop import OpenLoop

ACCOUNTS = 50
KILL_SECONDS = 120.0
# A short soak has six periods.
PERIODS = 6


def main() -> int:
    arguments = _parse()
    machine.clean_up_when_terminated()
    soak: dict[str, Any] = {"commit": machine.commit(), "date": datetime.now(UTC).isoformat(timespec="seconds")}
    soak |= {"machine": machine.description(), "rate": arguments.rate, "minutes": arguments.minutes}
    with local_stack(accounts=ACCOUNTS) as stack:
        measured = soak | _run(stack, minutes=arguments.minutes, rate=arguments.rate)
    path = results.save_measurement("soak", measured)
    print(json.dumps(measured["verdict"], indent=1), path, sep="\n")
    return 0 if measured["verdict"]["clean"] else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.soak")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=25, help="submissions per second (default: 25)")
    return parser.parse_args()


def _run(stack: LocalStack, *, minutes: float, rate: float) -> dict[str, Any]:
    """Submit jobs and kill the worker for some minutes, wait for the last job, and return the measurements."""
    kills = _Kills(stack)
    with OpenLoop(stack.url, stack.keys, rate=rate) as load:
        periods = [_period(stack, load, kills, seconds=minutes * 60 / PERIODS) for _ in range(PERIODS)]
    stack.drain()
    outcome = soak_checks.verdict(stack, load.accepted)
    counts = {"kills": kills.count, "accepted": len(load.accepted), "errors": load.errors[:20]}
    outcome["clean"] = outcome["clean"] and not load.errors
    return {"periods": periods, "verdict": counts | outcome}


def _period(stack: LocalStack, load: OpenLoop, kills: "_Kills", *, seconds: float) -> dict[str, Any]:
    """Wait for one period, kill the worker when it is due, then print and return the period's figures."""
    since, end = time.time(), time.monotonic() + seconds
    while time.monotonic() < end:
        kills.kill_if_due()
        time.sleep(0.5)
    measured = soak_checks.period(stack, since=since, submissions=load.take_durations())
    print(_row(measured | {"kills": kills.count}), flush=True)
    return measured


class _Kills:
    """Kills the simulation worker with SIGKILL every KILL_SECONDS; the stack's supervisor restarts it."""

    def __init__(self, stack: LocalStack) -> None:
        self._stack, self._due, self.count = stack, time.monotonic() + KILL_SECONDS / 2, 0

    def kill_if_due(self) -> None:
        if time.monotonic() < self._due:
            return
        self._due += KILL_SECONDS
        workers: list[psutil.Process] = processes.programs(self._stack.supervisor).get("sim", [])
        for worker in workers[:1]:
            worker.kill()
            self.count += 1


def _row(measured: dict[str, Any]) -> str:
    """Return a period as text: rates, delays in milliseconds (p50/p99), and the sizes that must not grow."""
    delays = (f"{name} {'/'.join(map(str, measured[name]))} ms" for name in DELAYS)
    sizes = (f"{name} {measured[name]}" for name in ("active", "redisMb", "runFiles", "logsMb", "kills", "load"))
    first = f"{measured['seconds']} s: {measured['jobsPerSecond']} jobs/s, {', '.join(delays)}"
    memory, dead = (soak_checks.listed(measured[name]) for name in ("memoryMb", "deadRows"))
    return f"{first}\n    {', '.join(sizes)}\n    memory MB: {memory}\n    dead rows: {dead}"


DELAYS = ("submit", "createdToStarted", "startedToEnded")


if __name__ == "__main__":
    sys.exit(main())
