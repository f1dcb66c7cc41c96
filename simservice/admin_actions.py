"""Actions of the admin on several objects, which show their effects before they run."""

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

Row = TypeVar("Row", bound=Model)
MAX_SELECTED = 200
# The field with the digest of the effects that the user confirms
CONFIRMED = "confirmed"
CHANGED = "The objects have changed since this page was shown. Nothing was done. Check the effects again."


class Effect(NamedTuple):
    """What an action would do to an object or, if nothing happens, why."""

    text: str
    happens: bool = True


def preview(
    model_admin: "ModelAdmin[Row]",
    request: HttpRequest,
    selected: QuerySet[Row],
    *,
    action: str,
    effect_of: Callable[[Row], Effect],
    run: Callable[[list[Row]], None],
    fields: Sequence[str] = (),
) -> HttpResponse | None:
    """Show what an action would do; once the user confirms that, call `run` with the objects it concerns.

    The page sends the ids of its objects, so that others are never affected, and a digest of the effects: if an
    effect has changed since, the page is shown again. `fields` are further fields of the action's form, sent again.
    """
    rows = list(selected.order_by("pk")[: MAX_SELECTED + 1])
    if len(rows) > MAX_SELECTED:
        message = f"Select at most {MAX_SELECTED} {model_admin.opts.verbose_name_plural} at a time."
        model_admin.message_user(request, message, messages.ERROR)
        return None
    effects = [(row, effect_of(row)) for row in rows]
    confirmed = request.POST.get(CONFIRMED)
    if confirmed == _digest(effects):
        run([row for row, effect in effects if effect.happens])
        return None
    if confirmed is not None:
        model_admin.message_user(request, CHANGED, messages.WARNING)
    return _page(model_admin, request, action=action, effects=effects, fields=fields)


def _digest(effects: Sequence[tuple[Model, Effect]]) -> str:
    """Return a hash of the objects and of what happens to them."""
    shown = [(str(row.pk), *effect) for row, effect in effects]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()


def _page(
    model_admin: "ModelAdmin[Any]",
    request: HttpRequest,
    *,
    action: str,
    effects: Sequence[tuple[Model, Effect]],
    fields: Sequence[str],
) -> TemplateResponse:
    """Return the preview of an action. No query."""
    description = next(label for name, label in model_admin.get_action_choices(request) if name == action)
    concerned = sum(effect.happens for _, effect in effects)
    context = {
        **model_admin.admin_site.each_context(request),
        "title": description.replace("selected ", ""),
        "button": f"{description.partition('selected')[0]}{counted(concerned, model_admin)}",
        "opts": model_admin.opts,
        "effects": effects,
        "concerned": concerned,
        "skipped": len(effects) - concerned,
        "hidden": [
            ("action", action),
            (CONFIRMED, _digest(effects)),
            *((name, request.POST.get(name, "")) for name in fields),
            *((ACTION_CHECKBOX_NAME, str(row.pk)) for row, _ in effects),
        ],
    }
    return TemplateResponse(request, "admin/action_preview.html", context)


def counted(count: int, model_admin: "ModelAdmin[Any]") -> str:
    """Return a number of objects with their name."""
    options = model_admin.opts
    return f"{count} {options.verbose_name if count == 1 else options.verbose_name_plural}"
