"""Mail: requests enqueue it, workers send it.

Mail can be disabled or fail, so no feature may depend on mail alone.
"""

import hashlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import BoundedSemaphore
from typing import Any

from allauth.core.exceptions import ImmediateHttpResponse
from django.conf import settings
from django.contrib import messages
from django.core.cache import cache
from django.core.mail import send_mail
from django.db import connections
from django.db.transaction import on_commit
from django.http import HttpRequest
from django.shortcuts import redirect
from django.template.loader import render_to_string
from kombu.exceptions import OperationalError

from simservice.celery import app
from simservice.operations.checks import NO_MAIL

logger = logging.getLogger(__name__)

QUEUE = "control"
# Tasks that no worker takes within this time are dropped.
EXPIRES_SECONDS = 600
# Minimum time between two throttled mails of the same template to the same address
PAUSE_SECONDS = 60

# A mail server that hangs must not block a worker's threads, which also run the sweep.
_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="mail")
_queue_slots = BoundedSemaphore(1_000)


def is_enabled() -> bool:
    """Return whether this deployment sends mail."""
    return bool(settings.EMAIL_BACKEND != NO_MAIL)


def enqueue(request: HttpRequest, task: str, **arguments: Any) -> None:
    """Have a worker run a mail task after commit, so that the response time does not depend on the mail.

    Raises ImmediateHttpResponse, which redirects to the form, if the broker does not respond.
    """
    if is_enabled():
        on_commit(partial(_publish, request, task, arguments))


def _publish(request: HttpRequest, task: str, arguments: dict[str, Any]) -> None:
    try:
        app.send_task(task, kwargs=arguments, queue=QUEUE, expires=EXPIRES_SECONDS)
    except OperationalError:
        logger.warning("mail task %s was not enqueued: the broker does not respond", task)
        messages.error(request, "We cannot send email at the moment. Try again in a few minutes.")
        raise ImmediateHttpResponse(redirect(request.get_full_path())) from None


def run_in_background(send: Callable[[], object]) -> None:
    """Run a function that sends mail in a separate thread; drop it if 1,000 others are waiting."""
    if _queue_slots.acquire(blocking=False):
        _threads.submit(_run, send)
    else:
        logger.warning("mail dropped: too many mails are waiting for the mail server")


def _run(send: Callable[[], object]) -> None:
    try:
        send()
    except Exception:
        # The thread pool would discard the error.
        logger.exception("mail was not sent")
    finally:
        connections.close_all()
        _queue_slots.release()


def send(template: str, *, to: str, subject: str, context: dict[str, Any], is_throttled: bool = False) -> bool:
    """Send a mail. Return False if mail is disabled, the mail server fails (logged) or the mail is throttled.

    Throttled mail is skipped if the same template was sent to the address within the last minute; its links are
    still valid.
    """
    if not is_enabled():
        return False
    key = f"mail:{template}:{hashlib.sha256(to.lower().encode()).hexdigest()}"
    if is_throttled and not cache.add(key, value=True, timeout=PAUSE_SECONDS):
        return False
    try:
        text = render_to_string(template, {**context, "brand": settings.SERVICE_BRAND})
        send_text(subject, text, to=[to])
    except OSError:
        logger.exception("mail %s was not sent", template)
        if is_throttled:
            cache.delete(key)
        return False
    return True


def send_text(subject: str, text: str, *, to: list[str]) -> None:
    """Send a mail and wait for the mail server. Raises OSError if the mail server fails."""
    send_mail(subject, text, None, to)
