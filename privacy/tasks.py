"""Celery tasks of exports and deletions."""

import logging

from django.db import Error as DatabaseError

from clients import invitations
from privacy import accounts, exports
from simservice import clocks
from simservice.celery import app

logger = logging.getLogger(__name__)


@app.task(name="privacy.tasks.build_exports")
def build_exports() -> None:
    try:
        built = exports.build_waiting()
    except DatabaseError:
        logger.exception("building exports failed and will be retried")
        return
    if built:
        logger.info("built %s exports", built)


@app.task(name="privacy.tasks.delete_data")
def delete_data() -> None:
    """Delete what has expired, and continue the deletions of accounts. No step depends on another."""
    if not clocks.is_right():
        return
    for step in (invitations.delete_expired, exports.delete_expired, exports.delete_unknown, accounts.proceed):
        try:
            step()
        except (DatabaseError, OSError):
            logger.exception("deleting data failed and will be retried")
