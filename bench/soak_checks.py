"""The soak's queries: figures of a period, and checks that no job was lost or billed twice."""

import os
import time
from collections.abc import Mapping
from typing import Any

import redis

from bench import machine, processes
from bench.local import LocalStack
from bench.percentiles import milliseconds, percentile

# The report lists only the tables with the most dead rows.
LISTED_TABLES = 6
ENDED = "completed_at > to_timestamp(%s) AND completed_at <= to_timestamp(%s)"
# The stub simulator names its actor with the Unix time of its start.
STARTED = "(summary->'mainActor'->>'name')::float8"
WAITS = f"SELECT {STARTED} - extract(epoch FROM created_at) FROM jobs_job WHERE {ENDED} AND status = 'completed'"  # noqa: S608
ENDS = f"SELECT extract(epoch FROM completed_at) - {STARTED} FROM jobs_job WHERE {ENDED} AND status = 'completed'"  # noqa: S608
JOBS = f"SELECT count(*) FROM jobs_job WHERE {ENDED}"  # noqa: S608
DEAD = "SELECT relname, n_dead_tup FROM pg_stat_user_tables WHERE n_dead_tup > 0 ORDER BY n_dead_tup DESC LIMIT %s"
STATUSES = "SELECT status, count(*) FROM jobs_job GROUP BY status"
LOST_RUNS = "SELECT count(*) FROM jobs_run WHERE stopped_for = 'lost'"
RETRIED = "SELECT count(*) FROM jobs_job WHERE attempt > 1"
TERMINAL = "('completed', 'failed', 'cancelled', 'timed_out')"
# Each query returns a number that must be 0.
VIOLATIONS = {
    "jobs that have not ended": "SELECT count(*) FROM jobs_job WHERE completed_at IS NULL",
    "jobs without exactly one end": f"""
        SELECT count(*) FROM (
            SELECT FROM jobs_job LEFT JOIN jobs_jobevent ON job_id = jobs_job.id AND to_status IN {TERMINAL}
            GROUP BY jobs_job.id HAVING count(job_id) <> 1
        ) AS wrong
    """,  # noqa: S608
    "jobs without exactly one settled hold": """
        SELECT count(*) FROM jobs_job LEFT JOIN billing_hold ON job_id = jobs_job.id
        WHERE resolved_at IS NULL OR spent <> credits_consumed
    """,
    "runs that have not ended": "SELECT count(*) FROM jobs_run WHERE ended_at IS NULL",
    "completed jobs without a run of their last attempt": """
        SELECT count(*) FROM jobs_job WHERE status = 'completed' AND NOT EXISTS (
            SELECT FROM jobs_run WHERE job_id = jobs_job.id AND jobs_run.attempt = jobs_job.attempt
        )
    """,
    "attempts without their claim": """
        SELECT abs((SELECT count(*) FROM jobs_jobevent WHERE to_status = 'starting')
            - (SELECT coalesce(sum(attempt), 0) FROM jobs_job))
    """,
    "runs of attempts that were never claimed": """
        SELECT count(*) FROM jobs_run JOIN jobs_job ON jobs_job.id = job_id
        WHERE jobs_run.attempt > jobs_job.attempt
    """,
}


def period(stack: LocalStack, *, since: float, submissions: list[float]) -> dict[str, Any]:
    """Return the figures of the period from `since` until now."""
    now = time.time()
    return {
        "seconds": round(now - since),
        "load": machine.load(),
        "jobsPerSecond": round(stack.number(JOBS, since, now) / (now - since), 1),
        "active": stack.active_jobs(),
        "submit": _spread(submissions),
        "createdToStarted": _spread(stack.column(WAITS, since, now)),
        "startedToEnded": _spread(stack.column(ENDS, since, now)),
        "memoryMb": {name: round(size) for name, size in processes.megabytes(stack.supervisor).items()},
        "deadRows": stack.pairs(DEAD, LISTED_TABLES),
        "redisMb": round(_redis_megabytes(stack), 1),
        "runFiles": _files_in(stack, "files", "runs"),
        "logsMb": round(_log_megabytes(stack), 1),
    }


def _spread(seconds: list[float]) -> list[float]:
    """Return p50 and p99 in milliseconds, or nothing if there are no values."""
    return [round(percentile(milliseconds(seconds), each), 1) for each in (50, 99)] if seconds else []


def _redis_megabytes(stack: LocalStack) -> float:
    with redis.Redis.from_url(stack.redis_url) as client:
        return float(client.info("memory")["used_memory"]) / 1e6


def _files_in(stack: LocalStack, *folders: str) -> int:
    """Return the number of files and folders below a folder of the stack's data. Some may disappear meanwhile."""
    return sum(len(inner) + len(files) for _, inner, files in os.walk(stack.folder.joinpath(*folders)))


def _log_megabytes(stack: LocalStack) -> float:
    return sum(log.stat().st_size for log in (stack.folder / "logs").iterdir()) / 1e6


def verdict(stack: LocalStack, accepted: list[int]) -> dict[str, Any]:
    """Return violations and counts after every job has ended. `accepted` are the ids that callers received."""
    violations = {name: int(stack.number(query)) for name, query in VIOLATIONS.items()}
    stored = int(stack.number("SELECT count(*) FROM jobs_job WHERE id = ANY(%s)", accepted))
    violations["accepted jobs that are not stored"] = len(accepted) - stored
    books = stack.manage("verifyledger")
    return {
        "violations": {name: count for name, count in violations.items() if count},
        "verifyledger": (books.stdout + books.stderr).strip().splitlines()[-1:],
        "clean": not any(violations.values()) and books.returncode == 0,
        "statuses": stack.pairs(STATUSES),
        "retriedJobs": int(stack.number(RETRIED)),
        "lostRuns": int(stack.number(LOST_RUNS)),
    }


def listed(figures: Mapping[str, Any]) -> str:
    """Return a mapping as a text."""
    return ", ".join(f"{name} {value}" for name, value in figures.items())
