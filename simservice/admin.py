"""Admin pages that show facts: to be read, never edited, and quick to list however many there are."""

from functools import cached_property
from typing import Any, cast

from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest

MOST_COUNTED = 10_000
# Digits beyond this are no number of a row.
MOST_DIGITS = 18


class ReadOnly:
    """An admin page on which nothing is added, changed or deleted."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class BoundedPaginator(Paginator):
    """Pages of a list that is not counted to its end: whoever looks further narrows the list down."""

    @cached_property
    def count(self) -> int:
        """Return the number of rows, at most MOST_COUNTED."""
        rows = cast(QuerySet[Any], self.object_list)
        return rows[:MOST_COUNTED].count()


class ManyRows:
    """An admin list of any length: bounded counts, and a search that finds exact values by their indexes.

    What consists of digits is looked for in `exact_numbers`, anything else in `exact_texts`.
    """

    show_full_result_count = False
    list_per_page = 25
    exact_numbers: tuple[str, ...] = ()
    exact_texts: tuple[str, ...] = ()

    def get_paginator(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        per_page: int,
        orphans: int = 0,
        allow_empty_first_page: bool = True,  # noqa: FBT001, FBT002 - the framework's own signature
    ) -> BoundedPaginator:
        return BoundedPaginator(queryset, per_page, orphans, allow_empty_first_page)

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        return self.exact_numbers + self.exact_texts

    def get_search_results(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        search_term: str,
    ) -> tuple[QuerySet[Any], bool]:
        """Return the rows that have the searched value, each once."""
        term = search_term.strip()
        if not term:
            return queryset, False
        is_number = term.isascii() and term.isdigit() and len(term) <= MOST_DIGITS
        names = self.exact_numbers if is_number and self.exact_numbers else self.exact_texts
        wanted = Q(pk__in=[])
        for name in names:
            wanted |= Q(**{name: term})
        return queryset.filter(wanted), False
