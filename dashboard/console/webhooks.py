"""Webhooks: due events, failing endpoints, and the deliveries of the last hour."""

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.contrib.auth.decorators import permission_required
from django.db.models import Avg, Count
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from simservice.postgresql.connections import StatementTimeout, statement_timeout
from webhooks import endpoints, events
from webhooks.models import Delivery

MAX_COUNTED = 10_000
MAX_ROWS = 25
TIMEOUT_MS = 3_000
DISABLED_WITHIN = timedelta(days=1)


@require_safe
@permission_required("webhooks.view_endpoint", raise_exception=True)
def webhooks(request: HttpRequest) -> HttpResponse:
    """Show what is due, the endpoints that fail, and the latest deliveries."""
    failing = endpoints.failing().select_related("client__account").order_by("failing_since")
    disabled = endpoints.disabled_for_failing(within=DISABLED_WITHIN).select_related("client__account")
    context = {
        **admin.site.each_context(request),
        "title": "Webhooks",
        "backlog": events.backlog(limit=MAX_COUNTED + 1),
        "max_counted": MAX_COUNTED,
        "failing": list(failing[: MAX_ROWS + 1]),
        "disabled": list(disabled.order_by("-disabled_at")[: MAX_ROWS + 1]),
        "deliveries": _deliveries() if request.user.has_perm("webhooks.view_delivery") else None,
        "max_rows": MAX_ROWS,
    }
    return render(request, "console/webhooks.html", context)


def _deliveries() -> dict[str, Any]:
    """Return how the deliveries of the last hour ended, and the latest failed ones. Two queries on an index."""
    recent = Delivery.objects.filter(started_at__gte=Now() - timedelta(hours=1))
    counted = recent.order_by().values_list("outcome").annotate(Count("pk"), Avg("duration_ms"))
    failed = recent.exclude(outcome__in=(Delivery.Outcome.DELIVERED, Delivery.Outcome.SENDING)).select_related(
        "event__client__account"
    )
    try:
        with statement_timeout(TIMEOUT_MS):
            return {
                "outcomes": list(counted),
                "failed": list(failed.defer("excerpt", "event__body").order_by("-started_at")[:MAX_ROWS]),
            }
    except StatementTimeout:
        return {}
