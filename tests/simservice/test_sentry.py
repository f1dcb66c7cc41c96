"""Errors sent to Sentry."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from clients import keys
from localstack.redis_server import free_port
from tests.http_receiver import HttpReceiver, http_receiver
from tests.waiting import wait_until
from tests.web_server import request, web_server

# A process that logs an error with secrets wherever a record or an exception can have some.
FAIL = """
import logging
import django
django.setup()
from simservice.telemetry.logs import log_ids
logger = logging.getLogger("jobs.test")
def parse(profile):
    try:
        return int(profile)
    except ValueError as error:
        raise RuntimeError(profile) from error
with log_ids(job_id=7, attempt=2, account_id=3):
    logger.warning("hemlig")
    try:
        parse("mage=" + "hem" + "lig")
    except RuntimeError:
        extra = {"request": "Bearer " + "hem" + "lig"}
        logger.exception("job %s of %s failed", 7, "hem" + "lig@example.org", extra=extra)
logging.getLogger("django.security.SuspiciousFileOperation").error("hem" + "lig")
"""


@pytest.fixture
def sentry(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpReceiver]:
    """A server in the place of Sentry, to which new processes send errors."""
    with http_receiver() as running:
        monkeypatch.setenv("SENTRY_DSN", running.url.replace("//", "//public@") + "/1")
        yield running


def events(sentry: HttpReceiver) -> list[dict[str, Any]]:
    """Return the received events. An envelope has a line for itself, and two for each item."""
    assert {path for path, _ in sentry.bodies} <= {"/api/1/envelope/"}
    items = []
    for _, body in list(sentry.bodies):
        _, *lines = body.decode().splitlines()
        assert [json.loads(head)["type"] for head in lines[::2]] == ["event"]
        items += [json.loads(item) for item in lines[1::2]]
    return items


def test_an_error_is_sent_with_ids_and_without_texts_of_users(sentry: HttpReceiver) -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "simservice.settings"}
    done = subprocess.run(
        [sys.executable, "-c", FAIL], cwd=settings.BASE_DIR, env=environment, capture_output=True, check=True
    )
    assert b"hemlig@example.org" in done.stderr
    assert b"Sentry" not in done.stderr
    event, suspicious = events(sentry)
    assert suspicious["logentry"] == {"message": "django.security.SuspiciousFileOperation"}
    assert event["tags"] == {"job_id": "7", "attempt": "2", "account_id": "3"}
    assert event["logentry"] == {"message": "job %s of %s failed"}
    assert [value["type"] for value in event["exception"]["values"]] == ["ValueError", "RuntimeError"]
    assert event["exception"]["values"][1]["stacktrace"]["frames"][-1]["function"] == "parse"
    assert b"hemlig" not in b"".join(body for _, body in sentry.bodies)


def test_an_error_of_the_web_server_is_sent(
    sentry: HttpReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"postgresql://127.0.0.1:{free_port()}/none")
    key = "sk_" + "hemlig".ljust(40, "A")
    key += keys.checksum(key)
    body = b'{"profile": {"text": "mage=hemlig"}}'
    headers = [
        b"Authorization: Bearer " + key.encode(),
        b"Content-Type: application/json",
        b"Cookie: sessionid=hemlig",
        b"User-Agent: hemlig",
        b"Content-Length: %d" % len(body),
    ]
    with web_server(tmp_path / "log") as web:
        response = web.send(request(b"/v1/sim/jobs?hemlig=1", *headers, method=b"POST", body=body))
        wait_until(lambda: bool(sentry.bodies))
    assert response.status == 503
    (event,) = events(sentry)
    assert event["logentry"] == {"message": "request %s found no database: %s"}
    assert event["tags"] == {"request_id": response.headers["X-Request-Id"]}
    assert b"hemlig" not in b"".join(body for _, body in sentry.bodies).lower()


def test_a_process_ends_without_sentry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENTRY_DSN", f"http://public@127.0.0.1:{free_port()}/1")
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "simservice.settings"}
    subprocess.run([sys.executable, "-c", FAIL], cwd=settings.BASE_DIR, env=environment, check=True, timeout=60)
