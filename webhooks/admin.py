"""Admin pages for webhook endpoints, events and deliveries: read-only, with an action to resend events."""

from functools import partial

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html

from simservice.admin.actions import Effect, counted, preview
from simservice.admin.base import LargeTableMixin, ReadOnlyMixin
from webhooks.endpoints import EndpointError
from webhooks.events import Redelivery, redeliver
from webhooks.models import Delivery, Endpoint, Event

UNCHANGED = (Redelivery.IN_FLIGHT, Redelivery.GONE)


@admin.register(Endpoint)
class EndpointAdmin(ReadOnlyMixin, admin.ModelAdmin):
    list_display = ["client", "url", "disabled_at", "disabled_for", "failing_since"]
    list_filter = ["disabled_for"]
    list_select_related = ["client__account"]
    search_fields = ["=client__account__name", "url"]
    exclude = ["secret", "old_secret"]


@admin.register(Event)
class EventAdmin(LargeTableMixin, ReadOnlyMixin, admin.ModelAdmin):
    list_display = ["name", "client", "job_id", "state", "failure", "failures", "created_at", "next_attempt_at"]
    list_filter = ["state"]
    list_select_related = ["client__account"]
    exact_numbers = ("job_id",)
    exact_texts = ("name", "client__account__name")
    readonly_fields = ["content", "attempts"]
    actions = ["redeliver"]

    @admin.display(description="body")
    def content(self, event: Event) -> str:
        return bytes(event.body).decode()

    @admin.display(description="deliveries")
    def attempts(self, event: Event) -> str:
        """Return a link to the list of the event's deliveries."""
        address = reverse("admin:webhooks_delivery_changelist")
        return format_html('<a href="{}?q={}">Deliveries of this event</a>', address, event.name)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may resend events. Events cannot be edited, so the permission means only that."""
        return request.user.has_perm("webhooks.change_event")

    @admin.action(description="Resend selected events (with the same event IDs)", permissions=["operate"])
    def redeliver(self, request: HttpRequest, queryset: QuerySet[Event]) -> HttpResponse | None:
        events = queryset.select_related("client__webhook", "client__account").defer("body")
        run = partial(self.redeliver_each, request)
        return preview(self, request, events, action="redeliver", effect_of=effect_of_resending, run=run)

    def redeliver_each(self, request: HttpRequest, events: list[Event]) -> None:
        """Resend events, log them and show a message."""
        results = [(event, self._redeliver_one(request, event)) for event in events]
        resent = [event for event, result in results if result is Redelivery.SCHEDULED]
        for event in resent:
            self.log_change(request, event, "Resent")
        self.message_user(request, f"{counted(len(resent), self)} queued.", messages.INFO)
        if skipped := [str(event) for event, result in results if result in UNCHANGED]:
            reason = "Skipped because they are being sent or were deleted"
            self.message_user(request, f"{reason}: {', '.join(skipped)}.", messages.WARNING)

    def _redeliver_one(self, request: HttpRequest, event: Event) -> Redelivery | None:
        """Resend an event. Return None, with a message to the operator, if its endpoint is not enabled."""
        try:
            return redeliver(event)
        except EndpointError as error:
            self.message_user(request, f"{event}: {error}", messages.ERROR)
            return None


def effect_of_resending(event: Event) -> Effect:
    """Return what resending does to an event, loaded with its client and endpoint."""
    endpoint = getattr(event.client, "webhook", None)
    if endpoint is None or not endpoint.is_enabled:
        return Effect("its client has no enabled webhook.", happens=False)
    if event.state == Event.State.SENDING:
        return Effect("it is being sent.", happens=False)
    if event.state == Event.State.WAITING:
        return Effect("It is sent now, with a new retry schedule.")
    return Effect(f"It was {event.state}: it is sent again, under its own ID.")


@admin.register(Delivery)
class DeliveryAdmin(LargeTableMixin, ReadOnlyMixin, admin.ModelAdmin):
    list_display = ["name", "event", "outcome", "status", "problem", "address", "duration_ms", "started_at"]
    list_select_related = ["event"]
    exact_texts = ("name", "event__name")
