"""Query strings of the admin that no page links to: values that PostgreSQL or Python cannot represent."""

from collections.abc import Callable
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.db import DataError, ProgrammingError, transaction
from django.http import HttpRequest

# Numbers and dates out of range, NUL characters, text for a column of bytes, ranges with one end, invalid JSON
UNUSABLE = (DataError, IndexError, OverflowError, ProgrammingError, TypeError, ValueError)


class _CheckedList(ChangeList):
    """A list that treats filters with unusable values like those that the framework itself rejects."""

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        """Read the rows. Raises IncorrectLookupParameters, for which the admin shows the list without filters."""
        try:
            with transaction.atomic():
                super().__init__(request, *args, **kwargs)
        except UNUSABLE as error:
            if not request.GET:
                raise
            raise IncorrectLookupParameters(error) from error


def check_filters(site: AdminSite) -> None:
    """Make all pages of an admin site reject unusable query strings."""
    for model_admin in site._registry.values():  # noqa: SLF001
        model_admin.get_changelist = lambda *_, **__: _CheckedList  # type: ignore[method-assign]
        model_admin.get_object = _by_field(model_admin.get_object)  # type: ignore[method-assign]


def _by_field(get_object: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `get_object` that treats an empty `_to_field` as the primary key."""
    return lambda request, object_id, from_field=None: get_object(request, object_id, from_field or None)
