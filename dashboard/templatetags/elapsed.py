"""Template filter for the time between two moments."""

from datetime import timedelta

from django import template

register = template.Library()


@register.filter
def elapsed(duration: timedelta) -> str:
    """Return a duration in the largest fitting units, such as "0.12 s", "5.0 s", "3:20 min" or "2:05 h"."""
    seconds = duration.total_seconds()
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    unit, size = ("min", 60) if seconds < 3600 else ("h", 3600)
    whole, rest = divmod(round(seconds), size)
    return f"{whole:,}:{rest * 60 // size:02} {unit}"
