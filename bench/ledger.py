"""Speed of holds and settlements, one pair per job, on a new PostgreSQL server; takes 15 seconds.

The server writes to disk before it responds, as in production. Most of a pair's time is spent in Django, so the
slowest of many concurrent pairs mostly waits for other threads of the process.
"""

import os
import statistics
import sys
import tempfile
import threading
import time
from itertools import count
from pathlib import Path

from localstack.postgres import start_postgres
from localstack.supervisor import Supervisor

THREADS = 8
SECONDS = 4.0
ACCOUNTS = 50


def pairs(*, threads: int, accounts: int) -> tuple[float, float]:
    """Hold and settle in several threads; return pairs per second and the 99th percentile in milliseconds."""
    from billing import ledger
    from billing.models import Account

    payers = list(Account.objects.order_by("pk")[:accounts])
    durations: list[float] = []
    end = time.perf_counter() + SECONDS

    def work() -> None:
        from django.db import connection

        while (started := time.perf_counter()) < end:
            job_id = next(JOBS)
            ledger.hold(payers[job_id % accounts], 3200, job_id=job_id)
            ledger.settle(job_id, spent=64)
            durations.append(time.perf_counter() - started)
        connection.close()

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return len(durations) / SECONDS, statistics.quantiles(durations, n=100)[98] * 1000


JOBS = count(1)


def open_accounts() -> None:
    """Make accounts, each with a grant too small for one hold and many purchased credits."""
    from billing import ledger
    from billing.models import Account, GrantReason, Plan

    plan = Plan.objects.create(name="bench")
    for number in range(ACCOUNTS):
        account = Account.objects.create(name=f"bench-{number}", plan=plan)
        ledger.grant(account, 1_000, reason=GrantReason.PROMO)
        ledger.purchase(account, 10**11, reason="bench")


def measure() -> dict[str, str]:
    """Set up Django on the environment's database and return the rows."""
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    open_accounts()
    rows = {}
    for threads, accounts, name in (
        (1, 1, "one at a time"),
        (THREADS, 1, "one account"),
        (THREADS, ACCOUNTS, f"{ACCOUNTS} accounts"),
    ):
        rate, slowest = pairs(threads=threads, accounts=accounts)
        rows[f"hold and settle, {name}"] = f"{rate:.0f} / s, p99 {slowest:.0f} ms"
    return rows


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        supervisor = Supervisor()
        try:
            folder = Path(directory)
            url = start_postgres(
                supervisor,
                folder / "postgres",
                log=folder / "postgres.log",
                password="bench",  # noqa: S106
            )
            os.environ |= {"DATABASE_URL": url, "REDIS_URL": "redis://127.0.0.1:1", "SECRET_KEY": "bench"}
            os.environ["DJANGO_SETTINGS_MODULE"] = "simservice.settings"
            rows = measure()
        finally:
            supervisor.stop()
    sys.stdout.writelines(f"{name:<34}{figure:>20}\n" for name, figure in rows.items())


if __name__ == "__main__":
    main()
