"""Times in the format of the API (docs/reference/api.md#types-and-times)."""

from datetime import UTC, datetime


def iso(value: datetime) -> str:
    """Return a time in the format of the API: `2026-11-20T08:10:00.123Z`."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_or_none(value: datetime | None) -> str | None:
    """Return a time in the format of the API, or None."""
    return None if value is None else iso(value)
