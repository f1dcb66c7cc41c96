"""What happens once when the webhooks' code is loaded."""

import logging

from django.apps import AppConfig
from django.conf import settings

logger = logging.getLogger(__name__)


class WebhooksConfig(AppConfig):
    name = "webhooks"

    def ready(self) -> None:
        """Add the deliveries' gauges to the service's metrics; be loud about a hole in the rules for addresses."""
        from simservice.metrics import REGISTRY
        from webhooks.metrics import DeliveryCollector

        REGISTRY.register(DeliveryCollector())
        warn_of_allowed()


def warn_of_allowed() -> None:
    """Say loudly which addresses are free of the rules."""
    if settings.WEBHOOK_ALLOWED_ADDRESSES:
        allowed = ", ".join(settings.WEBHOOK_ALLOWED_ADDRESSES)
        logger.warning("WEBHOOK_ALLOWED_ADDRESSES: webhooks may go to %s WHATEVER ADDRESS THAT IS", allowed)
