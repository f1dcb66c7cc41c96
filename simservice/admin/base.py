"""Mixins for admin pages that are read-only or list large tables, and links to objects."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, cast

from django.contrib.admin import AdminSite, ModelAdmin, display
from django.core.paginator import Paginator
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from simservice.postgresql.connections import StatementTimeout, statement_timeout

MAX_COUNT = 10_000
LIST_TIMEOUT_MS = 5_000
# Clients of an account, for example
MAX_RELATED = 1_000
# Primary keys have at most this many digits.
MAX_DIGITS = 18


def may_view(site: AdminSite, request: HttpRequest, model: type[Model]) -> bool:
    """Return whether the user may view objects of a model, also if it has no admin pages."""
    if site.is_registered(model):
        return bool(site.get_model_admin(model).has_view_permission(request))
    return request.user.has_perm(f"{model._meta.app_label}.view_{model._meta.model_name}")  # noqa: SLF001


def number(name: str) -> Callable[[Model], str]:
    """Return a column of a list that shows a number with separators."""

    @display(description=name.replace("_", " "), ordering=name)
    def shown(row: Model) -> str:
        value = getattr(row, name)
        return "" if value is None else f"{value:,}"

    return shown


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
        return rows.order_by()[:MAX_COUNT].count()


class LargeTableMixin:
    """An admin list of a large table, in which no click reads the whole table.

    Rows are in the order of an index, at most MAX_COUNT are counted, and no statement takes longer than
    LIST_TIMEOUT_MS. The search compares the term with `exact_texts` and, if it is a number, with `exact_numbers`.
    Each is an indexed column, or an indexed foreign key followed by an indexed column of the other table.
    """

    show_full_result_count = False
    list_per_page = 25
    sortable_by: ClassVar[Any] = ()
    exact_numbers: tuple[str, ...] = ()
    exact_texts: tuple[str, ...] = ()

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Return the list, or a page that says what to do if it takes too long."""
        show = super().changelist_view  # type: ignore[misc]
        if request.method != "GET":
            return cast(HttpResponse, show(request, extra_context))
        try:
            with statement_timeout(LIST_TIMEOUT_MS):
                return cast(HttpResponse, show(request, extra_context))
        except StatementTimeout:
            admin = cast("ModelAdmin[Any]", self)
            context = {
                **admin.admin_site.each_context(request),
                "opts": admin.opts,
                "title": str(admin.opts.verbose_name_plural).capitalize(),
            }
            return TemplateResponse(request, "admin/list_timeout.html", context)

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
        condition = Q(pk__in=[])
        for name in self.exact_texts + (self.exact_numbers if is_number else ()):
            condition |= _condition(queryset.model, name, term)
        return queryset.filter(condition), False


def _condition(model: type[Model], name: str, term: str) -> Q:
    """Return the condition that a column equals a term.

    Foreign keys are looked up first, because no index serves a condition on one of several joined tables.
    """
    column, _, rest = name.partition("__")
    related = None if column == "pk" else model._meta.get_field(column).related_model  # noqa: SLF001
    if related is None:
        return Q(**{name: term})
    found = related._default_manager.filter(**{rest: term}).order_by()  # noqa: SLF001
    return Q(**{f"{column}__in": list(found.values_list("pk", flat=True)[:MAX_RELATED])})
