"""Log lines as JSON, and the ids in them."""

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest, HttpResponse
from django.test import Client as HttpClient
from django.test import RequestFactory
from rest_framework.request import Request

from clients.authentication import KeyAuthentication
from clients.models import ApiKey
from dashboard.access import AccountAccess, account_page
from jobs.execution import attempt
from jobs.execution.periodic_thread import PeriodicThread
from jobs.models import Build, Job
from jobs.queue import sweep
from simservice.api.middleware import RequestIdMiddleware
from simservice.telemetry.logs import AddIds, HidePaths, JsonLines, add_log_ids, log_ids
from tests.billing import door
from tests.factories import make_job, make_member
from tests.jobs.simulation_workers import CELERY, WEBHOOKS
from tests.jobs.simulators import claim
from tests.waiting import wait_until
from tests.web_server import request, web_server
from tests.webhooks.helpers import STEADY, end_job, make_client_with_events
from webhooks import dispatcher
from webhooks.claims import claim_deliveries
from webhooks.connection_pool import ConnectionPool

logger = logging.getLogger("tests.logs")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[dict[str, Any]]]:
    """The lines that are logged during a test, as the handler of `settings.LOGGING` writes them with JSON."""
    written: list[dict[str, Any]] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = self.format(record)
            assert "\n" not in text
            written.append(json.loads(text))

    handler = Lines()
    handler.addFilter(AddIds())
    handler.addFilter(HidePaths())
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.addHandler(handler)
    yield written
    root.removeHandler(handler)


def test_a_line_has_its_time_level_logger_and_message(lines: list[dict[str, Any]]) -> None:
    logger.warning("line %s\nline %s", 1, 2)
    (line,) = lines
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00", line.pop("time"))
    assert line == {"level": "WARNING", "logger": "tests.logs", "message": "line 1\nline 2"}


def test_an_exception_is_in_the_line(lines: list[dict[str, Any]]) -> None:
    try:
        raise ValueError("why")
    except ValueError:
        logger.exception("it failed")
    assert "ValueError: why" in lines[0]["exc_info"]


def test_other_fields_of_records_are_not_written(lines: list[dict[str, Any]]) -> None:
    logger.warning("hello", extra={"request": "Authorization: Bearer sk_secret"})
    assert "secret" not in json.dumps(lines)


def test_ids_are_in_the_lines_of_their_block(lines: list[dict[str, Any]]) -> None:
    add_log_ids(account_id=1)
    logger.warning("before")
    with log_ids(request_id="req_1"):
        with log_ids(job_id=2, attempt=3):
            logger.warning("inside")
        add_log_ids(account_id=4)
        logger.warning("later")
    logger.warning("after")
    names = ("request_id", "account_id", "job_id", "attempt")
    assert [tuple(line.get(name) for name in names) for line in lines] == [
        (None, None, None, None),
        ("req_1", None, 2, 3),
        ("req_1", 4, None, None),
        (None, None, None, None),
    ]


def test_a_requests_lines_have_its_id(lines: list[dict[str, Any]]) -> None:
    def view(request: HttpRequest) -> HttpResponse:
        logger.warning("in a view")
        return HttpResponse()

    response = RequestIdMiddleware(view)(HttpRequest())
    assert lines[0]["request_id"] == response["X-Request-Id"]


def test_the_line_of_a_responses_status_has_the_requests_id(
    client: HttpClient, lines: list[dict[str, Any]]
) -> None:
    response = client.get("/no/such/page")
    (line,) = [line for line in lines if line["logger"] == "django.request"]
    assert line["request_id"] == response["X-Request-Id"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (f"/share/secret{'x' * 16}", "Internal Server Error: share/<token:token>"),
        (
            "/accounts/password/reset/key/1-secret/",
            "Internal Server Error: accounts/password/reset/key/(?P<uidb36>",
        ),
        ("/share/secret/é", "Not Found: none"),
    ],
    ids=["share link", "reset link", "no route"],
)
def test_a_line_contains_no_secret_link(path: str, message: str, lines: list[dict[str, Any]]) -> None:
    # Without the mark `django_db`, the database fails.
    HttpClient(raise_request_exception=False).get(path)
    assert lines[-1]["message"].startswith(message)
    assert "secret" not in json.dumps(lines)


