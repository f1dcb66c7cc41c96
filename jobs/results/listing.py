"""Lists of an account's jobs, newest first, for the API.

Each filter except the time has an index in the order of ids: statuses and clients on jobs, metadata on a table of
entries (`MetadataEntry`). Without a filter, or with statuses or a client alone, a page is read from one index. With
other filters, jobs are searched: `SEARCHED_JOBS` ids are read from the index of each filter, and the jobs of the
index that reaches furthest back are compared with all filters. So a page takes a bounded time, but can have fewer
jobs than its limit although there are more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection

from billing.models import Account
from jobs.artifacts import retention
from jobs.enums import Status
from jobs.models import Job
from jobs.results import queries
from jobs.results.queries import TITLED
from simservice.ids import first_id_of
from simservice.postgresql.statements import RowReader

# Greater than every id in use
LAST_ID = 10**18
LISTED = (
    "status",
    "completed_at",
    "cancel_requested_at",
    "updated_at",
    "error_code",
    "build_id",
    "share_token",
    "retention_days",
    *TITLED,
)
EPOCH = datetime.fromtimestamp(0, UTC)
# An id is created before its job is stored, at most this much earlier.
ID_LEAD = timedelta(minutes=5)
SEARCHED_JOBS = 1_000

_READER = RowReader(Job, only=["id", *LISTED])
# Jobs from one id up to another one, newest first. It is not prepared, because a plan for all accounts reads the
# jobs of every account if one account has most of them. `= ANY` and the two-column order make PostgreSQL use the
# index of the account or the client; with `=`, it would drop the first column and may use the primary key.
_NEWEST = """
    SELECT {columns} FROM jobs_job
    WHERE {owner} AND id >= %(first)s AND id < %(before)s {more}
    ORDER BY {order}, id DESC LIMIT {limit}
"""
_ACCOUNT = {"owner": "account_id = ANY (ARRAY[%(account_id)s])", "order": "account_id"}
_IS_CLIENT = "client_id = ANY (ARRAY[%(client_id)s])"
_CLIENT = {"owner": _IS_CLIENT, "order": "client_id"}
_CREATED_AFTER = "AND created_at >= %(created_after)s"
_ENTRY = """
    account_id = ANY (ARRAY[%(account_id)s]) AND digest = jobs_metadata_digest(%(name_{n})s, %(value_{n})s)
"""
# The newest jobs with an entry of metadata
_NEWEST_ENTRIES = """
    SELECT job_id FROM jobs_metadataentry WHERE {entry} AND job_id >= %(first)s AND job_id < %(before)s
    ORDER BY account_id DESC, digest DESC, job_id DESC LIMIT {limit}
"""
_HAS_ENTRY = "EXISTS (SELECT FROM jobs_metadataentry WHERE {entry} AND job_id = candidate.id)"
# `windows` has the newest ids of each index. One with fewer ids than were requested is complete. `searched` is the
# one that reaches furthest back. Its jobs are read by id, in order, until the page is full. There is at least one
# row. Each row begins with the last id of the window, null if the window is complete.
_SEARCH = """
    WITH windows (ids) AS ({windows}),
    searched AS (
        SELECT ids, ids[{count}] AS last FROM windows ORDER BY ids[{count}] NULLS FIRST, cardinality(ids) LIMIT 1
    )
    SELECT searched.last, found.* FROM searched LEFT JOIN LATERAL (
        SELECT job.* FROM (SELECT id FROM unnest(ids) AS id ORDER BY id DESC) AS candidate
        CROSS JOIN LATERAL (
            SELECT {columns} FROM jobs_job
            WHERE id = candidate.id AND account_id = %(account_id)s AND {conditions} LIMIT 1
        ) AS job
        ORDER BY candidate.id DESC LIMIT %(limit)s
    ) AS found ON true
    ORDER BY found.id DESC
"""
# An account's jobs with some ids, newest first.
_BY_ID = f"""
    SELECT {_READER.columns} FROM jobs_job
    WHERE id = ANY (%(ids)s) AND account_id = %(account_id)s AND id >= %(first)s ORDER BY id DESC
"""  # noqa: S608 - columns of the model


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Conditions on listed jobs, which must all be true.

    The job has one of the statuses, if there are any; is of the client with this name; was created at this time or
    later; and has these entries in its metadata.
    """

    statuses: frozenset[Status] = frozenset()
    client: str | None = None
    created_after: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def are_searched(self) -> bool:
        """Return whether jobs are searched for these filters; if not, a page is read from one index."""
        return bool(self.metadata) or (bool(self.statuses) and self.client is not None)


NO_FILTERS = Filters()


