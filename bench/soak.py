"""A long run of the whole stack: `python -m bench.soak --minutes 60 --rate 25`.

Many accounts submit jobs at a fixed rate while the simulation worker is killed every two minutes. Prints a row for
each period, then the verdict; the exit status is 1 if a job was lost or billed twice.
"""

import argparse
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPException

from django.conf import settings
from redis import Redis

from bench import lab, processes
from bench.callers import Caller
from bench.figures import percentile
from bench.lab import ACTIVE, SLOTS, STARTED, LocalStack, column, number
from bench.results import current_commit, formatted

ACCOUNTS = 50
CALLERS = 16
KILL_SECONDS = 120.0
PERIODS = 6
DONE = "FROM jobs_job WHERE status = 'completed' AND completed_at > to_timestamp(%s)"
WAITS = f"SELECT {STARTED} - extract(epoch FROM created_at) {DONE}"  # noqa: S608 - constants
ENDS = f"SELECT extract(epoch FROM completed_at) - {STARTED} {DONE}"  # noqa: S608
DEAD_ROWS = "SELECT sum(n_dead_tup) FROM pg_stat_user_tables"
LOST_RUNS = "SELECT count(*) FROM jobs_run WHERE stopped_for = 'lost'"
RETRIED = "SELECT count(*) FROM jobs_job WHERE attempt > 1"
# Each query returns a number that must be 0. `verifyhistory` checks the rest.
VIOLATIONS = {
    "jobs that have not ended": "SELECT count(*) FROM jobs_job WHERE completed_at IS NULL",
    "completed jobs without a run": """
        SELECT count(*) FROM jobs_job WHERE status = 'completed' AND NOT EXISTS (
            SELECT FROM jobs_run WHERE job_id = jobs_job.id AND wall_ms IS NOT NULL
        )
    """,
}
HEADER = (
    "minutes; jobs/s; active; request p50, p99 ms; created → started ms; started → ended ms; memory MB; Redis MB; "
    "dead rows; files; kills; load"
)


class Submissions:
    """Submits jobs at a fixed rate, in turn for each key, whatever the response times (an open loop).

    Durations are measured from the moment when a submission was due, so a slow server cannot hide its queue.
    """

    def __init__(self, url: str, keys: list[str], *, rate: float) -> None:
        self._url, self._keys, self._rate = url, keys, rate
        self._lock, self._stop, self._next = threading.Lock(), threading.Event(), 0
        self._started = time.monotonic()
        self.durations: list[float] = []
        self.accepted: list[int] = []
        self.errors: list[str] = []

    def close(self) -> None:
        """End the threads that submit."""
        self._stop.set()

    def work(self) -> None:
        """Submit jobs when they are due; other threads do the same."""
        callers = [Caller(self._url, key) for key in self._keys]
        while not self._stop.is_set():
            with self._lock:
                number, self._next = self._next, self._next + 1
            due = self._started + number / self._rate
            if not self._stop.wait(max(0.0, due - time.monotonic())):
                try:
                    self.accepted.append(callers[number % len(callers)].submit())
                    self.durations.append(time.monotonic() - due)
                except (AssertionError, OSError, HTTPException) as error:
                    self.errors.append(repr(error)[:300])


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.soak")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=25, help="submissions per second (default: 25)")
    arguments = parser.parse_args()
    lab.clean_up_when_terminated()
    with lab.local_stack(slots=SLOTS) as stack:
        # Needs Django.
        from bench.accounts import open_keys

        submissions = Submissions(stack.url, open_keys(ACCOUNTS), rate=arguments.rate)
        _load(stack, submissions, minutes=arguments.minutes)
        found = violations(submissions)
        print(f"Commit {current_commit()}: {len(submissions.accepted):,} jobs were accepted and", end=" ")
        print(f"{number(RETRIED):.0f} retried; {number(LOST_RUNS):.0f} runs were lost. Violations:")
        print(*(found or ["none"]), sep="\n")
    return 1 if found else 0


def _load(stack: LocalStack, submissions: Submissions, *, minutes: float) -> None:
    """Submit jobs and kill the worker, print a row for each period, and wait for the last job."""
    next_kill, kills = time.monotonic() + KILL_SECONDS / 2, 0
    rows: list[tuple[str, ...]] = [tuple(HEADER.split("; "))]
    with ThreadPoolExecutor(CALLERS) as pool, closing(submissions):
        for _ in range(CALLERS):
            pool.submit(submissions.work)
        for period in range(1, PERIODS + 1):
            since, end = time.time(), time.monotonic() + minutes * 60 / PERIODS
            while time.monotonic() < end:
                time.sleep(0.5)
                if time.monotonic() > next_kill:
                    next_kill, kills = next_kill + KILL_SECONDS, kills + 1
                    # The stack's supervisor restarts it.
                    processes.programs(stack.supervisor)["sim"][0].kill()
            figures = _figures(stack, submissions, since=since)
            rows.append((f"{period * minutes / PERIODS:.1f}", *figures, str(kills), f"{os.getloadavg()[0]:.1f}"))
            print(formatted(rows).splitlines()[-1], file=sys.stderr, flush=True)
    stack.drain()
    sys.stdout.write(formatted(rows))


def _figures(stack: LocalStack, submissions: Submissions, *, since: float) -> tuple[str, ...]:
    """Return the rates, delays and sizes of the period that began at `since`."""
    durations, submissions.durations = submissions.durations, []
    waits, seconds = column(WAITS, since), time.time() - since
    with Redis.from_url(settings.REDIS_URL) as client:
        redis_bytes = client.info("memory")["used_memory"]
    return (
        f"{len(waits) / seconds:.1f}",
        f"{number(ACTIVE):.0f}",
        *(_spread(each) for each in (durations, waits, column(ENDS, since))),
        processes.listed(processes.megabytes(stack.supervisor)),
        f"{redis_bytes / 1e6:.1f}",
        f"{number(DEAD_ROWS):,.0f}",
        # Some may disappear meanwhile.
        str(sum(len(inner) + len(files) for _, inner, files in os.walk(stack.folder / "files" / "runs"))),
    )


def _spread(seconds: list[float]) -> str:
    return ", ".join(f"{percentile(seconds, percent) * 1000:.1f}" for percent in (50, 99)) if seconds else "-"


def violations(submissions: Submissions) -> list[str]:
    """Return what is wrong after every job has ended."""
    found = [f"{count:.0f} {name}" for name, query in VIOLATIONS.items() if (count := number(query))]
    if missing := count_without_job(submissions.accepted):
        found.append(f"{missing:.0f} accepted submissions without a job of their own")
    return found + failed_checks() + submissions.errors[:20]


def count_without_job(accepted: list[int]) -> float:
    """Return how many submissions were answered with an id that is not stored, or with that of another one."""
    return len(accepted) - number("SELECT count(*) FROM jobs_job WHERE id = ANY(%s)", accepted)


def failed_checks() -> list[str]:
    """Run the commands that check what is stored, and return the output of each that found an error."""
    found = []
    for command in ("verifyledger", "verifyhistory"):
        try:
            lab.manage(command)
        except RuntimeError as error:
            found.append(str(error))
    return found


if __name__ == "__main__":
    sys.exit(main())
