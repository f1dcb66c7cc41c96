"""Expiry dates of the TLS certificates of our servers."""

import smtplib
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from itertools import cycle
from typing import cast
from urllib.parse import urlsplit

from cryptography import x509
from django.conf import settings

from simservice.operations.checks import hosts_of, requires_tls

CONNECT_SECONDS = 5.0
# The message that asks PostgreSQL for TLS: its length and a code (PostgreSQL's manual, "Message Formats").
SSL_REQUEST = struct.pack("!II", 8, 80877103)

# Connects to a server and returns its certificate in DER. Raises OSError.
Fetch = Callable[[], bytes]


def servers() -> Iterator[tuple[str, Fetch]]:
    """Yield the name of each server that must use TLS, and a function that returns its certificate."""
    database = settings.DATABASES["default"]
    if requires_tls(database):
        # There is a port for each host, or one for all.
        ports = str(database.get("OPTIONS", {}).get("port") or database["PORT"] or 5432).split(",")
        for host, port in zip(hosts_of(database), cycle(ports), strict=False):
            yield "PostgreSQL", partial(_of_postgresql, host, int(port))
    redis = urlsplit(settings.REDIS_URL)
    if redis.scheme == "rediss":
        yield "Redis", lambda: _of_tls(redis.hostname or "localhost", redis.port or 6379)
    bucket = urlsplit(settings.STORAGES["default"].get("OPTIONS", {}).get("endpoint_url", ""))
    if bucket.scheme == "https":
        yield "the bucket's service", lambda: _of_tls(bucket.hostname or "", bucket.port or 443)
    if settings.EMAIL_USE_SSL:
        yield "the mail server", lambda: _of_tls(settings.EMAIL_HOST, settings.EMAIL_PORT)
    elif settings.EMAIL_USE_TLS:
        yield "the mail server", lambda: _of_mail(settings.EMAIL_HOST, settings.EMAIL_PORT)


def validity(certificate: bytes) -> tuple[datetime, datetime]:
    """Return the first and the last moment at which a certificate in DER is valid."""
    parsed = x509.load_der_x509_certificate(certificate)
    return parsed.not_valid_before_utc, parsed.not_valid_after_utc


def public_expiry(host: str, port: int) -> datetime:
    """Return when the certificate of a public host expires. Raises SSLError if it is not valid, and OSError."""
    context = ssl.create_default_context()
    with _connected(host, port) as plain, context.wrap_socket(plain, server_hostname=host) as secure:
        certificate = secure.getpeercert() or {}
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(certificate["notAfter"])), UTC)


def _connected(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), timeout=CONNECT_SECONDS)


def _unverified() -> ssl.SSLContext:
    """Return a context that accepts every certificate, to read the dates of those that are not valid."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _certificate_of(secure: ssl.SSLSocket) -> bytes:
    return secure.getpeercert(binary_form=True) or b""


def _of_tls(host: str, port: int) -> bytes:
    with _connected(host, port) as plain, _unverified().wrap_socket(plain, server_hostname=host) as secure:
        return _certificate_of(secure)


def _of_postgresql(host: str, port: int) -> bytes:
    with _connected(host, port) as plain:
        plain.sendall(SSL_REQUEST)
        if plain.recv(1) != b"S":
            raise OSError("PostgreSQL does not offer TLS")
        with _unverified().wrap_socket(plain, server_hostname=host) as secure:
            return _certificate_of(secure)


def _of_mail(host: str, port: int) -> bytes:
    with closing(smtplib.SMTP(host, port, timeout=CONNECT_SECONDS)) as server:
        server.starttls(context=_unverified())
        return _certificate_of(cast(ssl.SSLSocket, server.sock))
