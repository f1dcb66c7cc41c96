"""Lanes, which operators can pause, and machines, which they can drain."""

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.decorators import permission_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from clients import audit
from jobs.enums import Priority
from jobs.models import Closure
from jobs.operations import capacity as state
from jobs.operations.capacity import LaneState, MachineState
from jobs.queue import closures

MAX_ENDED = 20


class BeginForm(forms.Form):
    """Form for pausing a lane and draining a machine."""

    reason = forms.CharField(
        required=False,
        max_length=closures.MAX_REASON_CHARACTERS,
        help_text="Shown to operators, with your name and the time.",
    )


@require_safe
@permission_required("jobs.view_closure", raise_exception=True)
def capacity(request: HttpRequest) -> HttpResponse:
    """List the lanes and machines, and the latest pauses and drains that have ended."""
    context = {
        **admin.site.each_context(request),
        "title": "Capacity",
        "lanes": state.lanes(),
        "machines": state.machines(),
        "ended": list(Closure.objects.filter(ended_at__isnull=False).order_by("-pk")[:MAX_ENDED]),
    }
    return render(request, "console/capacity.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("jobs.change_closure", raise_exception=True)
def change_lane(request: HttpRequest, lane: str) -> HttpResponse:
    """Show what pausing or resuming a lane does, and do it once the user confirms that."""
    found = next((each for each in state.lanes() if each.lane.api_name == lane), None)
    if found is None:
        raise Http404
    if request.method == "POST":
        return _change(request, lane=found.lane)
    return _ask(request, f"the {lane} lane", _effect_on_lane(found), verbs=("Pause", "Resume"), now=found.pause)


@require_http_methods(["GET", "HEAD", "POST"])
@permission_required("jobs.change_closure", raise_exception=True)
def change_machine(request: HttpRequest, host: str) -> HttpResponse:
    """Show what draining or resuming a machine does, and do it once the user confirms that."""
    found = next((each for each in state.machines() if each.host == host), None)
    if found is None:
        raise Http404
    if request.method == "POST":
        return _change(request, host=found.host)
    return _ask(request, host, _effect_on_machine(found), verbs=("Drain", "Resume"), now=found.drain)


def _ask(
    request: HttpRequest, name: str, effect: str, *, verbs: tuple[str, str], now: Closure | None
) -> HttpResponse:
    """Show the effect of beginning or ending a pause or drain, with a form. `verbs` name the two changes."""
    verb = verbs[now is not None]
    context = {
        **admin.site.each_context(request),
        "title": f"{verb} {name}",
        "button": verb,
        "effect": effect,
        "now": now,
        "form": None if now else BeginForm(),
    }
    return render(request, "console/capacity_change.html", context)


def _change(request: HttpRequest, *, lane: Priority | None = None, host: str = "") -> HttpResponse:
    """Make the change that the user confirmed, whatever the state is now."""
    by, name = audit.operator(request), f"The {lane.api_name} lane" if lane is not None else host
    state_name = "drained" if host else "paused"
    if "end" in request.POST:
        is_done = closures.end(lane=lane, host=host, by=by)
        text = f"{name} is no longer {state_name}." if is_done else f"{name} was not {state_name}."
    else:
        reason = request.POST.get("reason", "")
        is_done = closures.begin(lane=lane, host=host, by=by, reason=reason)
        text = f"{name} is {state_name}." if is_done else f"{name} was already {state_name}."
    messages.add_message(request, messages.SUCCESS if is_done else messages.INFO, text)
    return redirect("console_capacity")


def _effect_on_lane(lane: LaneState) -> str:
    """Return what pausing or resuming a lane does."""
    if lane.pause:
        return "Slots claim its jobs again within a few seconds."
    return (
        "No slot claims its waiting jobs, which still fail at their queue limits. "
        f"Its claimed jobs ({lane.running:,}) continue."
    )


def _effect_on_machine(machine: MachineState) -> str:
    """Return what draining or resuming a machine does."""
    if machine.drain:
        return "Its workers claim jobs again within a few seconds."
    return (
        f"Its workers claim nothing but keep running. What it runs ({machine.running:,}) ends within "
        f"{settings.STOP_SECONDS:g} s or returns to the queue."
    )
