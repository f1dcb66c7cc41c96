"""Holds and settlements, one pair per job.

Most of a pair's time is spent in Django, so the slowest of many concurrent pairs mostly waits for other threads of
the process.
"""

import time
from itertools import count

from bench import processes
from bench.accounts import open_accounts
from bench.figures import Value, Values, percentile
from bench.holds import hold, settle
from bench.lab import LocalStack
from bench.moves import in_threads
from billing import ledger
from billing.models import Account, GrantReason

THREADS = 8
SECONDS, QUICK_SECONDS = 4.0, 1.0
ACCOUNTS = 50
NUMBERS = count(1)


def measure(stack: LocalStack, *, quick: bool) -> Values:
    """Return the rates of three kinds of use."""
    accounts, seconds = open_accounts(ACCOUNTS), QUICK_SECONDS if quick else SECONDS
    for account in accounts:
        # Too small for one hold, so that a hold takes purchased credits too.
        ledger.grant(account, 1_000, reason=GrantReason.PROMO)
    with processes.suspended(stack.supervisor):
        return {
            "ledger.pairs": pairs(accounts, threads=THREADS, seconds=seconds),
            "ledger.one_account": pairs(accounts[:1], threads=THREADS, seconds=seconds),
            "ledger.alone": pairs(accounts[:1], threads=1, seconds=seconds),
        }


def pairs(accounts: list[Account], *, threads: int, seconds: float) -> Value:
    """Hold and settle credits of the accounts in turn; return the pairs per second."""
    durations, end = list[float](), time.perf_counter() + seconds

    def work(_: int) -> None:
        while (started := time.perf_counter()) < end:
            job_id = next(NUMBERS)
            hold(accounts[job_id % len(accounts)], 3_200, job_id=job_id)
            settle(job_id, spent=64)
            durations.append(time.perf_counter() - started)

    in_threads(work, threads=threads)
    slowest = percentile(durations, 99) * 1000
    return Value(len(durations) / seconds, f"{threads} threads, p99 {slowest:.0f} ms")
