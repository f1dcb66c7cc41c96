"""Admin pages for webhook endpoints, events and deliveries: read-only, with an action to resend events."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from simservice.admin import LargeTableMixin, ReadOnlyMixin
from webhooks.endpoints import EndpointError
from webhooks.models import Delivery, Endpoint, Event
from webhooks.redelivery import Redelivery, redeliver

# The action handles one event after another while the operator waits.
MAX_SELECTED = 100


@admin.register(Endpoint)
class EndpointAdmin(ReadOnlyMixin, admin.ModelAdmin):
    list_display = ["client", "url", "disabled_at", "disabled_for", "failing_since"]
    list_filter = ["disabled_for"]
    list_select_related = ["client__account"]
    search_fields = ["=client__account__name", "url"]
    exclude = ["secret", "old_secret"]


class DeliveryInline(ReadOnlyMixin, admin.TabularInline):
    model = Delivery
    extra = 0


@admin.register(Event)
class EventAdmin(LargeTableMixin, ReadOnlyMixin, admin.ModelAdmin):
    list_display = ["name", "client", "job_id", "state", "failure", "failures", "created_at", "next_attempt_at"]
    list_filter = ["state", "failure"]
    list_select_related = ["client__account"]
    exact_numbers = ("job_id",)
    exact_texts = ("name", "client__account__name")
    readonly_fields = ["content"]
    inlines = [DeliveryInline]
    actions = ["redeliver"]

    @admin.display(description="body")
    def content(self, event: Event) -> str:
        return bytes(event.body).decode()

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may resend events. Events cannot be edited, so the permission means only that."""
        return request.user.has_perm("webhooks.change_event")

    @admin.action(description="Resend selected events (with the same event IDs)", permissions=["operate"])
    def redeliver(self, request: HttpRequest, queryset: QuerySet[Event]) -> None:
        selected = list(queryset.select_related("client")[: MAX_SELECTED + 1])
        if len(selected) > MAX_SELECTED:
            self.message_user(request, f"Select at most {MAX_SELECTED} events at a time.", messages.ERROR)
            return
        resent = [event for event in selected if self._redeliver_one(request, event) is Redelivery.SCHEDULED]
        for event in resent:
            self.log_change(request, event, "Resent")
        self.message_user(request, f"{len(resent)} event{'' if len(resent) == 1 else 's'} queued.", messages.INFO)

    def _redeliver_one(self, request: HttpRequest, event: Event) -> Redelivery | None:
        """Resend an event. Return None, with a message to the operator, if its endpoint is not enabled."""
        try:
            return redeliver(event)
        except EndpointError as error:
            self.message_user(request, f"{event}: {error}", messages.ERROR)
            return None


@admin.register(Delivery)
class DeliveryAdmin(LargeTableMixin, ReadOnlyMixin, admin.ModelAdmin):
    list_display = ["name", "event", "outcome", "status", "problem", "address", "duration_ms", "started_at"]
    list_filter = ["outcome", "problem"]
    list_select_related = ["event"]
    exact_texts = ("name", "event__name")
