"""Celery tasks for credits. Each processes one batch and can safely run twice at once."""

import logging

from billing import ledger
from simservice.celery import app

logger = logging.getLogger(__name__)

BATCH = 1_000


@app.task(name="billing.tasks.expire_grants")
def expire_grants() -> None:
    """Book the remaining credits of expired grants as expired."""
    expired = ledger.expire_grants(BATCH)
    if expired:
        logger.info("booked %s expired grants", expired)


@app.task(name="billing.tasks.grant_allowances")
def grant_allowances() -> None:
    """Grant this month's missing allowances."""
    granted = ledger.grant_allowances(BATCH)
    if granted:
        logger.info("granted %s monthly allowances", granted)
