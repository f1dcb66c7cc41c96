"""Speed of holds and settlements, one pair per job, on a new PostgreSQL server; takes 15 seconds.

The server writes to disk before it responds, as in production. Most of a pair's time is spent in Django, so the
slowest of many concurrent pairs mostly waits for other threads of the process.
"""

import threading
import time
from itertools import count

from bench.figures import Value, Values
from bench.holds import hold, settle
from bench.percentiles import percentile
from bench.stores import django_on_stores

THREADS = 8
SECONDS = 4.0
ACCOUNTS = 50


def pairs(*, threads: int, accounts: int, seconds: float) -> tuple[float, float]:
    """Hold and settle in several threads; return pairs per second and the 99th percentile in milliseconds."""
    from billing.models import Account

    payers = list(Account.objects.order_by("pk")[:accounts])
    durations: list[float] = []
    end = time.perf_counter() + seconds

    def work() -> None:
        from django.db import connection

        while (started := time.perf_counter()) < end:
            job_id = next(JOBS)
            hold(payers[job_id % accounts], 3200, job_id=job_id)
            settle(job_id, spent=64)
            durations.append(time.perf_counter() - started)
        connection.close()

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return len(durations) / seconds, percentile(durations, 99) * 1000


JOBS = count(1)


def open_accounts() -> None:
    """Make accounts, each with a grant too small for one hold and many purchased credits."""
    from billing import ledger
    from billing.models import Account, GrantReason, Plan

    plan = Plan.objects.create(name="bench")
    for number in range(ACCOUNTS):
        account = Account.objects.create(name=f"bench-{number}", plan=plan)
        ledger.grant(account, 1_000, reason=GrantReason.PROMO)
        ledger.correct(account, 10**11, reason="bench")


def measure(*, quick: bool) -> Values:
    """Return the rates of three kinds of use."""
    seconds = SECONDS / 4 if quick else SECONDS
    with django_on_stores():
        open_accounts()
        kinds = {"alone": (1, 1), "one_account": (THREADS, 1), "pairs": (THREADS, ACCOUNTS)}
        values = {}
        for name, (threads, accounts) in kinds.items():
            rate, slowest = pairs(threads=threads, accounts=accounts, seconds=seconds)
            values[f"ledger.{name}"] = Value(rate, f"{threads} threads, p99 {slowest:.0f} ms")
    return values
