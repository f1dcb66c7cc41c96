"""Jobs and numbers in words, for templates. A ranking has hundreds of numbers, so these are plain and fast."""

from collections.abc import Mapping

from django import template

from jobs import labels
from jobs.models import Job

register = template.Library()
register.filter("status_of", labels.status_of)


@register.filter
def whole(number: float) -> str:
    """Return a number without its fraction, with its thousands apart."""
    return f"{number:,.0f}"


@register.filter
def change(percent: float) -> str:
    """Return a difference in percent with its sign."""
    return f"{percent:+,.2f} %"


@register.filter
def pairs(entries: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return a caller's entries: one of them may be called `items`, which a template would take for the method."""
    return list(entries.items())


@register.filter
def notes(job: Job) -> list[tuple[str, str]]:
    """Return the entries of a job's metadata without `title`."""
    return [(name, value) for name, value in job.metadata.items() if name != "title"]
