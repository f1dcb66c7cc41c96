"""How well a client's webhook works: the attempts of the last days."""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Aggregate, Count, FloatField, Max, Q
from django.db.models.functions import Now

from clients.models import Client
from webhooks.events import events_of
from webhooks.models import Delivery

PERIOD = timedelta(days=7)
# The attempts of this many events are read, so that a busy client's page stays fast.
NEWEST_EVENTS = 2_000
ENDED = [Delivery.Outcome.DELIVERED, Delivery.Outcome.FAILED, Delivery.Outcome.REJECTED]


class Median(Aggregate):
    function = "percentile_cont"
    template = "%(function)s(0.5) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()


@dataclass(frozen=True, kw_only=True)
class Health:
    """The attempts that ended in PERIOD for the newest NEWEST_EVENTS events, and their median duration."""

    attempts: int
    delivered: int
    median_ms: float | None
    slowest_ms: int | None

    @property
    def rate(self) -> float:
        """Return the part of the attempts that were delivered. There must be at least one."""
        return self.delivered / self.attempts


def health_of(client: Client) -> Health:
    """Return how the attempts of a client's webhook ended. One query."""
    newest = events_of(client).values("pk")[:NEWEST_EVENTS]
    attempts = Delivery.objects.filter(event__in=newest, started_at__gte=Now() - PERIOD, outcome__in=ENDED)
    return Health(
        **attempts.aggregate(
            attempts=Count("pk"),
            delivered=Count("pk", filter=Q(outcome=Delivery.Outcome.DELIVERED)),
            median_ms=Median("duration_ms"),
            slowest_ms=Max("duration_ms"),
        )
    )
