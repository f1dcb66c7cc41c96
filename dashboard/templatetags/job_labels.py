"""Template filters for jobs, numbers and durations.

They are simple and fast because a ranking shows hundreds of numbers.
"""

import math
from collections.abc import Callable, Mapping
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
register.filter("bill", labels.bill)
register.filter("tick_number", damage_chart.short)
register.filter("titled", names.titled)


def _number(form: str, unit: str = "", *, factor: float = 1) -> Callable[[float | None], str]:
    """Return a filter that writes a number, or a dash if it is unknown or exceeds the range of numbers."""

    def written(number: float | None) -> str:
        if number is None or not math.isfinite(number * factor):
            return UNKNOWN
        return format(number * factor, form).replace("-", MINUS) + unit

    return written


whole = register.filter("whole", _number("z,.0f"))
signed = register.filter("signed", _number("+,.0f"))
decimal = register.filter("decimal", _number("z,.1f"))
weight = register.filter("weight", _number("z,.2f"))
percent = register.filter("percent", _number("z,.0f", " %"))
part = register.filter("part", _number("z.1f", " %", factor=100))


@register.filter
def named(name: str, style: str = "") -> SafeString:
    """Return an untrusted name as an element with a class; a long one is shortened, with the whole as its title."""
    shown, attribute = names.shortened(name), format_html(' class="{}"', style) if style else ""
    if shown == name:
        return format_html(NAME, attribute, name)
    return format_html(LONG_NAME, attribute, name, shown)


@register.filter
def tick_percent(percent: float) -> str:
    """Return a percentage on an axis, with its sign."""
    return f"{percent:+,.6g} %".replace("-", MINUS)


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
