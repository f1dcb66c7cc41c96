"""What a killed worker costs a long job: `python -m bench.recovery --minutes 10 --kills 20`.

Four worker processes of one slot each run the same job twice: undisturbed, and while one of them is killed every
minute. Then short jobs are disturbed after half of their shards: the conductor of each is killed, and one is paused
and resumed after its conductor has been stopped. Prints the figures with their aims; the exit status is 1 if one is
missed.
"""

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

import psutil

from bench import lab, processes
from bench.callers import JOBS, Caller
from bench.lab import SLOTS, LocalStack, number, started_worker
from bench.results import current_commit, formatted

KILL_SECONDS = 60.0
RESTART_SECONDS = 1.0
PAUSE_SECONDS = 5.0
# Profilesets of 0.3 s for the long jobs, and of 1.2 s for the short ones, at 0.1 ms for each fight
LONG_ITERATIONS, SHORT_ITERATIONS = 3_000, 12_000
SHORT_SETS = 40
WARM_UP_SETS = 20
MAX_CREDITS = 10_000_000
MAX_RATIO, MAX_BILL_DIFFERENCE = 1.05, 0.01
CLAIMED = "SELECT count(*) FROM jobs_job WHERE id = %s AND status IN ('starting', 'running')"
ENDED_RUNS = "SELECT sum(wall_ms) FROM jobs_run WHERE job_id = %s"
LOST_RUNS = "SELECT count(*) FROM jobs_run WHERE job_id = %s AND wall_ms IS NULL"
DONE_SHARDS = """
    SELECT count(*) FILTER (WHERE wall_ms IS NOT NULL)::float / nullif((
        SELECT count(*) FROM jobs_shard JOIN jobs_shardedstage AS stage ON stage.id = stage_id WHERE job_id = %s
    ), 0) FROM jobs_run WHERE job_id = %s
"""
REPEATED_SHARDS = """
    SELECT count(*) FROM (
        SELECT FROM jobs_run WHERE job_id = %s AND wall_ms IS NOT NULL
        GROUP BY stage, shard HAVING count(*) > 1
    ) AS repeated
"""
HEADER = ("job", "minutes", "simulator s", "kills", "lost runs", "repeated shards", "attempts", "credits", "winner")


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A completed job: its simulator time, its bill and its best profileset.

    The time includes that of killed simulators, but not that of simulators that a pause stopped.
    """

    minutes: float
    simulator_seconds: float
    kills: int
    lost_runs: int
    repeated_shards: int
    attempts: int
    credits: int
    winner: str

    @classmethod
    def read(cls, job_id: int, *, killed: list[float]) -> Self:
        """Read a job; `killed` are the seconds of its killed simulators, which have no recorded duration."""
        from jobs.models import Job

        job = Job.objects.get(pk=job_id)
        assert job.status == "completed", job.status_reason
        assert job.completed_at
        summary: Any = job.summary
        return cls(
            minutes=(job.completed_at - job.created_at).total_seconds() / 60,
            simulator_seconds=number(ENDED_RUNS, job_id) / 1000 + sum(killed),
            kills=len(killed),
            lost_runs=int(number(LOST_RUNS, job_id)),
            repeated_shards=int(number(REPEATED_SHARDS, job_id)),
            attempts=job.attempt,
            credits=job.credits_consumed or 0,
            winner=summary["mainActor"]["profilesets"]["results"][0]["name"],
        )

    def row(self, name: str) -> tuple[str, ...]:
        return (
            name,
            f"{self.minutes:.1f}",
            f"{self.simulator_seconds:,.1f}",
            str(self.kills),
            str(self.lost_runs),
            str(self.repeated_shards),
            str(self.attempts),
            f"{self.credits:,}",
            self.winner,
        )


class Workers:
    """Worker processes of one slot each: the stack's, which its supervisor restarts, and others."""

    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack
        self.others = [self._start(index) for index in range(SLOTS - 1)]
        # When each of the others that was killed starts again
        self.restarts: dict[int, float] = {}

    def _start(self, index: int) -> "subprocess.Popen[bytes]":
        return started_worker(f"recovery{index}", slots=1)

    def processes(self) -> list[psutil.Process]:
        """Return the live worker processes."""
        found = [*processes.programs(self.stack.supervisor).get("sim", [])[:1]]
        for other in self.others:
            with suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(other.pid))
        return [process for process in found if process.status() != psutil.STATUS_ZOMBIE]

    def kill(self, process: psutil.Process) -> float:
        """Kill a worker process; return for how many seconds its simulator ran, 0 if none did."""
        process.suspend()
        now = time.time()
        seconds = sum((now - each.create_time() for each in _simulators(process)), 0.0)
        process.kill()
        for index, other in enumerate(self.others):
            if other.pid == process.pid:
                other.wait()
                self.restarts[index] = time.monotonic() + RESTART_SECONDS
        return seconds

    def restart_due(self) -> None:
        """Start the killed workers whose time has come."""
        for index, at in list(self.restarts.items()):
            if time.monotonic() >= at:
                del self.restarts[index]
                self.others[index] = self._start(index)

    def wait_until_alive(self) -> None:
        """Wait until all workers run and have sent a heartbeat."""
        while len(self.processes()) < SLOTS:
            self.restart_due()
            time.sleep(0.1)
        pids = {process.pid for process in self.processes()}
        while not pids <= _reporting():
            time.sleep(0.1)

    def close(self) -> None:
        """Stop the others."""
        for other in self.others:
            other.terminate()
        for other in self.others:
            other.wait(60)


