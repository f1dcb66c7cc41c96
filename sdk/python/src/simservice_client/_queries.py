"""The parameters of lists."""

from collections.abc import Collection, Mapping
from datetime import datetime, timezone
from typing import Any


def list_query(
    *,
    status: Collection[str],
    client: str | None,
    created_after: datetime | None,
    metadata: Mapping[str, str],
    limit: int,
    cursor: str | None,
) -> dict[str, Any]:
    """Return the parameters of a page of jobs. Raises ValueError for a time without a time zone."""
    params: dict[str, Any] = {"limit": limit, **{f"metadata.{name}": value for name, value in metadata.items()}}
    if client is not None:
        params["client"] = client
    if status:
        params["status"] = ",".join(status)
    if created_after is not None:
        params["createdAfter"] = _timestamp(created_after)
    if cursor is not None:
        params["cursor"] = cursor
    return params


def _timestamp(time: datetime) -> str:
    """Return a time as the API reads it. Raises ValueError without a time zone."""
    if time.tzinfo is None:
        raise ValueError("The time needs a time zone: datetime.now(timezone.utc), for example.")
    return time.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
