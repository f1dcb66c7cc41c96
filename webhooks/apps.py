"""Start-up of the webhooks app."""

import logging

from django.apps import AppConfig
from django.conf import settings

logger = logging.getLogger(__name__)


class WebhooksConfig(AppConfig):
    name = "webhooks"

    def ready(self) -> None:
        """Register the metrics, and warn of addresses that are exempt from the rules."""
        from simservice.telemetry.metrics import SERVICE
        from webhooks.metrics import DeliveryCollector

        SERVICE.register(DeliveryCollector())
        warn_of_allowed_addresses()


def warn_of_allowed_addresses() -> None:
    """Log a warning that names the addresses to which the rules do not apply."""
    if settings.WEBHOOK_ALLOWED_ADDRESSES:
        allowed = ", ".join(settings.WEBHOOK_ALLOWED_ADDRESSES)
        logger.warning(
            "WEBHOOK_ALLOWED_ADDRESSES: webhooks can reach %s even if the address is NOT PUBLIC", allowed
        )
