"""Actions of the admin on several objects, which ask for their input and show their effects before they run."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from django import forms
from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.http import url_has_allowed_host_and_scheme

Row = TypeVar("Row", bound=Model)
MAX_SELECTED = 200
# The field with the digest of the effects that the user confirms
CONFIRMED = "confirmed"
# The field with the page of the console that an action was chosen on, which is shown again afterwards
NEXT = "next"
CHANGED = "The objects have changed since this page was shown. Nothing was done. Check the effects again."


class Effect(NamedTuple):
    """What an action would do to an object or, if nothing happens, why.

    `shown` are figures that may change until the user confirms the effect.
    """

    text: str
    happens: bool = True
    shown: str = ""


class Columns(NamedTuple, Generic[Row]):
    """The columns of a preview that identify an object: their headings, and the cells of an object."""

    headings: Sequence[str]
    cells_of: Callable[[Row], Sequence[str]]


def next_page(request: HttpRequest) -> str:
    """Return the page that an action was chosen on, empty if it is the list or another site's."""
    page = request.POST.get(NEXT, "")
    return page if url_has_allowed_host_and_scheme(page, allowed_hosts=None) else ""


def ask(
    model_admin: "ModelAdmin[Any]",
    request: HttpRequest,
    selected: QuerySet[Any],
    *,
    action: str,
    form: forms.Form,
) -> HttpResponse:
    """Show the form that an action needs. It sends the action and the ids of the selected objects again."""
    description = _description(model_admin, request, action)
    rows = list(selected.order_by("pk")[:MAX_SELECTED])
    context = {
        **model_admin.admin_site.each_context(request),
        "title": description.replace("selected ", ""),
        "button": "Preview",
        "opts": model_admin.opts,
        "rows": rows,
        "form": form,
        "back": next_page(request) or request.get_full_path(),
        "hidden": _hidden(request, {"action": action}, rows),
    }
    return TemplateResponse(request, "admin/action_form.html", context)


def preview(
    model_admin: "ModelAdmin[Row]",
    request: HttpRequest,
    selected: QuerySet[Row],
    *,
    action: str,
    effect_of: Callable[[Row], Effect],
    run: Callable[[list[Row]], None],
    hidden: Mapping[str, str] | None = None,
    columns: Columns[Row] | None = None,
) -> HttpResponse | None:
    """Show what an action would do; once the user confirms that, call `run` with the objects it concerns.

    The page sends the ids of its objects, so that others are never affected, and a digest of the effects: if an
    effect has changed since, the page is shown again. `hidden` are further fields that the page sends.
    """
    rows = list(selected.order_by("pk")[: MAX_SELECTED + 1])
    if len(rows) > MAX_SELECTED:
        message = f"Select at most {MAX_SELECTED} {model_admin.opts.verbose_name_plural} at a time."
        model_admin.message_user(request, message, messages.ERROR)
        return None
    effects = [(row, effect_of(row)) for row in rows]
    digest = digest_of([(row.pk, effect.text, effect.happens) for row, effect in effects])
    confirmed = request.POST.get(CONFIRMED)
    if confirmed == digest:
        run([row for row, effect in effects if effect.happens])
        return redirect(page) if (page := next_page(request)) else None
    if confirmed is not None:
        model_admin.message_user(request, CHANGED, messages.WARNING)
    hidden = {**(hidden or {}), "action": action, CONFIRMED: digest}
    return _page(model_admin, request, action=action, effects=effects, hidden=hidden, columns=columns)


def digest_of(shown: object) -> str:
    """Return a hash of what a page shows."""
    return hashlib.sha256(json.dumps(shown, default=str).encode()).hexdigest()


def _page(
    model_admin: "ModelAdmin[Any]",
    request: HttpRequest,
    *,
    action: str,
    effects: Sequence[tuple[Model, Effect]],
    hidden: Mapping[str, str],
    columns: Columns[Any] | None,
) -> TemplateResponse:
    description = _description(model_admin, request, action)
    concerned = sum(effect.happens for _, effect in effects)
    context = {
        **model_admin.admin_site.each_context(request),
        "title": description.replace("selected ", ""),
        "button": concerned and f"{description.partition('selected')[0]}{counted(concerned, model_admin)}",
        "opts": model_admin.opts,
        "headings": columns.headings if columns else (),
        "effects": [
            (row, list(zip(columns.headings, columns.cells_of(row), strict=True)) if columns else (), effect)
            for row, effect in effects
        ],
        "concerned": concerned,
        "skipped": len(effects) - concerned,
        "back": next_page(request) or request.get_full_path(),
        "hidden": _hidden(request, hidden, [row for row, _ in effects]),
    }
    return TemplateResponse(request, "admin/action_preview.html", context)


def _description(model_admin: "ModelAdmin[Any]", request: HttpRequest, action: str) -> str:
    """Return the name of an action in the list of actions."""
    return next(label for name, label in model_admin.get_action_choices(request) if name == action)


def _hidden(request: HttpRequest, fields: Mapping[str, str], rows: Sequence[Model]) -> list[tuple[str, str]]:
    """Return the hidden fields of a page that sends the ids of its objects."""
    page = next_page(request)
    return [
        *fields.items(),
        *([(NEXT, page)] if page else []),
        *((ACTION_CHECKBOX_NAME, str(row.pk)) for row in rows),
    ]


def counted(count: int, model_admin: "ModelAdmin[Any]") -> str:
    """Return a number of objects with their name."""
    options = model_admin.opts
    return f"{count} {options.verbose_name if count == 1 else options.verbose_name_plural}"
