"""The months of monthly allowances."""

from datetime import UTC, date, datetime, timedelta


def month_of(time: datetime) -> tuple[date, datetime]:
    """Return the first day of the month (UTC) that contains a time, and the moment when the month ends."""
    first = time.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (first + timedelta(days=32)).replace(day=1)
    return first.date(), following
