"""What Prometheus is told of deliveries: counted when it asks, on partial indexes."""

from collections.abc import Iterator
from datetime import timedelta

from django.db import Error as DatabaseError
from django.db.models import Count, Min
from django.db.models.functions import Now
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from webhooks import delivery
from webhooks.models import Delivery, Endpoint

RECENT = timedelta(minutes=5)


class DeliveryCollector(Collector):
    """The gauges; left out while the database does not answer, which others report."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        try:
            yield from gauges()
        except DatabaseError:
            return


def gauges() -> list[GaugeMetricFamily]:
    """Return what the database knows of deliveries. Three queries."""
    due = delivery.due().aggregate(count=Count("id"), age=Now() - Min("next_attempt_at"))
    failing = Endpoint.objects.filter(disabled_at=None, failing_since__isnull=False).count()
    return [
        gauge("due", "Events whose next attempt is due.", due["count"]),
        gauge(
            "oldest_due_seconds",
            "How long the first due event has been due.",
            due["age"].total_seconds() if due["age"] else 0,
        ),
        gauge("failing_endpoints", "Enabled endpoints whose last delivery failed.", failing),
        attempts(),
    ]


def attempts() -> GaugeMetricFamily:
    """Return how the attempts of the last five minutes ended."""
    recent = Delivery.objects.filter(started_at__gte=Now() - RECENT)
    counted = dict(recent.values_list("outcome").annotate(Count("id")).order_by())
    family = GaugeMetricFamily(
        "simservice_webhooks_attempts", "Attempts that began in the last five minutes.", labels=["outcome"]
    )
    for outcome in Delivery.Outcome:
        family.add_metric([outcome], counted.get(outcome, 0))
    return family


def gauge(name: str, told: str, value: float) -> GaugeMetricFamily:
    """Return a gauge of one value."""
    return GaugeMetricFamily(f"simservice_webhooks_{name}", told, value=value)
