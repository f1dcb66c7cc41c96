"""Query parameters: known names only, each given once."""

from collections.abc import Container

from django.http import QueryDict

from simservice.api.errors import ValidationFailed


def single_values(query: QueryDict, *, known: Container[str]) -> dict[str, str]:
    """Return the parameters of a query. Raises ValidationFailed naming those unknown or given more than once."""
    issues = []
    for name, values in query.lists():
        if name not in known:
            issues.append({"path": name, "message": "Unknown parameter."})
        elif len(values) > 1:
            issues.append({"path": name, "message": "Give it only once."})
    if issues:
        raise ValidationFailed(issues)
    return {name: str(query[name]) for name in query}
