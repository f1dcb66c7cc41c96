"""The whole path: HTTP submissions, workers and the stub simulator on a local stack."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

from bench import idle, machine, processes, start_delays
from bench.callers import Caller, submit_many, submit_until
from bench.figures import Value, Values
from bench.local import SLOTS, LocalStack, local_stack
from bench.percentiles import milliseconds, percentile
from bench.sizes import FULL, QUICK, Size

CALLERS = 4
# Callers pause while this many jobs are unfinished, which is enough to keep every slot busy.
BACKLOG = 10 * SLOTS
RAMP_SECONDS = 2.0
POLL_SECONDS = 0.03
ENDED = "SELECT count(*) FROM jobs_job WHERE completed_at > to_timestamp(%s) AND completed_at <= to_timestamp(%s)"
FAILED = "SELECT count(*) FROM jobs_job WHERE status IN ('failed', 'cancelled', 'timed_out')"
SUBMISSION_PROGRAMS = ("web", *processes.SERVERS)


def measure(*, quick: bool) -> Values:
    """Return the figures of the whole path with bubblewrap."""
    size = QUICK if quick else FULL
    with local_stack(accounts=CALLERS) as stack:
        values = idle.measure(stack, seconds=size.idle_seconds)
        before = processes.megabytes(stack.supervisor)
        _warm_up(stack, size)
        warm = processes.megabytes(stack.supervisor)
        load = sustained(stack, seconds=size.seconds, jobs=size.jobs)
        stack.drain()
        after = processes.megabytes(stack.supervisor)
        values |= _load_values(load) | idle.memory(before, warm, after, jobs=load.jobs)
        values |= start_delays.measure(stack, size)
        assert not stack.number(FAILED), "some jobs failed"
        return values | _submissions_alone(stack, size)


def measure_without_bubblewrap(*, quick: bool) -> Values:
    """Return the figures that depend on bubblewrap, without it."""
    size = QUICK if quick else FULL
    with local_stack(accounts=CALLERS, bubblewrap=False) as stack:
        _warm_up(stack, size)
        load = sustained(stack, seconds=size.bare_seconds, jobs=size.jobs)
        stack.drain()
        assert not stack.number(FAILED), "some jobs failed"
    return {"bare.rate": Value(load.rate, load.note), "bare.sim_cpu": Value(load.cost(*processes.SIMULATION_PARTS))}


def _warm_up(stack: LocalStack, size: Size) -> None:
    submit_many(stack.url, stack.keys, count=size.warm_up)
    stack.drain()


@dataclass(frozen=True, kw_only=True)
class Load:
    """The jobs that ended during a load, and CPU seconds by program.

    `unexplained` is the CPU time of all other processes of the machine, except the benchmark itself.
    """

    jobs: int
    seconds: float
    cpu: dict[str, float]
    unexplained: float

    def cost(self, *names: str) -> float:
        """Return the CPU milliseconds per job of some programs."""
        return sum(self.cpu.get(name, 0.0) for name in names) / self.jobs * 1000

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds

    @property
    def note(self) -> str:
        return f"{self.jobs:,} jobs in {self.seconds:.0f} s"


def sustained(stack: LocalStack, *, seconds: float, jobs: int) -> Load:
    """Keep a bounded backlog until `jobs` jobs have ended or the time is over; return the measured load."""
    with _callers(stack) as may_go:
        _keep_backlog(stack, may_go, seconds=RAMP_SECONDS, jobs=jobs)
        cpu, busy, own = processes.cpu_seconds(stack.supervisor), machine.busy_seconds(), time.process_time()
        started = time.time()
        _keep_backlog(stack, may_go, seconds=seconds, jobs=jobs)
        ended = time.time()
        spent = processes.spent(cpu, processes.cpu_seconds(stack.supervisor))
        busy, own = machine.busy_seconds() - busy, time.process_time() - own
    return Load(
        jobs=int(stack.number(ENDED, started, ended)),
        seconds=ended - started,
        cpu=spent,
        unexplained=busy - own - sum(spent.values()),
    )


@contextmanager
def _callers(stack: LocalStack) -> Iterator[threading.Event]:
    """Run callers during the block; they submit while the event is set."""
    stop, may_go = threading.Event(), threading.Event()
    options = {"stop": stop, "may_go": may_go.is_set}
    thread = threading.Thread(target=submit_until, args=(stack.url, stack.keys), kwargs=options)
    thread.start()
    try:
        yield may_go
    finally:
        stop.set()
        thread.join()


def _keep_backlog(stack: LocalStack, may_go: threading.Event, *, seconds: float, jobs: int) -> None:
    """Let the callers submit while fewer than BACKLOG jobs are active, until enough jobs ended or time is over."""
    started, end, next_count = time.time(), time.monotonic() + seconds, 0.0
    while (now := time.monotonic()) < end:
        if stack.active_jobs() < BACKLOG:
            may_go.set()
        else:
            may_go.clear()
        time.sleep(POLL_SECONDS)
        if now > next_count:
            next_count = now + 2
            if stack.number(ENDED, started, time.time()) >= jobs:
                return


def _load_values(load: Load) -> Values:
    others = [name for name in load.cpu if name not in (*processes.SIMULATION_PARTS, *SUBMISSION_PROGRAMS)]
    parts = ", ".join(f"{name} {load.cost(name):.1f}" for name in processes.SIMULATION_PARTS)
    return {
        "path.rate": Value(load.rate, load.note),
        "path.sim_cpu": Value(load.cost(*processes.SIMULATION_PARTS), parts),
        "path.web_cpu": Value(load.cost("web")),
        "path.postgres_cpu": Value(load.cost("postgres")),
        "path.redis_cpu": Value(load.cost("redis")),
        "path.other_cpu": Value(load.cost(*others), ", ".join(others)),
        "path.unexplained_cpu": Value(load.unexplained / load.jobs * 1000),
    }


def _submissions_alone(stack: LocalStack, size: Size) -> Values:
    """Measure `POST jobs` while all other programs are suspended."""
    with _suspended(processes.all_of(stack.supervisor, but=SUBMISSION_PROGRAMS)):
        submit_many(stack.url, stack.keys, count=len(stack.keys) * 10)
        before, started = processes.cpu_seconds(stack.supervisor), time.perf_counter()
        durations = milliseconds(submit_many(stack.url, stack.keys, count=size.submissions))
        rate = len(durations) / (time.perf_counter() - started)
        spent = processes.spent(before, processes.cpu_seconds(stack.supervisor))
        alone = milliseconds(_unhurried(stack, count=size.submissions // 10))
    costs = {name: spent[name] / len(durations) * 1000 for name in SUBMISSION_PROGRAMS}
    return {
        "post.rate": Value(rate, f"{len(durations):,} submissions, {CALLERS} callers"),
        "post.p50": Value(percentile(durations, 50)),
        "post.p99": Value(percentile(durations, 99)),
        "post.idle_p50": Value(percentile(alone, 50), f"{len(alone)} submissions"),
        "post.web_cpu": Value(costs["web"]),
        "post.postgres_cpu": Value(costs["postgres"]),
    }


def _unhurried(stack: LocalStack, *, count: int) -> list[float]:
    """Submit jobs one at a time with pauses; return the durations of the requests."""
    caller, durations = Caller(stack.url, stack.keys[0]), []
    for _ in range(count):
        durations.append(caller.timed_submit())
        time.sleep(0.02)
    return durations


@contextmanager
def _suspended(chosen: list[psutil.Process]) -> Iterator[None]:
    """Suspend processes during the block."""
    for process in chosen:
        with suppress(psutil.Error):
            process.suspend()
    try:
        yield
    finally:
        for process in chosen:
            with suppress(psutil.Error):
                process.resume()
