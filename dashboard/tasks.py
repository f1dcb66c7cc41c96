"""What is cleared away behind the pages."""

import logging

from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.db.models import Exists, OuterRef
from django.utils import timezone

from simservice.celery import app

logger = logging.getLogger(__name__)

FORGOTTEN_AT_ONCE = 10_000


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
