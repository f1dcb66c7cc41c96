"""The replay: reads the recorded histories of jobs in batches, and names the rows that could not have happened.

It only reads, so it can run while the service runs. Its memory is that of a batch, and of the jobs that wait at a
time (`claim_order`).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection

from jobs.execution import conductor
from jobs.history.claim_order import LOCK_SECONDS, RULE, ClaimOrder
from jobs.history.rows import (
    ArtifactRow,
    DeliveryRow,
    EntryRow,
    EventRow,
    History,
    HoldRow,
    JobRow,
    NoticeRow,
    RunRow,
    ShardRow,
    StageRow,
    Terms,
)
from jobs.history.specification import Impossible, broken
from simservice.clocks import database_time
from simservice.ids import first_id_of
from simservice.postgresql.statements import load
from webhooks import claims, retries

SQL = load(__file__)
JOBS_AT_ONCE = 200
# Members can resend an event without limit; later deliveries are not checked.
MAX_DELIVERIES = 1_000
NO_ID = 10**18
# Retention deletes an event soon after its period; one that ended in this time may be deleted.
RETENTION_MARGIN = timedelta(days=1)


def current_terms() -> Terms:
    """Return the terms of this deployment. One query."""
    kept = timedelta(days=settings.RETENTION_DAYS) - RETENTION_MARGIN
    return Terms(
        lease_seconds=settings.LEASE_SECONDS,
        delivery_lease_seconds=claims.LEASE_SECONDS,
        max_attempts=settings.MAX_ATTEMPTS,
        most_deliveries=len(retries.WAITS) + 1,
        notices_kept_since=(database_time() - kept).timestamp(),
        shortest_allowance_ms=conductor.MIN_ALLOWANCE_MS,
    )


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """A row that could not have happened: its table, its id and its job, the rule, and what the rule expects."""

    table: str
    row_id: int
    job_id: int
    rule: str
    expected: str

    def __str__(self) -> str:
        row = f"{self.table} {self.row_id}"
        of = "" if self.row_id == self.job_id else f" of job {self.job_id}"
        return f"{row}{of} breaks {self.rule}: expected {self.expected}"

    def as_json(self) -> str:
        """Return the deviation as a line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


@dataclass(kw_only=True)
class Count:
    """How many jobs and rows a replay has read."""

    jobs: int = 0
    rows: int = 0


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A replay of the jobs that were submitted in a period; None for no limit. `count` is updated as it reads."""

    since: datetime | None = None
    until: datetime | None = None
    terms: Terms = field(default_factory=current_terms)
    lock_seconds: float = LOCK_SECONDS
    count: Count = field(default_factory=Count)

    def deviations(self) -> Iterator[Deviation]:
        """Yield the rows that could not have happened, in the order of their jobs. One query for each batch."""
        order = ClaimOrder(lock_seconds=self.lock_seconds)
        for history, now in self._histories():
            self.count.jobs += 1
            self.count.rows += size_of(history)
            for found, impossible in broken(history):
                yield deviation(history.job.id, found.name, impossible)
            for impossible in order.add(history, now=now):
                yield deviation(impossible.row.id, RULE, impossible)

    def _histories(self) -> Iterator[tuple[History, float]]:
        """Yield the history of each job, with the time at which it was read."""
        values = {
            "after": first_id_of(self.since) - 1 if self.since else 0,
            "before": first_id_of(self.until) if self.until else NO_ID,
            "count": JOBS_AT_ONCE,
            "most_deliveries": MAX_DELIVERIES,
        }
        while True:
            with connection.cursor() as cursor:
                cursor.execute(SQL["read_histories"], values)
                rows = cursor.fetchall()
            for _, text in rows:
                document = json.loads(text)
                yield history_of(document, terms=self.terms), document["now"]
            if len(rows) < JOBS_AT_ONCE:
                return
            values["after"] = rows[-1][0]


def deviations(since: datetime | None = None, until: datetime | None = None) -> Iterator[Deviation]:
    """Yield the rows that could not have happened, of the jobs that were submitted in a period."""
    return Replay(since=since, until=until).deviations()


def deviation(job_id: int, rule: str, impossible: Impossible) -> Deviation:
    """Return what is reported about a row."""
    row = impossible.row
    return Deviation(table=row.table, row_id=row.id, job_id=job_id, rule=rule, expected=impossible.expected)


def history_of(document: Mapping[str, Any], *, terms: Terms) -> History:
    """Return the history in a document of `read_histories`."""
    deliveries = document["deliveries"] or []
    return History(
        terms=terms,
        job=JobRow(**document["job"]),
        events=[EventRow(**row) for row in document["events"] or ()],
        runs=[RunRow(**row) for row in document["runs"] or ()],
        stages=[StageRow(**row) for row in document["stages"] or ()],
        shards=[ShardRow(**row) for row in document["shards"] or ()],
        hold=HoldRow(**document["hold"]) if document["hold"] else None,
        entries=[EntryRow(**row) for row in document["entries"] or ()],
        artifacts=[ArtifactRow(**row) for row in document["artifacts"] or ()],
        notice=notice_of(document["notice"]),
        deliveries=[DeliveryRow(**row) for row in deliveries],
        has_all_deliveries=len(deliveries) < MAX_DELIVERIES,
    )


def notice_of(row: Mapping[str, Any] | None) -> NoticeRow | None:
    """Return a webhook event with the job and the status in its body."""
    if row is None:
        return None
    payload = json.loads(row["body"])["payload"]
    fields = {name: value for name, value in row.items() if name != "body"}
    return NoticeRow(**fields, reported_id=payload["id"], reported_status=payload["status"])


def size_of(history: History) -> int:
    """Return the number of rows of a history."""
    lists = (history.events, history.runs, history.stages, history.shards, history.entries, history.artifacts)
    single = (history.job, history.hold, history.notice)
    return sum(map(len, lists)) + len(history.deliveries) + sum(row is not None for row in single)
