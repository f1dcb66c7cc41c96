"""Endpoints, events and their deliveries as operators see them: facts to read, and events to send again."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from simservice.facts import ReadOnly
from webhooks import endpoints, redelivery
from webhooks.models import Delivery, Endpoint, Event


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
class EventAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ["name", "client", "job_id", "state", "failure", "failures", "created_at", "next_attempt_at"]
    list_filter = ["state", "failure"]
    list_select_related = ["client__account"]
    search_fields = ["=name", "=job_id", "=client__account__name"]
    readonly_fields = ["content"]
    inlines = [DeliveryInline]
    show_full_result_count = False
    actions = ["redeliver"]

    @admin.display(description="body")
    def content(self, event: Event) -> str:
        return bytes(event.body).decode()

    @admin.action(description="Send again, under the same event id")
    def redeliver(self, request: HttpRequest, queryset: QuerySet[Event]) -> None:
        sent = 0
        for event in queryset:
            try:
                sent += redelivery.redeliver(event)
            except endpoints.NotPossible as error:
                self.message_user(request, f"{event}: {error}", messages.ERROR)
        self.message_user(request, f"{sent} events will be sent again.", messages.INFO)


@admin.register(Delivery)
class DeliveryAdmin(ReadOnly, admin.ModelAdmin):
    list_display = ["name", "event", "outcome", "status", "problem", "address", "duration_ms", "started_at"]
    list_filter = ["outcome", "problem"]
    list_select_related = ["event"]
    search_fields = ["=name", "=event__name"]
    show_full_result_count = False
