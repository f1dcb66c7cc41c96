"""PostgreSQL and workers in trouble under load: `python -m bench.pressure --runs 3`.

A whole stack runs tiny jobs that arrive at a fixed rate, with a webhook each. In each of nine scenarios, it is
measured before, during and after a disturbance (`disturbances.py`). Prints a row for each run; the exit status is 1
if a job, an event or a webhook was lost, or a job or an event doubled.
"""

import argparse
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from django.db import connection

from bench import lab, receiver
from bench.callers import JOBS, PROFILE, Caller
from bench.disturbances import SCENARIOS, Scenario, Site
from bench.figures import percentile
from bench.lab import FAILED, SLOTS, LocalStack, column, number
from bench.results import current_commit, formatted
from bench.soak import DEAD_ROWS, VIOLATIONS, count_without_job, failed_checks

ACCOUNTS = 50
CALLERS = 16
RAMP_SECONDS = 3.0
# The load before and after a disturbance, as a share of the duration of the disturbance
SHARE_AROUND = 0.25
MIN_SECONDS_AROUND = 10.0
RETRY_SECONDS = 0.1
PATIENCE_SECONDS = 60.0
WEBHOOK_SECONDS = 180.0
RECOVERY_AIM, PRESSURE_AIM = 0.98, 0.9
BODY = {"build": {"channel": "latest"}, "profile": {"text": PROFILE}, "webhook": {"events": ["job.terminal"]}}
COMPLETED = """
    SELECT count(*) FROM jobs_job
    WHERE status = 'completed' AND completed_at >= to_timestamp(%s) AND completed_at < to_timestamp(%s)
"""
# The seconds until a slot claimed a job for the first time
CLAIMS = """
    SELECT extract(epoch FROM min(at) - created_at) FROM jobs_job
    JOIN jobs_jobevent AS event ON event.job_id = jobs_job.id AND to_status = 'starting'
    WHERE created_at >= to_timestamp(%s) AND created_at < to_timestamp(%s) GROUP BY jobs_job.id
"""
# The longest time in which no job ended, from the first moment to the last one
PAUSE = """
    SELECT max(pause) FROM (
        SELECT extract(epoch FROM at - lag(at) OVER (ORDER BY at)) AS pause FROM (
            SELECT completed_at AS at FROM jobs_job
            WHERE completed_at >= to_timestamp(%s) AND completed_at < to_timestamp(%s)
            UNION ALL SELECT to_timestamp(unnest(ARRAY[%s, %s]::float8[]))
        ) AS moments
    ) AS pauses
"""
UNDELIVERED = "SELECT count(*) FROM webhooks_event WHERE state <> 'delivered'"
WITHOUT_EVENT = """
    SELECT count(*) FROM jobs_job WHERE wants_webhook AND NOT EXISTS (
        SELECT FROM webhooks_event WHERE job_id = jobs_job.id
    )
"""
UNTOLD = "SELECT count(*) FROM jobs_job WHERE created_at >= %s AND id <> ALL(%s)"
RETRIED = "SELECT count(*) FROM jobs_job WHERE attempt > 1 AND created_at >= to_timestamp(%s)"
IN_PLACE = """
    SELECT relname, n_tup_upd, n_tup_hot_upd, pg_relation_size(relid) FROM pg_stat_user_tables
    WHERE n_tup_upd > 0 ORDER BY n_tup_upd DESC LIMIT 8
"""
HEADER = (
    "scenario; jobs/s before, during, after; during; after; claim p50, p99 ms before; during; after; "
    "longest pause s; dead rows before, most, after; pages per claim before, most, after; refused; retried; "
    "kinds of loss"
)


class Load:
    """Submits jobs at a fixed rate, in turn for each key, whatever the response times (an open loop).

    A submission that fails is repeated with the same idempotency key until it is accepted.
    """

    def __init__(self, url: str, keys: Sequence[str], *, rate: float) -> None:
        self._url, self._keys, self.rate = url, keys, rate
        self._lock, self._stop, self._next = threading.Lock(), threading.Event(), 0
        self._due, self._burst, self._name = time.monotonic(), 0, f"{time.time():.6f}"
        self.started_at = datetime.now(UTC)
        self.accepted: list[int] = []
        self.refused: Counter[str] = Counter()
        # The keys of submissions that were refused until patience ended
        self.given_up: list[str] = []

    def close(self) -> None:
        """End the threads that submit, after their last submissions."""
        self._stop.set()

    def add_burst(self, count: int) -> None:
        """Let so many submissions be due at once."""
        with self._lock:
            self._burst += count

    def work(self) -> None:
        """Submit jobs when they are due; other threads do the same."""
        callers = [Caller(self._url, key) for key in self._keys]
        while not self._stop.is_set():
            number = self._wait_until_due()
            if not self._stop.is_set():
                self._submit(callers[number % len(callers)], f"{self._name}-{number}")

    def _wait_until_due(self) -> int:
        """Wait until the next submission is due; return its number. One thread waits, the others wait for it."""
        with self._lock:
            self._next += 1
            if self._burst:
                self._burst -= 1
            else:
                self._due += 1 / self.rate
                self._stop.wait(max(0.0, self._due - time.monotonic()))
            return self._next

    def _submit(self, caller: Caller, key: str) -> None:
        end, body = time.monotonic() + PATIENCE_SECONDS, json.dumps(BODY).encode()
        while time.monotonic() < end:
            try:
                accepted = caller.request("POST", JOBS, body, {"Idempotency-Key": key})
            except (AssertionError, OSError, HTTPException) as error:
                self.refused[repr(error)[:200]] += 1
                time.sleep(RETRY_SECONDS)
            else:
                self.accepted.append(int(accepted["id"]))
                return
        self.given_up.append(key)


