"""Speed of the API's reads with a million jobs in the database; takes three minutes, mostly to create the jobs.

The workers are suspended, so the waiting jobs keep waiting.
"""

from itertools import cycle, islice

from django.db import connection, transaction
from django.utils import timezone

from bench import processes
from bench.accounts import key_of, open_accounts
from bench.callers import JOBS, Caller, in_parallel
from bench.figures import Value, Values, percentile
from bench.lab import LocalStack
from bench.moves import new_job
from billing.models import Account
from clients.accounts import default_client
from jobs.enums import Status
from jobs.models import Job
from simservice.api.pagination import make_cursor

STORED, QUICK_STORED = 1_000_000, 50_000
REQUESTS, QUICK_REQUESTS = 1_000, 250
CALLERS = 4
WARM_UP = 100
ACCOUNTS = 100
SUMMARY = {"metric": "dps", "mainActor": {"name": "Ada", "mean": 1234.5, "talents": "x" * 500}}
# Copies of two jobs, one every 2.5 seconds until now. The last fiftieth waits, and three in ten are of one account.
FILL = """
    INSERT INTO jobs_job SELECT copy.*
    FROM (
        SELECT n, now() - (%(jobs)s - n) * interval '2.5 seconds' AS at, n > %(jobs)s * 49 / 50 AS waits
        FROM generate_series(1, %(jobs)s) AS n
    ) AS made
    JOIN (SELECT id, account_id, row_number() OVER (ORDER BY id) AS number FROM clients_client
        WHERE account_id >= %(first)s) AS client
        ON client.number = CASE WHEN n %% 10 < 3 THEN 1 ELSE 2 + n %% (%(accounts)s - 1) END
    JOIN jobs_job AS original ON original.id = ANY(%(originals)s) AND (original.completed_at IS NULL) = waits
    CROSS JOIN LATERAL jsonb_populate_record(original, jsonb_build_object(
        'id', (extract(epoch FROM at) * 1000)::bigint * 100000 + n %% 100000,
        'account_id', client.account_id, 'client_id', client.id, 'share_token', substr(md5(n::text), 1, 22),
        'created_at', at, 'updated_at', at, 'queue_deadline_at', at + interval '1 day',
        'started_at', CASE WHEN NOT waits THEN at + interval '1 second' END,
        'completed_at', CASE WHEN NOT waits THEN at + interval '9 seconds' END
    )) AS copy
"""


def measure(stack: LocalStack, *, quick: bool) -> Values:
    """Return the 95th percentiles of a list, a job and a status. For lists and statuses: the slower kind."""
    with processes.suspended(stack.supervisor, but=processes.WEB_AND_SERVERS):
        return _reads(stack.url, *((QUICK_STORED, QUICK_REQUESTS) if quick else (STORED, REQUESTS)))


def _reads(url: str, stored: int, requests: int) -> Values:
    account = open_accounts(ACCOUNTS)[0]
    fill(account, jobs=stored)
    key = key_of(account)
    ended, waiting = (_some_jobs(account, waiting=waiting) for waiting in (False, True))
    deep = Job.objects.filter(account=account).order_by("-id").values_list("pk", flat=True)[stored * 27 // 100]
    paths = {
        "list": [[JOBS], [f"{JOBS}?cursor={make_cursor(account_id=account.pk, last_id=deep)}"]],
        "job": [ended],
        "status": [[f"{job}/status" for job in jobs] for jobs in (ended, waiting)],
    }
    note = f"{stored:,} jobs, {CALLERS} callers"
    return {
        f"reads.{name}": Value(max(_p95(url, key, each, requests=requests) for each in kinds) * 1000, note)
        for name, kinds in paths.items()
    }


def fill(account: Account, *, jobs: int) -> None:
    """Store many jobs without holds, and update the planner's statistics, as autovacuum does in production."""
    now, client = timezone.now(), default_client(account)
    waiting, ended = new_job(client), new_job(client)
    waiting.queue_deadline_at = ended.queue_deadline_at = waiting.created_at = waiting.updated_at = now
    ended.created_at = ended.updated_at = ended.started_at = ended.completed_at = now
    ended.status, ended.attempt, ended.summary = Status.COMPLETED, 1, SUMMARY
    ended.sim_duration_ms, ended.credits_consumed = 8_000, 256
    with connection.cursor() as cursor:
        with transaction.atomic():
            # The rows are consistent, so foreign keys need no checks.
            cursor.execute("SET LOCAL session_replication_role = replica")
            originals = [job.pk for job in Job.objects.bulk_create([waiting, ended])]
            cursor.execute(FILL, {"jobs": jobs, "accounts": ACCOUNTS, "first": account.pk, "originals": originals})
            cursor.execute("DELETE FROM jobs_job WHERE id = ANY(%s)", [originals])
        cursor.execute("VACUUM ANALYZE")


def _some_jobs(account: Account, *, waiting: bool) -> list[str]:
    """Return the paths of up to 1,000 jobs across the account's history."""
    jobs = Job.objects.filter(account=account, completed_at__isnull=waiting).order_by("share_token")
    return [f"{JOBS}/{number}" for number in jobs.values_list("pk", flat=True)[:1000]]


def _p95(url: str, key: str, paths: list[str], *, requests: int) -> float:
    """Distribute requests over the callers, after a warm-up; return the 95th percentile in seconds."""

    def read(number: int) -> list[float]:
        caller = Caller(url, key)
        durations = [
            caller.timed("GET", path) for path in islice(cycle(paths), number, WARM_UP + requests, CALLERS)
        ]
        return durations[WARM_UP // CALLERS :]

    return percentile(in_parallel(read, callers=CALLERS), 95)
