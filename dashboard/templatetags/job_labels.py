"""Template filters for jobs and numbers. They are simple and fast because a ranking shows hundreds of numbers."""

from collections.abc import Mapping

from django import template

from jobs import labels
from jobs.models import Job

register = template.Library()
register.filter("status_of", labels.status_of)


@register.filter
def whole(number: float) -> str:
    """Return a number without decimals, with thousands separators."""
    return f"{number:,.0f}"


@register.filter
def change(percent: float) -> str:
    """Return a percentage with its sign."""
    return f"{percent:+,.2f}%"


@register.filter
def pairs(entries: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the entries of a mapping, also if one is named `items`, which would hide the method in a template."""
    return list(entries.items())


@register.filter
def other_metadata(job: Job) -> list[tuple[str, str]]:
    """Return the entries of a job's metadata, without `title`."""
    return [(name, value) for name, value in job.metadata.items() if name != "title"]
