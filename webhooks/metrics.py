"""Prometheus metrics of deliveries, counted at each scrape with partial indexes."""

from collections.abc import Iterator
from datetime import timedelta

from django.db import Error as DatabaseError
from django.db.models import Count
from django.db.models.functions import Now
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from simservice.telemetry.metrics import gauge
from webhooks import endpoints, events
from webhooks.models import Delivery

RECENT = timedelta(minutes=5)


class DeliveryCollector(Collector):
    """Collects the gauges. It returns none while the database is unavailable; other metrics report that."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        try:
            yield from gauges()
        except DatabaseError:
            return


def gauges() -> list[GaugeMetricFamily]:
    """Return all gauges of deliveries."""
    backlog = events.backlog()
    return [
        gauge("webhooks_due", "Events whose next attempt is due.", backlog.size),
        gauge(
            "webhooks_oldest_due_seconds",
            "How long the oldest due event has been due.",
            backlog.age.total_seconds(),
        ),
        gauge(
            "webhooks_failing_endpoints",
            "Enabled endpoints whose last delivery failed.",
            endpoints.failing().count(),
        ),
        _attempts(),
    ]


def _attempts() -> GaugeMetricFamily:
    recent = Delivery.objects.filter(started_at__gte=Now() - RECENT)
    counted = dict(recent.values_list("outcome").annotate(Count("id")).order_by())
    family = GaugeMetricFamily(
        "simservice_webhooks_attempts", "Attempts started in the last five minutes.", labels=["outcome"]
    )
    for outcome in Delivery.Outcome:
        family.add_metric([outcome], counted.get(outcome, 0))
    return family
