"""Celery tasks of the dashboard: mail to users, and removal of expired sessions."""

import logging

from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from simservice import clocks
from simservice.celery import app
from simservice.web import mail

logger = logging.getLogger(__name__)

BATCH = 10_000


@app.task(name="dashboard.tasks.mail_sign_up_link")
def mail_sign_up_link(*, email: str, base: str, wanted: str, invitation: int | None) -> None:
    """Mail the reply to a sign-up."""
    from dashboard.login import sign_up  # loads all pages, to build links

    mail.run_in_background(lambda: sign_up.mail_link(email=email, base=base, wanted=wanted, invitation=invitation))


@app.task(name="dashboard.tasks.mail_reset_link")
def mail_reset_link(*, email: str, base: str) -> None:
    """Mail the reply to a request for a password reset."""
    from dashboard.login import password_reset  # loads all pages, to build links

    mail.run_in_background(lambda: password_reset.mail_link(email=email, base=base))


@app.task(name="dashboard.tasks.forget_sessions")
def forget_sessions() -> None:
    """Delete expired sessions, and the entries of sessions that no longer exist."""
    if not clocks.is_right():
        return
    expired = Session.objects.filter(expire_date__lte=Now()).values("pk")[:BATCH]
    deleted, _ = Session.objects.filter(pk__in=expired).delete()
    existing = Session.objects.filter(pk=OuterRef("session_key"))
    orphans = UserSession.objects.filter(~Exists(existing)).values("pk")[:BATCH]
    UserSession.objects.filter(pk__in=orphans).delete()
    if deleted:
        logger.info("deleted %s expired sessions", deleted)
