"""Template filters of the operators' console."""

from datetime import datetime

from django import template

from dashboard.templatetags.times import duration

register = template.Library()


@register.filter
def since(start: datetime, end: datetime) -> str:
    """Return the time between two moments in words, 0 if their clocks disagree."""
    return str(duration(max(0.0, (end - start).total_seconds())))
