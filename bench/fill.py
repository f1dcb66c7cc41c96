"""Rows of many jobs, inserted by one statement for each table. Needs Django."""

import json
from dataclasses import dataclass

from django.db import connection, models, transaction

from jobs.models import Job, JobProfile

SUMMARY = json.dumps({"metric": "dps", "mainActor": {"name": "Ada", "mean": 1234.5, "talents": "x" * 500}})
JOB_VALUES = {
    "id": "named.id",
    "account_id": "client.account_id",
    "client_id": "client.id",
    "priority": "n % 3",
    "channel": "'latest'",
    "git_branch": "'midnight'",
    "metadata": """'{"source": "bench"}'""",
    "ceiling_credits": "3200",
    "ceiling_runtime_seconds": "100",
    "ceiling_queue_seconds": "86400",
    "credits_per_second": "32",
    "vcpus": "2",
    "status": "made.status",
    "attempt": "made.ended::int",
    "created_at": "made.created_at",
    "updated_at": "made.created_at",
    "queue_deadline_at": "made.created_at + interval '1 day'",
    "started_at": "CASE WHEN made.ended THEN made.created_at + interval '1 second' END",
    "completed_at": "CASE WHEN made.ended THEN made.created_at + interval '9 seconds' END",
    "error_code": "CASE WHEN made.ended AND made.status <> 'completed' THEN 'simulation_error' END",
    "sim_duration_ms": "CASE WHEN made.ended THEN 8000 END",
    "credits_consumed": "CASE WHEN made.ended THEN 256 END",
    "summary": f"CASE WHEN made.status = 'completed' THEN '{SUMMARY}'::jsonb END",
    "share_token": "substr(md5(n::text), 1, 22)",
}
PROFILE_VALUES = {"job_id": "named.id", "text": """'mage="Ada"'"""}


@dataclass(frozen=True, kw_only=True)
class Series:
    """Jobs with the numbers `first` to `last`, one every `seconds_apart` until now. The last `waiting` jobs wait.

    Three in ten belong to the first account. The others are distributed unevenly over all other accounts.
    """

    first: int = 1
    last: int
    waiting: int
    accounts: int
    seconds_apart: float = 2.5

    @property
    def sql(self) -> str:
        """Return the FROM clause that makes the series."""
        return f"""
    FROM generate_series({self.first}, {self.last}) AS n
    JOIN (SELECT id, account_id, row_number() OVER (ORDER BY id) AS number FROM clients_client) AS client
        ON client.number = CASE WHEN n % 10 < 3 THEN 1
            ELSE 2 + floor({self.accounts - 1} * power(n::bigint * 7919 % 1000003 / 1000003.0, 2)) END
    CROSS JOIN LATERAL (SELECT
        now() - ({self.last} - n) * interval '{self.seconds_apart} seconds' AS created_at,
        n <= {self.last - self.waiting} AS ended,
        CASE WHEN n > {self.last - self.waiting} THEN 'queued'
            WHEN n % 7 > 0 THEN 'completed'
            ELSE (ARRAY['failed', 'cancelled', 'timed_out'])[1 + n / 7 % 3] END AS status
    ) AS made
    CROSS JOIN LATERAL (
        SELECT (extract(epoch FROM made.created_at) * 1000)::bigint * 100000 + n % 100000 AS id
    ) AS named
"""  # noqa: S608 - numbers


def insert(series: Series) -> None:
    """Insert the jobs of a series with their profiles. They have no holds."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            # The rows are consistent, so foreign keys need no checks.
            cursor.execute("SET LOCAL session_replication_role = replica")
        _fill(Job, JOB_VALUES, series)
        _fill(JobProfile, PROFILE_VALUES, series)


def _fill(model: type[models.Model], values: dict[str, str], series: Series) -> None:
    """Insert a row of `model` for each job. Fields that are not in `values` have their defaults."""
    meta = model._meta  # noqa: SLF001 - public by its documentation
    fields = meta.concrete_fields
    defaults = [field.get_default() for field in fields if field.column not in values]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    expressions = ", ".join(values.get(str(field.column), "{}") for field in fields)
    statement = f"INSERT INTO {meta.db_table} ({columns}) SELECT {expressions} {series.sql}"
    with connection.cursor() as cursor:
        cursor.execute(statement.replace("%", "%%").replace("{}", "%s"), defaults)


def analyze() -> None:
    """Update the planner's statistics, as autovacuum does in production."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