@pytest.mark.django_db
def test_the_line_of_an_unknown_share_link_has_its_route(client: HttpClient, lines: list[dict[str, Any]]) -> None:
    assert client.get(f"/share/{'x' * 22}").status_code == 404
    assert [line["message"] for line in lines] == ["Not Found: share/<token:token>"]


@pytest.mark.django_db
def test_an_authenticated_requests_lines_have_the_account(
    key: tuple[ApiKey, str], lines: list[dict[str, Any]]
) -> None:
    request = Request(
        RequestFactory().get("/", headers={"authorization": f"Bearer {key[1]}"}), parser_context={"view": None}
    )
    with log_ids(request_id="req_1"):
        KeyAuthentication().authenticate(request)
        logger.warning("authenticated")
    assert lines[-1]["account_id"] == key[0].client.account_id


@pytest.mark.django_db(transaction=True)
def test_an_attempts_lines_have_its_ids(minisim: Build, lines: list[dict[str, Any]]) -> None:
    make_job(text='mage="A"\nlevel=80\niterations=5\n')
    job = claim()
    attempt.execute(job)
    (ended,) = [line for line in lines if line["message"].endswith(": completed")]
    assert (ended["job_id"], ended["attempt"], ended["account_id"]) == (job.pk, 1, job.account_id)


@pytest.mark.django_db
def test_a_dashboard_requests_lines_have_the_account(lines: list[dict[str, Any]]) -> None:
    @account_page()
    def page(_: HttpRequest, access: AccountAccess) -> HttpResponse:
        logger.warning("for %s", access.user)
        return HttpResponse()

    membership = make_member()
    request = RequestFactory().get("/")
    request.user, request.session = membership.user, SessionStore()
    with log_ids(request_id="req_1"):
        page(request, membership.account.name)
    assert lines[-1]["account_id"] == membership.account_id


@pytest.mark.django_db(transaction=True)
def test_the_sweeps_lines_have_the_job(lines: list[dict[str, Any]]) -> None:
    job = make_job()
    Job.objects.update(queue_deadline_at=job.created_at)
    door.resolve_hold(job.pk)
    sweep.end_overdue_waits()
    assert (lines[-1]["job_id"], lines[-1]["account_id"]) == (job.pk, job.account_id)


@pytest.mark.django_db(transaction=True)
def test_a_deliverys_lines_have_the_event_and_the_job(lines: list[dict[str, Any]]) -> None:
    client = make_client_with_events(0)
    job = end_job(client)
    (attempt,) = claim_deliveries(STEADY, room=1)
    with closing(ConnectionPool()) as connections:
        dispatcher.make_request(replace(attempt, body=cast(bytes, "text")), connections)
    ids = {"event_id": attempt.event, "job_id": job.pk, "account_id": client.account_id}
    assert lines[-1] | ids == lines[-1]


def test_a_periodic_threads_lines_have_the_ids_of_its_block(lines: list[dict[str, Any]]) -> None:
    with log_ids(job_id=7), PeriodicThread(lambda: logger.warning("again"), seconds=0.01, name="test"):
        wait_until(lambda: bool(lines))
    assert lines[0]["job_id"] == 7


@pytest.mark.slow
def test_lines_of_the_web_server_are_json_without_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_FORMAT", "json")
    with web_server(tmp_path / "log") as web:
        assert web.send(request(b"/healthz")).status == 200
        assert web.send(request(b"/share/secret")).status == 404
        assert web.send(b"GET /share/secret link HTTP/1.1\r\n\r\n").status == 400
    messages = [json.loads(line)["message"] for line in (tmp_path / "log").read_text().splitlines()]
    assert any(message.startswith("Listening at") for message in messages)
    assert any("rejected" in message for message in messages)
    assert not any("secret" in message for message in messages)


@pytest.mark.slow
def test_every_line_of_a_worker_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_FORMAT", "json")
    # Celery warns the superuser before it sets up the log.
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    command = [sys.executable, CELERY[0], "--quiet", *WEBHOOKS[1:]]
    worker = subprocess.Popen(
        command, cwd=settings.BASE_DIR, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert worker.stdout is not None
    first = worker.stdout.readline()
    worker.terminate()
    rest, _ = worker.communicate(timeout=30)
    # Celery prints that it stops.
    lines = [line for line in [first, *rest.splitlines()] if line and not line.startswith("worker: ")]
    assert [json.loads(line)["level"] for line in lines]
