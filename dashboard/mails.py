"""Mail to people, which may not be there: what it says must be had in another way too."""

import hashlib
import logging
from smtplib import SMTPException
from typing import Any

from allauth.core.exceptions import ImmediateHttpResponse
from django.conf import settings
from django.contrib import messages
from django.core.cache import cache
from django.core.mail import send_mail
from django.http import HttpRequest
from django.shortcuts import redirect
from django.template.loader import render_to_string
from kombu.exceptions import OperationalError

from simservice.celery import app
from simservice.checks import NO_MAIL

logger = logging.getLogger(__name__)

FAILURES = (OSError, SMTPException)
QUEUE = "control"
# Mail requests that no worker takes within this time are dropped.
WAITS_SECONDS = 600
# Between two mails of one kind to one address, so that mailboxes are not flooded.
PAUSE_SECONDS = 60


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


def request(request: HttpRequest, task: str, **fields: Any) -> None:
    """Have a worker write a mail, so that the duration of a request does not depend on the mail.

    Raises ImmediateHttpResponse, which redirects to the form, if the broker does not answer.
    """
    if not are_sent():
        return
    try:
        app.send_task(task, kwargs=fields, queue=QUEUE, expires=WAITS_SECONDS)
    except OperationalError:
        logger.warning("a mail (%s) was not requested: the broker does not answer", task)
        messages.error(request, "We cannot send mail at the moment. Try again in a few minutes.")
        raise ImmediateHttpResponse(redirect(request.get_full_path())) from None


def send_seldom(template: str, *, to: str, subject: str, context: dict[str, Any]) -> bool:
    """Send a mail unless the address just got one of the same template, whose links still work."""
    key = f"mail:{template}:{hashlib.sha256(to.lower().encode()).hexdigest()}"
    if not cache.add(key, value=True, timeout=PAUSE_SECONDS):
        return False
    was_sent = send(template, to=to, subject=subject, context=context)
    if not was_sent:
        cache.delete(key)
    return was_sent
