"""Endpoints, events and their deliveries as operators see them: facts to read, and events to send again."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from simservice.admin import ManyRows, ReadOnly
from webhooks import endpoints, redelivery
from webhooks.models import Delivery, Endpoint, Event

# An action is done for one event after the other, while the operator waits.
MOST_AT_ONCE = 100


@admin.register(Endpoint)
class EndpointAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ["client", "url", "disabled_at", "disabled_for", "failing_since"]
    list_filter = ["disabled_for"]
    list_select_related = ["client__account"]
    search_fields = ["=client__account__name", "url"]
    exclude = ["secret", "old_secret"]


class DeliveryInline(ReadOnly, admin.TabularInline):
    model = Delivery
    extra = 0


@admin.register(Event)
class EventAdmin(ManyRows, ReadOnly, admin.ModelAdmin):
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
        """Tell whether the user may send events again, none of which can be edited."""
        return request.user.has_perm("webhooks.change_event")

    @admin.action(description="Send again, under the same event id", permissions=["operate"])
    def redeliver(self, request: HttpRequest, queryset: QuerySet[Event]) -> None:
        chosen = list(queryset.select_related("client")[: MOST_AT_ONCE + 1])
        if len(chosen) > MOST_AT_ONCE:
            self.message_user(request, f"Choose at most {MOST_AT_ONCE} events at a time.", messages.ERROR)
            return
        sent = [event for event in chosen if self.is_sent(request, event)]
        for event in sent:
            self.log_change(request, event, "Sent again")
        self.message_user(request, f"{len(sent)} events will be sent again.", messages.INFO)

    def is_sent(self, request: HttpRequest, event: Event) -> bool:
        """Send an event again, and tell the operator when that cannot be."""
        try:
            return redelivery.redeliver(event)
        except endpoints.NotPossible as error:
            self.message_user(request, f"{event}: {error}", messages.ERROR)
            return False


@admin.register(Delivery)
class DeliveryAdmin(ManyRows, ReadOnly, admin.ModelAdmin):
    list_display = ["name", "event", "outcome", "status", "problem", "address", "duration_ms", "started_at"]
    list_filter = ["outcome", "problem"]
    list_select_related = ["event"]
    exact_texts = ("name", "event__name")
