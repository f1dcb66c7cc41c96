"""Template filters for jobs, numbers and durations.

They are simple and fast because a ranking shows hundreds of numbers.
"""

import math
from collections.abc import Mapping
from datetime import timedelta

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.results import damage_chart, names
from jobs.models import Job
from jobs.results import labels

register = template.Library()
NAME, LONG_NAME = "<bdi{}>{}</bdi>", '<bdi{} title="{}">{}</bdi>'
MINUS, UNKNOWN = "\N{MINUS SIGN}", "\N{EN DASH}"
register.filter("status_of", labels.status_of)
register.filter("tick_number", damage_chart.short)
register.filter("titled", names.titled)


def _written(number: float, form: str, unit: str = "") -> str:
    """Return a number in a format, or a dash if a calculation exceeded the range of numbers."""
    return format(number, form).replace("-", MINUS) + unit if math.isfinite(number) else UNKNOWN


@register.filter
def named(name: str, style: str = "") -> SafeString:
    """Return an untrusted name as an element with a class; a long one is shortened, with the whole as its title."""
    shown, attribute = names.shortened(name), format_html(' class="{}"', style) if style else ""
    if shown == name:
        return format_html(NAME, attribute, name)
    return format_html(LONG_NAME, attribute, name, shown)


@register.filter
def whole(number: float) -> str:
    """Return a number without decimals, with thousands separators."""
    return _written(number, "z,.0f")


@register.filter
def change(percent: float | None) -> str:
    """Return a percentage with its sign, or a dash if it is unknown. Beyond 100,000 %, only its size is shown."""
    if percent is None:
        return UNKNOWN
    return _written(percent, "+,.2f" if abs(percent) < 1e5 else "+.0e", " %")


@register.filter
def tick_percent(percent: float) -> str:
    """Return a percentage on an axis, with its sign."""
    return f"{percent:+,.6g} %".replace("-", MINUS)


@register.filter
def signed(number: float) -> str:
    """Return a number without decimals, with its sign."""
    return _written(number, "+,.0f")


@register.filter
def decimal(number: float | None) -> str:
    """Return a number with one decimal, or a dash if it is unknown."""
    return UNKNOWN if number is None else _written(number, "z,.1f")


@register.filter
def whole_or_dash(number: float | None) -> str:
    """Return a number without decimals, or a dash if it is unknown."""
    return UNKNOWN if number is None else whole(number)


@register.filter
def percent_or_dash(percent: float | None) -> str:
    """Return a percentage without decimals, or a dash if it is unknown."""
    return UNKNOWN if percent is None else _written(percent, "z,.0f", " %")


@register.filter
def part(share: float | None) -> str:
    """Return a part from 0 to 1 as a percentage, or a dash if it is unknown."""
    return UNKNOWN if share is None else _written(share * 100, "z.1f", " %")


@register.filter
def pairs(entries: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the entries of a mapping, also if one is named `items`, which would hide the method in a template."""
    return list(entries.items())


@register.filter
def other_metadata(job: Job) -> list[tuple[str, str]]:
    """Return the entries of a job's metadata, without `title`."""
    return [(name, value) for name, value in job.metadata.items() if name != "title"]


@register.filter
def elapsed(duration: timedelta) -> str:
    """Return a duration in the largest fitting units, such as "0.12 s", "5.0 s", "3:20 min" or "2:05 h"."""
    seconds = duration.total_seconds()
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    unit, size = ("min", 60) if seconds < 3600 else ("h", 3600)
    whole, rest = divmod(round(seconds), size)
    return f"{whole:,}:{rest * 60 // size:02} {unit}"