@dataclass
class Samples:
    """Dead rows of all tables, and the pages that a claim reads, once a second during one phase."""

    dead_rows: list[float] = field(default_factory=list)
    pages: list[float] = field(default_factory=list)


class Watcher:
    """Samples the database once a second, on a connection that is not the service's."""

    def __init__(self, site: Site) -> None:
        self._site, self.samples, self._stop = site, Samples(), threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._watching = self._pool.submit(self._watch)

    def close(self) -> None:
        """Stop. Raises what stopped the samples before."""
        self._stop.set()
        self._watching.result()
        self._pool.shutdown()

    def take(self) -> Samples:
        """Return the samples since the last call."""
        taken, self.samples = self.samples, Samples()
        return taken

    def _watch(self) -> None:
        while not self._stop.wait(1):
            with suppress(psycopg.OperationalError), self._site.connect() as database:
                while not self._stop.wait(1):
                    self._sample(psycopg.ClientCursor(database))

    def _sample(self, cursor: "psycopg.ClientCursor[Any]") -> None:
        samples = self.samples
        samples.dead_rows += [float(dead) for (dead,) in cursor.execute(DEAD_ROWS)]
        samples.pages.append(pages_of_claim(cursor))


def pages_of_claim(cursor: "psycopg.ClientCursor[Any]") -> float:
    """Return how many pages a claim reads that finds no job, because it skips those of the only branch."""
    # Needs Django.
    from jobs.enums import Priority
    from jobs.lifecycle.job_moves import COMMIT_SECONDS, SQL, values_of_claim

    cursor.execute(SQL["find_first_ids"], {"lanes": list(Priority), "commit_seconds": COMMIT_SECONDS})
    values = values_of_claim("pressure", skipped_branches=["midnight"], first_ids=dict(cursor.fetchall()))
    cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {SQL['claim_job']}", values)
    ((plan,),) = cursor.fetchall()
    root = plan[0]["Plan"]
    return float(root["Shared Hit Blocks"] + root["Shared Read Blocks"])


@dataclass(kw_only=True)
class Phase:
    """The time before, during or after a disturbance (Unix time), and what was sampled in it."""

    started: float
    ended: float
    samples: Samples

    @property
    def rate(self) -> float:
        """Return the jobs that completed per second."""
        return number(COMPLETED, self.started, self.ended) / (self.ended - self.started)

    @property
    def claims(self) -> str:
        """Return the median and the 99th percentile of the milliseconds until jobs were claimed."""
        seconds = column(CLAIMS, self.started, self.ended)
        return ", ".join(f"{percentile(seconds, each) * 1000:.0f}" for each in (50, 99)) if seconds else "-"


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.pressure")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120, help="duration of a disturbance (default: 120)")
    parser.add_argument("--rate", type=float, default=20, help="submissions per second (default: 20)")
    parser.add_argument("--only", nargs="*", choices=SCENARIOS, default=list(SCENARIOS))
    arguments = parser.parse_args()
    lab.clean_up_when_terminated()
    rows, found = [tuple(HEADER.split("; "))], list[str]()
    with _stack_with_receiver() as (stack, address):
        keys = _open_keys(address)
        for name in (each for each in arguments.only for _ in range(arguments.runs)):
            row, wrong = measure(stack, keys, SCENARIOS[name], rate=arguments.rate, seconds=arguments.seconds)
            rows.append(row)
            found += wrong
            print(*formatted(rows).splitlines()[-1:], *wrong, sep="\n", file=sys.stderr, flush=True)
        print(f"Commit {current_commit()}, {arguments.rate:g} jobs a second\n")
        sys.stdout.write(
            f"{formatted(rows)}\nSince the last crash of PostgreSQL:\n{formatted(_updates_in_place())}"
        )
    print("\nLost or doubled:", *(found or ["nothing"]), sep="\n")
    return 1 if found else 0


@contextmanager
def _stack_with_receiver() -> Iterator[tuple[LocalStack, str]]:
    """Run a stack and a receiver that it may send webhooks to; yield both."""
    with TemporaryDirectory(prefix="simservice-receiver-") as folder:
        certificate = Path(folder) / "receiver.pem"
        with receiver.running(certificate) as address:
            os.environ.update(WEBHOOK_ALLOWED_ADDRESSES=address, WEBHOOK_CA_FILE=str(certificate))
            with lab.local_stack(slots=SLOTS) as stack:
                yield stack, address


