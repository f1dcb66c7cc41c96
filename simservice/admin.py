"""Mixins for admin pages that are read-only or list large tables, and links to objects."""

from functools import cached_property
from typing import Any, cast

from django.contrib.admin import AdminSite
from django.core.paginator import Paginator
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse

MAX_COUNT = 10_000
# Primary keys have at most this many digits.
MAX_DIGITS = 18


def may_view(site: AdminSite, request: HttpRequest, model: type[Model]) -> bool:
    """Return whether the user may view objects of a model, also if it has no admin pages."""
    if site.is_registered(model):
        return bool(site.get_model_admin(model).has_view_permission(request))
    return request.user.has_perm(f"{model._meta.app_label}.view_{model._meta.model_name}")  # noqa: SLF001


def admin_url(site: AdminSite, request: HttpRequest, subject: Model | None) -> str:
    """Return the address of an object's admin page, empty if it has none or the user may not view it."""
    if subject is None or not site.is_registered(type(subject)) or not may_view(site, request, type(subject)):
        return ""
    options = subject._meta  # noqa: SLF001
    return reverse(f"admin:{options.app_label}_{options.model_name}_change", args=[subject.pk])


class ReadOnlyMixin:
    """An admin page where users cannot add, change or delete anything."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class BoundedPaginator(Paginator):
    """A paginator that stops counting at MAX_COUNT. To see further rows, users filter the list."""

    @cached_property
    def count(self) -> int:
        """Return the number of rows, at most MAX_COUNT."""
        rows = cast(QuerySet[Any], self.object_list)
        return rows[:MAX_COUNT].count()


class LargeTableMixin:
    """An admin list of a large table: it counts at most MAX_COUNT rows and searches exact values by their indexes.

    A search term of digits is compared with `exact_numbers`, another term with `exact_texts`.
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
        """Return the rows that contain the search term, and False, because no row occurs twice."""
        term = search_term.strip()
        if not term:
            return queryset, False
        is_number = term.isascii() and term.isdigit() and len(term) <= MAX_DIGITS
        names = self.exact_numbers if is_number and self.exact_numbers else self.exact_texts
        condition = Q(pk__in=[])
        for name in names:
            condition |= Q(**{name: term})
        return queryset.filter(condition), False
