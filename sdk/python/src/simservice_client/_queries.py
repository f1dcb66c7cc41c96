"""The filters and parameters of lists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timezone
from typing import Any, TypedDict


class Filters(TypedDict, total=False):
    """Conditions on listed jobs, which must all be true."""

    status: Collection[str]
    """One of these statuses."""
    client: str
    """The name of the client that submitted the job."""
    created_after: datetime
    """The earliest time of submission, with a time zone."""
    metadata: Mapping[str, str]
    """Entries that the metadata must have."""


def list_query(filters: Filters, *, limit: int, cursor: str | None) -> dict[str, Any]:
    """Return the parameters of a page of jobs. Raises ValueError for a time without a time zone."""
    created_after = filters.get("created_after")
    params = {
        "limit": limit,
        "cursor": cursor,
        "status": ",".join(filters.get("status", ())) or None,
        "client": filters.get("client"),
        "createdAfter": None if created_after is None else _timestamp(created_after),
        **{f"metadata.{name}": value for name, value in filters.get("metadata", {}).items()},
    }
    return {name: value for name, value in params.items() if value is not None}


def _timestamp(time: datetime) -> str:
    """Return a time as the API reads it. Raises ValueError without a time zone."""
    if time.tzinfo is None:
        raise ValueError("The time needs a time zone: datetime.now(timezone.utc), for example.")
    return time.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
