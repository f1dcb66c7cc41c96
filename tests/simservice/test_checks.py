"""Deployment checks, with risky and safe settings."""

import pytest
from django.core.checks import run_checks
from pytest_django import Settings

SMTP = "django.core.mail.backends.smtp.EmailBackend"
DUMMY = "django.core.mail.backends.dummy.EmailBackend"


WARNED = [
    ("SANDBOX", "auto", "W001", "SANDBOX=required"),
    ("SANDBOX", "off", "W001", "SANDBOX=required"),
    ("ALLOWED_HOSTS", ["*"], "W002", "ALLOWED_HOSTS"),
    ("ALLOWED_HOSTS", ["sim.example.org", "*"], "W002", "ALLOWED_HOSTS"),
    ("PUBLIC_BASE_URL", "", "W003", "PUBLIC_BASE_URL"),
    ("EMAIL_BACKEND", DUMMY, "W004", "EMAIL_URL"),
    ("EMAIL_BACKEND", DUMMY, "W007", "SIGNUP_CREDITS=0"),
    ("REDIS_URL", "redis://redis.example.org:6379/0", "W005", "REDIS_URL"),
    ("REDIS_URL", "redis://user@redis.example.org", "W005", "REDIS_URL"),
    ("REDIS_URL", "unix:///run/redis.sock", "W005", "REDIS_URL"),
    ("SECURE_SSL_REDIRECT", True, "W008", "TRUSTED_PROXIES"),
]
ACCEPTED = [
    ("SANDBOX", "required", "W001"),
    ("ALLOWED_HOSTS", ["sim.example.org", ".example.org"], "W002"),
    ("PUBLIC_BASE_URL", "https://sim.example.org", "W003"),
    ("EMAIL_BACKEND", SMTP, "W004"),
    ("EMAIL_BACKEND", SMTP, "W007"),
    ("REDIS_URL", "rediss://:secret@redis.example.org:6379/0", "W005"),
    ("REDIS_URL", "unix:///run/redis.sock?password=secret", "W005"),
]


def warnings(*, deploy: bool = True) -> dict[str, str]:
    """Return the hint of each of this service's warnings, by number."""
    messages = run_checks(tags=["security"], include_deployment_checks=deploy)
    return {
        message.id.removeprefix("simservice."): str(message.hint)
        for message in messages
        if message.id and message.id.startswith("simservice.")
    }


@pytest.mark.parametrize(("name", "value", "number", "hint"), WARNED, ids=[f"{one[0]}={one[1]}" for one in WARNED])
def test_a_risky_setting_causes_a_warning(
    name: str, value: object, number: str, hint: str, settings: Settings
) -> None:
    setattr(settings, name, value)
    assert hint in warnings()[number]


@pytest.mark.parametrize(("name", "value", "number"), ACCEPTED, ids=[f"{one[0]}={one[1]}" for one in ACCEPTED])
def test_a_safe_setting_causes_no_warning(name: str, value: object, number: str, settings: Settings) -> None:
    setattr(settings, name, value)
    assert number not in warnings()


@pytest.mark.parametrize(
    ("host", "options", "is_warned_of"),
    [
        ("db.example.org", {}, True),
        ("10.0.0.5", {"sslmode": "prefer"}, True),
        ("localhost,db.example.org", {}, True),
        ("", {"host": "db.example.org"}, True),
        ("db.example.org", {"sslmode": "require"}, False),
        ("postgres", {"sslmode": "disable"}, False),
        ("db.example.org", {"sslmode": "verify-ca"}, False),
        ("db.example.org", {"sslmode": "verify-full"}, False),
        ("127.0.0.1", {}, False),
        ("[::1]", {}, False),
        ("localhost", {}, False),
        ("", {}, False),
        ("", {"host": "/run/postgresql"}, False),
    ],
    ids=str,
)
def test_a_remote_database_needs_tls(
    *, host: str, options: dict[str, str], is_warned_of: bool, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setitem(settings.DATABASES["default"], "HOST", host)
    monkeypatch.setitem(settings.DATABASES["default"], "OPTIONS", options)
    assert ("W006" in warnings()) == is_warned_of
    assert "sslmode" in warnings().get("W006", "sslmode")


def test_a_redirect_to_https_needs_a_trusted_proxy(settings: Settings) -> None:
    settings.SECURE_SSL_REDIRECT, settings.TRUSTED_PROXIES = True, 1
    assert "W008" not in warnings()


def test_there_are_no_warnings_outside_a_deployment(settings: Settings) -> None:
    settings.SANDBOX = "auto"
    assert warnings(deploy=False) == {}
