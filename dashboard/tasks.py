"""Celery tasks for the pages: mail to people, and the removal of old sessions."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore

from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.db import connections
from django.db.models import Exists, OuterRef
from django.utils import timezone

from dashboard import password_reset, sign_up
from simservice.celery import app

logger = logging.getLogger(__name__)

# A mail server that hangs must not block the worker's threads, which also run the sweep.
senders = ThreadPoolExecutor(max_workers=2, thread_name_prefix="mail")
room = BoundedSemaphore(1_000)

FORGOTTEN_AT_ONCE = 10_000


@app.task(name="dashboard.tasks.mail_sign_up_link")
def mail_sign_up_link(*, email: str, base: str, wanted: str, invitation: int | None) -> None:
    """Answer a sign-up by mail."""
    in_background(lambda: sign_up.mail_link(email=email, base=base, wanted=wanted, invitation=invitation))


@app.task(name="dashboard.tasks.mail_reset_link")
def mail_reset_link(*, email: str, base: str) -> None:
    """Answer a request for a new password by mail."""
    in_background(lambda: password_reset.mail_link(email=email, base=base))


def in_background(write: Callable[[], object]) -> None:
    """Write a mail in a separate thread; drop it if a thousand others are waiting."""
    if room.acquire(blocking=False):
        senders.submit(written, write)
    else:
        logger.warning("a mail was dropped: too many wait for the mail server")


def written(write: Callable[[], object]) -> None:
    """Write a mail with its own database connection."""
    try:
        write()
    except Exception:
        # The pool would keep it to itself.
        logger.exception("a mail was not written")
    finally:
        connections.close_all()
        room.release()


@app.task(name="dashboard.tasks.forget_sessions")
def forget_sessions() -> None:
    """Remove sessions whose time is over, and what was listed of those that are gone."""
    over = Session.objects.filter(expire_date__lte=timezone.now()).values("pk")[:FORGOTTEN_AT_ONCE]
    sessions, _ = Session.objects.filter(pk__in=over).delete()
    alive = Session.objects.filter(pk=OuterRef("session_key"))
    gone = UserSession.objects.filter(~Exists(alive)).values("pk")[:FORGOTTEN_AT_ONCE]
    UserSession.objects.filter(pk__in=gone).delete()
    if sessions:
        logger.info("%s sessions forgotten", sessions)