@contextmanager
def four_workers(stack: LocalStack) -> Iterator[Workers]:
    """Run the workers during the block, after all of them have started."""
    workers = Workers(stack)
    try:
        workers.wait_until_alive()
        yield workers
    finally:
        workers.close()


def _simulators(worker: psutil.Process) -> list[psutil.Process]:
    """Return the simulators of a worker process."""
    found = []
    for process in worker.children(recursive=True):
        with suppress(psutil.Error):
            if process.name() == "sleeper":
                found.append(process)
    return found


def _reporting() -> set[int]:
    """Return the ids of the worker processes that have sent a heartbeat."""
    # Needs Django.
    from simservice import worker_heartbeats

    return {int(worker.name.rpartition("-")[2]) for worker in worker_heartbeats.last_seen()}


class Recovery:
    """Runs jobs in the lab while workers are killed, and collects what is missed."""

    def __init__(self, stack: LocalStack, workers: Workers, caller: Caller, *, seed: int) -> None:
        self.stack, self.workers, self.caller = stack, workers, caller
        self.random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self.rows: list[tuple[str, ...]] = [HEADER]
        self.missed: list[str] = []

    def submit(self, sets: int, *, iterations: int) -> int:
        # Needs Django.
        from bench.scaling import profile

        return self.caller.submit(profile(sets, iterations=iterations), multiStage=False)

    def warm_up(self) -> None:
        """Run a small job, so that the time of a profileset is known."""
        self.submit(WARM_UP_SETS, iterations=LONG_ITERATIONS)
        self.stack.drain()

    def run(self, name: str, *, minutes: float, kill_seconds: float | None) -> Ended:
        """Run a long job, and kill a random worker every `kill_seconds`."""
        sets = round(minutes * 60 * SLOTS / (LONG_ITERATIONS * 1e-4))
        self.workers.wait_until_alive()
        job_id, killed = self.submit(sets, iterations=LONG_ITERATIONS), list[float]()
        next_kill = time.monotonic() + (kill_seconds or float("inf"))
        while _is_active(job_id):
            self.workers.restart_due()
            if time.monotonic() > next_kill and kill_seconds:
                next_kill += kill_seconds
                killed.append(self.workers.kill(self.random.choice(self.workers.processes())))
            time.sleep(0.1)
        return self._check(Ended.read(job_id, killed=killed), name, may_lose=len(killed))

    def kill_conductor(self) -> None:
        """Run a short job, and kill its conductor after half of its shards."""
        job_id = self._half_done()
        killed = [self.workers.kill(self._conductor_of(job_id))]
        ended = self._end(job_id, "conductor killed", killed=killed, may_lose=1)
        self.expect("a conductor was killed too late", holds=ended.attempts == 2)

    def pause(self) -> None:
        """Run a short job, pause it after half of its shards, stop its conductor, and resume the job."""
        job_id = self._half_done()
        conductor = self._conductor_of(job_id)
        self.caller.request("POST", f"{JOBS}/{job_id}/pause")
        while number(CLAIMED, job_id):
            time.sleep(0.05)
        self.workers.kill(conductor)
        time.sleep(PAUSE_SECONDS)
        self.caller.request("POST", f"{JOBS}/{job_id}/resume")
        self._end(job_id, "paused", killed=[], may_lose=SLOTS)

    def _half_done(self) -> int:
        """Submit a short job, and wait until half of its shards are done; return its id."""
        self.workers.wait_until_alive()
        job_id = self.submit(SHORT_SETS, iterations=SHORT_ITERATIONS)
        while number(DONE_SHARDS, job_id, job_id) < 0.5:
            time.sleep(0.05)
        return job_id

    def _conductor_of(self, job_id: int) -> psutil.Process:
        """Return the worker process that has a job."""
        from jobs.models import Job

        pid = int(Job.objects.get(pk=job_id).worker.split(":")[1])
        return next(process for process in self.workers.processes() if process.pid == pid)

    def _end(self, job_id: int, name: str, *, killed: list[float], may_lose: int) -> Ended:
        """Wait for the end of a disturbed job, and check it."""
        while _is_active(job_id):
            self.workers.restart_due()
            time.sleep(0.05)
        return self._check(Ended.read(job_id, killed=killed), name, may_lose=may_lose)

    def _check(self, ended: Ended, name: str, *, may_lose: int) -> Ended:
        """Print a job, and note whether it has lost more running shards than it may, or a finished one."""
        self.rows.append(ended.row(name))
        print(formatted(self.rows).splitlines()[-1], file=sys.stderr, flush=True)
        self.expect(f"{name}: {ended.lost_runs} runs were lost", holds=ended.lost_runs <= may_lose)
        repeated = f"{name}: {ended.repeated_shards} finished shards ran again"
        self.expect(repeated, holds=not ended.repeated_shards)
        return ended

    def expect(self, failure: str, *, holds: bool) -> None:
        if not holds:
            self.missed.append(failure)

    def compare(self, undisturbed: Ended, killed: Ended) -> None:
        """Print the ratios of two runs of a job, and compare them with their aims."""
        ratio = killed.simulator_seconds / undisturbed.simulator_seconds
        bill = killed.credits / undisturbed.credits - 1
        print(f"Simulator time {ratio:.3f} (aim: {MAX_RATIO}), bill {bill:+.2%} (aim: ± {MAX_BILL_DIFFERENCE:.0%})")
        self.expect(f"simulator time {ratio:.3f}", holds=ratio <= MAX_RATIO)
        self.expect(f"bill {bill:+.2%}", holds=abs(bill) <= MAX_BILL_DIFFERENCE)
        self.expect(f"winner {killed.winner}, not {undisturbed.winner}", holds=killed.winner == undisturbed.winner)


