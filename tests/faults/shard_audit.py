"""A record of every change of shards, their stages and their runs, written by triggers during a fault run."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

from django.db import connection

# The texts of shards are recorded once. Of jobs, only status changes and cancellations are recorded.
CREATE = """
    CREATE TABLE fault_audit (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(),
        xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
        changed_by text NOT NULL DEFAULT current_setting('application_name'),
        source text NOT NULL, old jsonb, new jsonb
    );
    CREATE FUNCTION fault_audit() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        old_row jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - 'text' - 'base_text' END;
        new_row jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - 'base_text' END;
    BEGIN
        INSERT INTO fault_audit (source, old, new) VALUES (
            TG_TABLE_NAME, old_row, CASE WHEN TG_OP = 'INSERT' THEN new_row ELSE new_row - 'text' END
        );
        RETURN NULL;
    END $$;
    CREATE TRIGGER fault_audit AFTER INSERT OR UPDATE OR DELETE ON jobs_shard
        FOR EACH ROW EXECUTE FUNCTION fault_audit();
    CREATE TRIGGER fault_audit AFTER INSERT OR UPDATE OR DELETE ON jobs_shardedstage
        FOR EACH ROW EXECUTE FUNCTION fault_audit();
    CREATE TRIGGER fault_audit AFTER INSERT OR UPDATE ON jobs_run
        FOR EACH ROW EXECUTE FUNCTION fault_audit();
    CREATE TRIGGER fault_audit AFTER UPDATE ON jobs_job FOR EACH ROW
        WHEN (OLD.status <> NEW.status OR OLD.cancel_requested_at IS DISTINCT FROM NEW.cancel_requested_at)
        EXECUTE FUNCTION fault_audit();
"""
DROP = "DROP FUNCTION fault_audit() CASCADE; DROP TABLE fault_audit"

Row = dict[str, Any]


@contextmanager
def auditing() -> Iterator[None]:
    """Record changes in the table `fault_audit` while the block runs."""
    with connection.cursor() as cursor:
        cursor.execute(CREATE)
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(DROP)


@dataclass(frozen=True, kw_only=True)
class Change:
    """A changed row, before and after. `at` is in Unix seconds. `pid` is the process that changed it, or 0."""

    number: int
    at: float
    transaction: int
    pid: int
    source: str
    old: Row | None
    new: Row | None

    @property
    def row(self) -> Row:
        """Return the row after the change, or before its deletion."""
        row = self.new or self.old
        assert row is not None
        return row


@dataclass
class StageHistory:
    """The changes of one sharded stage and its shards, in order: each was made under a lock of the stage."""

    changes: list[Change] = field(default_factory=list)

    @cached_property
    def stage(self) -> Row:
        """Return the last state of the stage's row."""
        return [change.row for change in self.changes if change.source == "jobs_shardedstage"][-1]

    @cached_property
    def shards(self) -> dict[int, Row]:
        """Return the last states of the shards, by their numbers."""
        return {change.row["number"]: change.row for change in self.of_shards()}

    @cached_property
    def texts(self) -> dict[int, str]:
        """Return the texts with which the shards were created, by their numbers."""
        return {
            change.new["number"]: change.new["text"]
            for change in self.of_shards()
            if change.old is None and change.new is not None
        }

    def of_shards(self) -> Iterator[Change]:
        return (change for change in self.changes if change.source == "jobs_shard")

    def updates(self) -> Iterator[tuple[Change, Row, Row]]:
        """Yield the changes of shards that are neither insertions nor deletions, with both rows."""
        for change in self.of_shards():
            if change.old is not None and change.new is not None:
                yield change, change.old, change.new

    @cached_property
    def adoptions(self) -> set[int]:
        """Return the transactions in which another attempt took the stage."""
        return {
            change.transaction
            for change in self.changes
            if change.source == "jobs_shardedstage"
            and change.old is not None
            and change.new is not None
            and change.old["attempt"] != change.new["attempt"]
        }

    def starts(self) -> Iterator[tuple[Change, Row, int]]:
        """Yield the starts of shards: the change, the row after it, and the attempt that had the stage."""
        attempt = 0
        for change in self.changes:
            if change.source == "jobs_shardedstage":
                attempt = change.row["attempt"]
            elif (change.old or {}).get("status") == "waiting" and change.row["status"] == "running":
                yield change, change.row, attempt

    def transactions(self) -> Iterator[list[Change]]:
        """Yield the changes of each transaction."""
        for _, changes in groupby(self.changes, key=lambda change: change.transaction):
            yield list(changes)

    def title(self, shard: Row | None = None) -> str:
        stage = self.stage
        name = f"job {stage['job_id']} attempt {stage['attempt']} stage {stage['stage']}"
        return name if shard is None else f"{name} shard {shard['number']} try {shard['try_number']}"


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Everything recorded in a run: stages by their ids, and the changes of runs and jobs."""

    stages: dict[int, StageHistory]
    runs: list[Change]
    jobs: list[Change]


def read() -> Audit:
    """Return what was recorded."""
    audit = Audit(stages={}, runs=[], jobs=[])
    for change in changes():
        if change.source == "jobs_run":
            audit.runs.append(change)
        elif change.source == "jobs_job":
            audit.jobs.append(change)
        else:
            key = "stage_id" if change.source == "jobs_shard" else "id"
            audit.stages.setdefault(change.row[key], StageHistory()).changes.append(change)
    return audit


def sharded_attempts() -> set[tuple[int, int]]:
    """Return the jobs and attempts with shards."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT (new ->> 'job_id')::bigint, (new ->> 'attempt')::int FROM fault_audit"
            " WHERE source = 'jobs_shardedstage' AND new IS NOT NULL"
        )
        return set(cursor.fetchall())


def changes() -> Iterator[Change]:
    """Yield all changes in order."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, extract(epoch FROM at)::float, xid, changed_by, source, old::text, new::text"
            " FROM fault_audit ORDER BY id"
        )
        for number, at, transaction, changed_by, source, old, new in cursor:
            yield Change(
                number=number,
                at=at,
                transaction=transaction,
                pid=int(changed_by.partition(":")[2] or 0),
                source=source,
                old=parsed(old),
                new=parsed(new),
            )


def parsed(text: str | None) -> Row | None:
    return None if text is None else json.loads(text)


def pid_of(worker: str) -> int:
    """Return the process id in the name of a slot."""
    return int(worker.split(":")[1])
