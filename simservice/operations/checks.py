"""Checks of the settings for `manage.py check --deploy`."""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from django.core import checks
from redis import ConnectionPool

NO_MAIL = "django.core.mail.backends.dummy.EmailBackend"
# The modes in which libpq refuses a connection without TLS.
TLS_MODES = ("require", "verify-ca", "verify-full")


@checks.register(checks.Tags.security, deploy=True)
def check_deployment(**_: Any) -> list[checks.CheckMessage]:
    """Return a warning for each setting that is suitable only for development."""
    return [
        checks.Warning(message, hint=hint, id=f"simservice.{number}")
        for number, is_risky, message, hint in (*_service_checks(), *_connection_checks())
        if is_risky
    ]


def _service_checks() -> Iterator[tuple[str, bool, str, str]]:
    """Yield the checks of the service itself: number, whether the setting is risky, message and hint."""
    yield (
        "W001",
        settings.SANDBOX != "required",
        f"SANDBOX is {settings.SANDBOX!r}, so a job may run without some layers of the sandbox.",
        "Set SANDBOX=required.",
    )
    yield (
        "W002",
        "*" in settings.ALLOWED_HOSTS,
        "ALLOWED_HOSTS contains *, so a caller can choose the host in links.",
        "Set ALLOWED_HOSTS to the host names of the service.",
    )
    yield (
        "W003",
        not settings.PUBLIC_BASE_URL,
        "PUBLIC_BASE_URL is not set, so links take their host from the request.",
        "Set PUBLIC_BASE_URL, for example https://sim.example.org.",
    )
    yield (
        "W008",
        settings.SECURE_SSL_REDIRECT and not settings.TRUSTED_PROXIES,
        "SSL_REDIRECT=true and TRUSTED_PROXIES=0: behind a proxy that terminates TLS, redirects never end.",
        "Set TRUSTED_PROXIES to the number of proxies, or ignore this warning if gunicorn terminates TLS.",
    )


def _connection_checks() -> Iterator[tuple[str, bool, str, str]]:
    """Yield the checks of mail, Redis and the database, like `_service_checks`."""
    yield (
        "W004",
        settings.EMAIL_BACKEND == NO_MAIL,
        "EMAIL_URL is not set: users cannot reset a password, and sign-up shows which addresses are known.",
        "Set EMAIL_URL, for example smtp+tls://user:password@host:587.",
    )
    yield (
        "W007",
        settings.EMAIL_BACKEND == NO_MAIL and settings.ALLOW_SIGNUP and bool(settings.SIGNUP_CREDITS),
        "EMAIL_URL is not set, so anyone can collect SIGNUP_CREDITS many times with invented addresses.",
        "Set EMAIL_URL, or SIGNUP_CREDITS=0, or ALLOW_SIGNUP=false.",
    )
    yield (
        "W005",
        not ConnectionPool.from_url(settings.REDIS_URL).connection_kwargs.get("password"),
        "REDIS_URL contains no password.",
        "Require a password in Redis and set REDIS_URL=redis://:password@host:6379/0.",
    )
    yield (
        "W006",
        not _is_protected(settings.DATABASES["default"]),
        "DATABASE_URL names another machine and does not require TLS.",
        "Add ?sslmode=verify-full or ?sslmode=require to DATABASE_URL, or ?sslmode=disable on a private network.",
    )


def _is_protected(database: Mapping[str, Any]) -> bool:
    """Return whether a database connection stays on this machine, or its URL decides whether it uses TLS."""
    is_decided = requires_tls(database) or database.get("OPTIONS", {}).get("sslmode") == "disable"
    return is_decided or all(_is_local(host) for host in hosts_of(database))


def requires_tls(database: Mapping[str, Any]) -> bool:
    """Return whether connections to a database must use TLS."""
    return database.get("OPTIONS", {}).get("sslmode") in TLS_MODES


def hosts_of(database: Mapping[str, Any]) -> list[str]:
    """Return the hosts of a database; libpq accepts several, also as the parameter `host` of a URL."""
    return str(database.get("OPTIONS", {}).get("host") or database.get("HOST") or "").split(",")


def _is_local(host: str) -> bool:
    """Return whether a libpq host is this machine: a socket folder, no host, or a loopback address."""
    if not host or host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
