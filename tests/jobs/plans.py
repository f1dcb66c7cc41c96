"""Plans of the statements that an action executes, with the number of pages that each statement reads."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Model

from simservice.postgresql.base import PreparedCursor, numbered

# Copies a job; the expressions replace its columns, and `n` is the number of the copy. In the list of columns,
# PostgreSQL would call the function again for every column.
COPY = """
    INSERT INTO jobs_job SELECT copy.*
    FROM jobs_job AS job, generate_series(1, %s) AS n, jsonb_populate_record(job, jsonb_build_object(
        'id', job.id + n * %s, 'share_token', job.id + n * %s, 'priority', n %% 3) || {changes}) AS copy
    WHERE job.id = %s
"""
ENDED = """jsonb_build_object('status', 'failed', 'error_code', 'internal', 'completed_at', now(),
    'credits_consumed', 0)"""
PAUSED = "jsonb_build_object('priority', 0, 'paused_at', now())"
OVERDUE = "jsonb_build_object('priority', 0, 'queue_deadline_at', now() - interval '1 minute')"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How PostgreSQL executed a statement."""

    sql: str
    # The plan's nodes, each with its relation and index if it has one
    nodes: list[tuple[str, str, str]]
    # Pages of tables and indexes
    pages: int

    @property
    def scanned(self) -> set[str]:
        """Return the tables that were read from beginning to end."""
        return {table for kind, table, _ in self.nodes if kind == "Seq Scan"}

    @property
    def indexes(self) -> set[str]:
        return {index for _, _, index in self.nodes if index}


def copy_job(job_id: int, count: int, *, changes: str = "'{}'::jsonb", step: int = 1) -> None:
    """Insert copies of a job with ids that differ by `step`."""
    with connection.cursor() as cursor:
        cursor.execute(COPY.format(changes=changes), [count, step, step, job_id])
        cursor.execute("ANALYZE jobs_job")


def reindex_jobs() -> None:
    """Remove from the indexes of jobs the rows that earlier tests have rolled back."""
    with connection.cursor() as cursor:
        cursor.execute("REINDEX TABLE jobs_job")


def forget_statistics(*models: type[Model]) -> None:
    """Let PostgreSQL plan as if it had never analysed the tables; earlier tests leave some almost empty.

    Indexes that earlier tests have filled would seem more expensive than others, so they are built again.
    """
    with connection.cursor() as cursor:
        # Tables with unchecked rows cannot be reindexed.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for model in models:
            table = model._meta.db_table
            cursor.execute(f"REINDEX TABLE {table}")
            cursor.execute("SELECT pg_clear_relation_stats('public', %s)", [table])
            cursor.execute("DELETE FROM pg_statistic WHERE starelid = %s::regclass", [table])


def plans_of(action: Callable[[], object], *, table: str) -> list[Plan]:
    """Execute an action. Execute its statements that read a table again, roll them back, and return their plans."""
    executed: list[tuple[str, Any, bool]] = []

    def execute(run: Callable[..., Any], sql: str, values: Any, many: bool, context: Mapping[str, Any]) -> Any:  # noqa: FBT001
        executed.append((sql, values, isinstance(context["cursor"].cursor, PreparedCursor)))
        return run(sql, values, many, context)

    with connection.execute_wrapper(execute):
        action()
    return [
        plan_of(sql, values, is_prepared=is_prepared)
        for sql, values, is_prepared in executed
        if f'FROM "{table}"' in sql or f"FROM {table}" in sql
    ]


def plan_of(sql: str, values: Any = None, *, is_prepared: bool = False) -> Plan:
    """Return the plan of the second of two executions, because the first one can read dead index entries."""
    for _ in range(2):
        root = explained(sql if values else sql.replace("%", "%%"), values, is_prepared=is_prepared)
    pages = root["Shared Hit Blocks"] + root["Shared Read Blocks"]
    return Plan(sql=sql, nodes=[_described(node) for node in _nodes(root)], pages=pages)


def explained(sql: str, values: Any, *, is_prepared: bool) -> dict[str, Any]:
    """Execute a statement and return the root of its plan. A prepared statement has one plan for all values."""
    explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)"
    text = f"{explain} {sql}"
    if is_prepared:
        prepared, names = numbered(sql)
        execute = f"EXECUTE explained ({', '.join(f'%({name})s' for name in names)})"
        text = f"PREPARE explained AS {prepared.decode()}; {explain} {execute}; DEALLOCATE explained"
    with connection.cursor() as cursor:
        cursor.execute(text, values or [])
        if is_prepared:
            cursor.nextset()
        (tree,) = cursor.fetchone()
    root: dict[str, Any] = (tree if isinstance(tree, list) else json.loads(tree))[0]["Plan"]
    return root


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a node and all nodes below it."""
    yield node
    for child in node.get("Plans", []):
        yield from _nodes(child)


def _described(node: dict[str, Any]) -> tuple[str, str, str]:
    """Return the kind, the table and the index of a node."""
    return node["Node Type"], node.get("Relation Name", ""), node.get("Index Name", "")
