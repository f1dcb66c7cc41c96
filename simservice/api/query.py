"""Validation of query parameters."""

from collections.abc import Container

from django.http import QueryDict

from simservice.api.errors import ValidationFailed


def single_values(query: QueryDict, *, known: Container[str], prefixes: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the query parameters. Raises ValidationFailed if one is unknown or repeated.

    Names that begin with one of the prefixes are known.
    """
    issues = []
    for name, values in query.lists():
        if name not in known and not name.startswith(prefixes):
            issues.append({"path": name, "message": "Unknown parameter."})
        elif len(values) > 1:
            issues.append({"path": name, "message": "Must not be repeated."})
    if issues:
        raise ValidationFailed(issues)
    return {name: str(query[name]) for name in query}
