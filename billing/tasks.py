"""Celery's doors into the credits: what expired is booked, and what a month brings is granted.

Both work in bounded batches and may run twice at once.
"""

import logging

from billing import ledger
from simservice.celery import app

logger = logging.getLogger(__name__)

BATCH = 1_000


@app.task(name="billing.tasks.expire_grants")
def expire_grants() -> None:
    """Book grants that have expired as such."""
    expired = ledger.expire_grants(BATCH)
    if expired:
        logger.info("%s grants expired", expired)


@app.task(name="billing.tasks.grant_allowances")
def grant_allowances() -> None:
    """Grant this month's allowance to accounts that lack it."""
    granted = ledger.grant_allowances(BATCH)
    if granted:
        logger.info("%s allowances granted", granted)
