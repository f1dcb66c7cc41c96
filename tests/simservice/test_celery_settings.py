"""The settings that Celery has, and shows to `celery inspect conf` and Flower."""

import sys
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from kombu.utils.scheduling import priority_cycle

from simservice.celery import app


def test_celery_shows_no_passwords() -> None:
    shown = str(app.conf.table())
    password = urlsplit(settings.REDIS_URL).password
    assert password
    assert password not in shown
    assert settings.SECRET_KEY not in shown
    assert "redis_url" not in shown.lower()


def test_celery_has_its_settings() -> None:
    assert app.conf.broker_url == settings.REDIS_URL
    assert app.conf.beat_schedule == settings.CELERY_BEAT_SCHEDULE
    # Celery's integration with Django reads this name.
    assert app.conf.get("CELERY_DB_REUSE_MAX") == sys.maxsize


def test_the_queues_of_a_worker_are_consumed_in_their_order() -> None:
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        assert isinstance(channel._queue_cycle, priority_cycle)