def _is_active(job_id: int) -> bool:
    return bool(number("SELECT count(*) FROM jobs_job WHERE id = %s AND completed_at IS NULL", job_id))


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.recovery")
    parser.add_argument("--minutes", type=float, default=10, help="length of the long jobs; 0 skips them")
    parser.add_argument("--kills", type=int, default=20, help="short jobs whose conductor is killed")
    parser.add_argument("--pauses", type=int, default=1, help="short jobs that are paused and resumed")
    parser.add_argument("--seed", type=int, default=41)
    arguments = parser.parse_args()
    lab.clean_up_when_terminated()
    with lab.local_stack(slots=1) as stack, four_workers(stack) as workers:
        # Needs Django.
        from bench.accounts import open_keys
        from billing.models import Plan

        caller = Caller(stack.url, open_keys(1)[0])
        Plan.objects.filter(name="bench").update(max_credits_per_job=MAX_CREDITS, max_parallel_slots=SLOTS)
        recovery = Recovery(stack, workers, caller, seed=arguments.seed)
        recovery.warm_up()
        if arguments.minutes:
            undisturbed = recovery.run("undisturbed", minutes=arguments.minutes, kill_seconds=None)
            killed = recovery.run("a kill a minute", minutes=arguments.minutes, kill_seconds=KILL_SECONDS)
            recovery.compare(undisturbed, killed)
        for _ in range(arguments.kills):
            recovery.kill_conductor()
        for _ in range(arguments.pauses):
            recovery.pause()
    sys.stdout.write(formatted(recovery.rows))
    print(f"Commit {current_commit()}. Missed:", *(recovery.missed or ["nothing"]), sep="\n")
    return 1 if recovery.missed else 0


if __name__ == "__main__":
    sys.exit(main())