class Listing(NamedTuple):
    """A page of jobs, with only the fields that lists show, and the number of unfinished jobs.

    `searched_to` is set if older jobs were not searched. The page may then have fewer jobs than its limit.
    """

    jobs: list[Job]
    active: int
    searched_to: int | None = None


def list_jobs(account: Account, *, before: int | None, limit: int, filters: Filters = NO_FILTERS) -> Listing:
    """Return the account's newest jobs within the retention period. One round trip, and one to find a client.

    The jobs are below the id `before` if given.
    """
    first, after = first_id_of(retention.window_start(account)), filters.created_after
    if after is not None:
        first = max(first, min(first_id_of(after), LAST_ID) - first_id_of(EPOCH + ID_LEAD))
    values = {
        "account_id": account.pk,
        "statuses": [status.value for status in filters.statuses],
        "client_id": None if filters.client is None else _client_id(account, filters.client),
        "created_after": after,
        "first": first,
        "before": LAST_ID if before is None else before,
        "limit": limit,
        **{f"name_{n}": name for n, name in enumerate(filters.metadata)},
        **{f"value_{n}": value for n, value in enumerate(filters.metadata.values())},
    }
    if not filters.are_searched:
        rows, active = _read(newest_jobs(filters), values)
        return Listing([_READER.instance(row) for row in rows], active)
    rows, active = _read(_search(filters), values)
    return Listing([_READER.instance(row[1:]) for row in rows if row[1] is not None], active, rows[0][0])


def _client_id(account: Account, name: str) -> int:
    """Return the id of a client, 0 if the account has no such client.

    A query of its own, because without the id PostgreSQL may read the jobs of all clients.
    """
    return account.clients.filter(name=name).values_list("pk", flat=True).first() or 0


def jobs_by_id(account: Account, ids: Iterable[int]) -> Listing:
    """Return the account's jobs with these ids like `list_jobs`. Other ids are ignored."""
    first = first_id_of(retention.window_start(account))
    rows, active = _read(_BY_ID, {"account_id": account.pk, "ids": list(ids), "first": first})
    return Listing([_READER.instance(row) for row in rows], active)


def newest_jobs(filters: Filters) -> str:
    """Return the statement that lists jobs of statuses, of a client, or of the account."""
    more = _CREATED_AFTER if filters.created_after else ""
    if filters.statuses:
        return _with_statuses(filters.statuses, columns=_READER.columns, more=more, limit="%(limit)s")
    owner = _ACCOUNT if filters.client is None else _CLIENT
    return _NEWEST.format(columns=_READER.columns, more=more, limit="%(limit)s", **owner)


def _with_statuses(statuses: Iterable[Status], *, columns: str, more: str, limit: str) -> str:
    """Return the statement that lists jobs of statuses. Each one is read from an index until the page is full."""
    # A status is constant in each part, because a plan for any status may read all jobs of the account.
    conditions = [f"AND status = '{status.value}' {more}" for status in sorted(statuses)]
    parts = [_NEWEST.format(columns=columns, more=each, limit=limit, **_ACCOUNT) for each in conditions]
    union = " UNION ALL ".join(f"({part})" for part in parts)
    return f"SELECT * FROM ({union}) AS job ORDER BY id DESC LIMIT {limit}"  # noqa: S608 - constants


def _search(filters: Filters) -> str:
    """Return the statement that searches jobs."""
    limit = str(SEARCHED_JOBS)
    entries = [_ENTRY.format(n=n) for n in range(len(filters.metadata))]
    windows = [_NEWEST_ENTRIES.format(entry=entry, limit=limit) for entry in entries]
    conditions = [_HAS_ENTRY.format(entry=entry) for entry in entries]
    if filters.statuses:
        windows.append(_with_statuses(filters.statuses, columns="id", more="", limit=limit))
        conditions.append("status = ANY (%(statuses)s)")
    if filters.client is not None:
        windows.append(_NEWEST.format(columns="id", more="", limit=limit, **_CLIENT))
        conditions.append(_IS_CLIENT)
    if filters.created_after:
        conditions.append(_CREATED_AFTER.removeprefix("AND "))
    return _SEARCH.format(
        windows=" UNION ALL ".join(f"SELECT ARRAY({window})" for window in windows),
        count=SEARCHED_JOBS,
        columns=_READER.columns,
        conditions=" AND ".join(conditions),
    )


def _read(statement: str, values: Mapping[str, Any]) -> tuple[list[Any], int]:
    """Return the rows of a statement and the number of unfinished jobs."""
    with connection.cursor() as cursor:
        cursor.execute(f"{statement}; {queries.SQL['count_active_jobs']}", values)
        rows = cursor.fetchall()
        cursor.nextset()
        ((active,),) = cursor.fetchall()
    return rows, int(active)
