"""The settings that Celery has, and shows to `celery inspect conf` and Flower."""

from urllib.parse import urlsplit

from django.conf import settings

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
    assert app.conf.get("CELERY_DB_REUSE_MAX") == settings.CELERY_DB_REUSE_MAX