def _open_keys(address: str) -> list[str]:
    """Open accounts, each with a client that has a webhook; return a key of each client."""
    # Need Django.
    from bench.accounts import open_accounts
    from clients.audit import SYSTEM
    from clients.keys import create_key
    from clients.models import Client
    from webhooks import endpoints

    clients = [Client.objects.create(account=account, name="bench") for account in open_accounts(ACCOUNTS)]
    for client in clients:
        endpoints.configure(client, f"https://{address}/hook", by=SYSTEM)
    return [create_key(client, by=SYSTEM)[1] for client in clients]


def measure(
    stack: LocalStack, keys: Sequence[str], scenario: Scenario, *, rate: float, seconds: float
) -> tuple[tuple[str, ...], list[str]]:
    """Run a scenario. Return its row, and what was lost or doubled."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
    connection.close()
    site = Site(stack=stack, database_url=os.environ["DATABASE_URL"], seconds=seconds * scenario.length)
    load, around = Load(stack.url, keys, rate=rate), max(MIN_SECONDS_AROUND, seconds * SHARE_AROUND)
    with ThreadPoolExecutor(CALLERS) as pool, closing(load), closing(Watcher(site)) as watcher:
        working = [pool.submit(load.work) for _ in range(CALLERS)]
        time.sleep(RAMP_SECONDS)
        before = _phase(watcher, lambda: time.sleep(around))
        load.rate *= scenario.load
        load.add_burst(int(rate * scenario.burst_seconds))
        during = _phase(watcher, lambda: scenario.disturb(site))
        load.rate = rate
        after = _phase(watcher, lambda: time.sleep(around))
    for each in working:
        each.result()
    stack.drain()
    wrong = [f"{scenario.title}: {each}" for each in _losses(load)]
    return _row(scenario, load, (before, during, after), lost=len(wrong)), wrong


def _phase(watcher: Watcher, wait: Callable[[], None]) -> Phase:
    """Wait; return what happened meanwhile."""
    watcher.take()
    started = time.time()
    wait()
    return Phase(started=started, ended=time.time(), samples=watcher.take())


def _row(scenario: Scenario, load: Load, phases: tuple[Phase, Phase, Phase], *, lost: int) -> tuple[str, ...]:
    before, during, after = phases
    rates = [phase.rate for phase in phases]
    due = scenario.due_rate(rates[0], seconds=during.ended - during.started)
    bounds = (during.started, after.ended)
    dead_rows = [phase.samples.dead_rows for phase in phases]
    pages = [phase.samples.pages for phase in phases]
    return (
        scenario.title,
        ", ".join(f"{rate:.1f}" for rate in rates),
        _judged(rates[1] / due, PRESSURE_AIM),
        _judged(rates[2] / rates[0], RECOVERY_AIM),
        *(phase.claims for phase in phases),
        f"{number(PAUSE, *bounds, *bounds):.1f}",
        _extremes(dead_rows),
        _extremes(pages),
        str(load.refused.total()),
        f"{number(RETRIED, before.started):.0f}",
        str(lost),
    )


def _judged(share: float, aim: float) -> str:
    return f"{share:.1%} {'✓' if share >= aim else '✗'}"


def _extremes(phases: Sequence[Sequence[float]]) -> str:
    """Return the last value before the disturbance, the largest during and after it, and the last one."""
    before, during, after = phases
    values = (before[-1:], sorted([*during, *after])[-1:], after[-1:])
    return ", ".join(f"{value[0]:,.0f}" if value else "-" for value in values)


def _losses(load: Load) -> list[str]:
    """Return what was lost or doubled in this and earlier runs, after all jobs have ended."""
    deadline = time.monotonic() + WEBHOOK_SECONDS
    while number(UNDELIVERED) and time.monotonic() < deadline:
        time.sleep(0.5)
    counts = {
        "webhooks that were not delivered": number(UNDELIVERED),
        "jobs without a webhook": number(WITHOUT_EVENT),
        "jobs that did not complete": number(FAILED),
        "accepted submissions without a job of their own": count_without_job(load.accepted),
        "stored jobs that no caller was told of": number(UNTOLD, load.started_at, load.accepted),
        **{name: number(query) for name, query in VIOLATIONS.items()},
    }
    found = [f"{count:.0f} {name}" for name, count in counts.items() if count]
    return [*found, *failed_checks(), *(f"never accepted: {key}" for key in load.given_up)]


def _updates_in_place() -> list[tuple[str, ...]]:
    """Return the updates of the tables that change most, and how many needed no new entry in an index."""
    with connection.cursor() as cursor:
        cursor.execute(IN_PLACE)
        rows = [
            (name, f"{updates:,}", f"{in_place / updates:.0%}", f"{size / 1e6:.1f}")
            for name, updates, in_place, size in cursor
        ]
    return [("table", "updates", "in place", "MB"), *rows]


if __name__ == "__main__":
    sys.exit(main())
