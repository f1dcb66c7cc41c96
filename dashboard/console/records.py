"""The list of all admin pages, by task."""

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

# Models that are not listed here follow under their app's name.
TASKS = {
    "Jobs": ("job", "build", "closure"),
    "Accounts": ("account", "plan", "client", "apikey"),
    "Credits": ("grant", "hold", "entry"),
    "People": ("user", "membership", "invitation", "group", "emailaddress", "authenticator", "usersession"),
    "Webhooks": ("endpoint", "event", "delivery"),
    "Audit and privacy": ("auditevent", "export", "accountdeletion"),
}


@require_safe
def records(request: HttpRequest) -> HttpResponse:
    """List the models that the user may view, by task."""
    context = {**admin.site.each_context(request), "title": "Records", "tasks": list(_tasks(request))}
    return render(request, "console/records.html", context)


def _tasks(request: HttpRequest) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the names of tasks with the admin pages of their models."""
    apps = admin.site.get_app_list(request)
    models = {model["object_name"].lower(): model for app in apps for model in app["models"]}
    # Two apps may have a model of the same name; those of TASKS are unique.
    known = {name for names in TASKS.values() for name in names}
    for task, names in TASKS.items():
        if found := [models[name] for name in names if name in models]:
            yield task, found
    for app in apps:
        if others := [model for model in app["models"] if model["object_name"].lower() not in known]:
            yield app["name"], others
