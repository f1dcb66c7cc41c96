"""Deprecated fields of requests, and the headers that announce them.

A field that becomes deprecated gets an entry in `DEPRECATED`, and a `sunset` once its removal is decided. Users
read both dates in `docs/reference/api.md#deprecations`.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from django.utils.http import http_date

from simservice.api.operations import Header


@dataclass(frozen=True, kw_only=True)
class DeprecatedField:
    """The day on which a field was deprecated, and the day from which it may be refused, both from midnight UTC."""

    since: date
    # None while no removal is decided
    sunset: date | None = None


DEPRECATED = {"runtime.maxRuntimeSeconds": DeprecatedField(since=date(2026, 11, 20))}

# On responses to requests with a deprecated field
HEADERS = [
    Header(name=name, shape=str, description=f"{description} Only if a field is deprecated.", always=False)
    for name, description in (
        ("Deprecation", "When a field of the request was deprecated, as `@` and a Unix time (RFC 9745)."),
        ("Sunset", "When the field may be refused, if this is decided (RFC 8594)."),
        ("Link", 'The documentation, with `rel="deprecation"`.'),
    )
]


def headers_for(fields: Collection[str], *, docs_url: str) -> dict[str, str]:
    """Return the headers for one or more deprecated fields of a request, with the earliest dates."""
    entries = [DEPRECATED[field] for field in fields]
    sunsets = [entry.sunset for entry in entries if entry.sunset]
    headers = {
        "Deprecation": f"@{_midnight(min(entry.since for entry in entries))}",
        "Link": f'<{docs_url}>; rel="deprecation"; type="text/html"',
    }
    return {**headers, "Sunset": http_date(_midnight(min(sunsets)))} if sunsets else headers


def _midnight(day: date) -> int:
    """Return the Unix time at which a day begins in UTC."""
    return int(datetime.combine(day, time(), UTC).timestamp())
