"""Template filters for moments and durations: one format on all pages. Moments are in UTC."""

from datetime import UTC, date, datetime, timedelta

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()
ELEMENT = '<time datetime="{}" title="{}">{}</time>'
MINUTE, HOUR, DAY = 60, 3_600, 86_400
# Older moments are shown as dates.
RELATIVE_DAYS = 30
# Up to this number, seconds are not written as minutes.
MAX_SECONDS = 90


@register.filter
def ago(moment: datetime | None) -> str:
    """Return how long ago a moment was, or how far ahead it is, with the exact time as its title; "" for None."""
    if moment is None:
        return ""
    seconds = (timezone.now() - moment).total_seconds()
    return _element(moment, _relative(seconds) if abs(seconds) < RELATIVE_DAYS * DAY else f"{moment:%Y-%m-%d}")


@register.filter
def utc(moment: datetime | None) -> str:
    """Return a moment as "2026-11-29 01:33 UTC", with the seconds in its title; "" for None."""
    return "" if moment is None else _element(moment, f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC")


@register.filter
def day(moment: date | None) -> str:
    """Return the day of a moment as "2026-11-29", with the exact time as its title, or a date; "" for None."""
    if moment is None:
        return ""
    if isinstance(moment, datetime):
        return _element(moment, f"{moment.astimezone(UTC):%Y-%m-%d}")
    return format_html('<time datetime="{0}">{0}</time>', f"{moment:%Y-%m-%d}")


@register.filter
def duration(length: timedelta | float | None) -> str:
    """Return a duration, given in seconds, in at most two units: "1.3 s", "45 s", "3 min 20 s", "2 h 2 min"."""
    if length is None:
        return "\N{EN DASH}"
    seconds = length.total_seconds() if isinstance(length, timedelta) else float(length)
    if seconds < 10:
        return f"{seconds:.2g} s" if seconds < 1 else f"{seconds:.1f}".removesuffix(".0") + " s"
    if round(seconds) <= MAX_SECONDS:
        return f"{seconds:.0f} s"
    units = ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "min"), (MINUTE, "min", 1, "s"))
    size, name, small, small_name = next(unit for unit in units if seconds >= unit[0])
    whole, rest = divmod(round(seconds / small), size // small)
    return f"{whole:,} {name}" + (f" {rest} {small_name}" if rest else "")


def _element(moment: datetime, text: str) -> SafeString:
    exact = moment.astimezone(UTC)
    return format_html(ELEMENT, f"{exact:%Y-%m-%dT%H:%M:%SZ}", f"{exact:%Y-%m-%d %H:%M:%S} UTC", text)


def _relative(seconds: float) -> str:
    """Return "3 minutes ago" or "in 2 hours". The rest of a unit is dropped."""
    for size, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if abs(seconds) >= size:
            count = int(abs(seconds) // size)
            text = f"{count} {name}{'' if count == 1 else 's'}"
            return f"{text} ago" if seconds > 0 else f"in {text}"
    return "just now" if seconds >= 0 else "in less than a minute"
