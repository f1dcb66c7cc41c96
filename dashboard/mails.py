"""Mail to people, which may not be there: what it says must be had in another way too."""

import logging
from smtplib import SMTPException
from typing import Any

from django.conf import settings
from django.core.mail import send_mail
from django.template.loader import render_to_string

from simservice.checks import NO_MAIL

logger = logging.getLogger(__name__)

FAILURES = (OSError, SMTPException)


def are_sent() -> bool:
    """Tell whether this deployment sends mail at all."""
    return bool(settings.EMAIL_BACKEND != NO_MAIL)


def send(template: str, *, to: str, subject: str, context: dict[str, Any]) -> bool:
    """Send one mail; False, with a line in the log, when that cannot be done. Waits for the mail server."""
    if not are_sent():
        return False
    try:
        send_mail(subject, render_to_string(template, {**context, "brand": settings.SERVICE_BRAND}), None, [to])
    except FAILURES:
        logger.exception("a mail (%s) could not be sent", template)
        return False
    return True
