"""The demonstration's output, against an HTTP server with prepared responses."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from localstack import demo
from localstack.stack import CHECKOUT, Stack
from localstack.supervisor import Supervisor
from simservice_client.cli.parser import make_parser

RUNNING = {"status": "running", "progress": {"percent": 42, "stage": {"label": "initial"}}, "queue": None}
BUILT_IN = {"channel": "latest", "simcVersion": "minisim 0.1.0"}
ACTOR = {
    "name": "Mage",
    "mean": 1000.0,
    "mean_error": 3.0,
    "profilesets": {"results": [{"name": "Better hat", "mean": 1012.5, "mean_error": 4.0}]},
}


def result_with(status: str, *, actor: dict[str, Any] | None) -> dict[str, Any]:
    return {"status": status, "statusReason": None, "result": {"summary": {"mainActor": actor}}}


class Service(ThreadingHTTPServer):
    """Returns the `responses` of each path in order and repeats the last one."""

    responses: dict[str, list[dict[str, Any]]]
    requests: list[tuple[str, str, str | None]]


class Handler(BaseHTTPRequestHandler):
    server: Service

    def respond(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.command, self.path, self.headers["Authorization"]))
        responses = self.server.responses.get(self.path, [])
        body = json.dumps(responses.pop(0) if len(responses) > 1 else (responses or [{}])[0]).encode()
        self.send_response(200 if responses else 500)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = respond  # noqa: N815 (the names that http.server calls)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(("127.0.0.1", 0), Handler) as service:
        service.responses = {
            "/v1/sim/builds": [{"builds": [BUILT_IN]}],
            "/v1/sim/jobs": [{"id": "7"}],
            "/v1/sim/jobs/7/status": [{"status": "queued", "queue": {}}, RUNNING, {"status": "completed"}],
            "/v1/sim/jobs/7/result": [result_with("completed", actor=ACTOR)],
            "/v1/sim/jobs/7": [{"links": {"share": "http://share/x"}}],
        }
        service.requests = []
        thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield service
        service.shutdown()
        thread.join()


@pytest.fixture
def show(service: Service, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    monkeypatch.setattr(demo, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(demo, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(demo, "PATIENCE_SECONDS", 0.1)
    stack = Stack(
        supervisor=Supervisor(),
        url=f"http://127.0.0.1:{service.server_port}",
        api_key="sk_key",
        user="demo",
        password="pass",
        database_url="",
        redis_url="",
    )
    return lambda: demo.show(stack)


def test_a_completed_job_is_shown_from_start_to_share_page(
    show: Callable[[], bool], capsys: pytest.CaptureFixture[str]
) -> None:
    assert show() is True
    output = capsys.readouterr().out
    shown = [
        "job 7",
        "queued",
        " 42 %  initial",
        "1,000 ± 3",
        "+1.25 %  Better hat",
        "http://share/x",
        "demo / pass",
    ]
    assert [each for each in shown if each not in output] == []


def test_the_commands_that_are_shown_can_be_run(
    show: Callable[[], bool], service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    show()
    lines = [line.partition("bin/simctl ")[2] for line in capsys.readouterr().out.splitlines()]
    login, run = [make_parser().parse_args(line.split()) for line in lines if line]
    assert login.url == f"http://127.0.0.1:{service.server_port}"
    assert all((CHECKOUT / file).is_file() for file in run.files)


def test_every_request_carries_the_key(show: Callable[[], bool], service: Service) -> None:
    show()
    assert {authorization for _, _, authorization in service.requests} == {"Bearer sk_key"}
    assert [request[:2] for request in service.requests[:2]] == [
        ("GET", "/v1/sim/builds"),
        ("POST", "/v1/sim/jobs"),
    ]


def test_no_job_is_submitted_to_a_real_build(
    show: Callable[[], bool], service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = BUILT_IN | {"channel": "weekly"}, BUILT_IN | {"simcVersion": "1120-01"}
    service.responses["/v1/sim/builds"] = [{"builds": [old, new, BUILT_IN]}]
    assert show() is True
    output = capsys.readouterr().out
    assert [request[0] for request in service.requests] == ["GET"]
    assert "The newest build is SimulationCraft 1120-01. No demo job was submitted" in output
    assert "demo / pass" in output
    assert "failed" not in output


def test_a_failed_job_ends_with_an_error(
    show: Callable[[], bool], service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    service.responses["/v1/sim/jobs/7/result"] = [
        result_with("failed", actor=None) | {"statusReason": "no such item"}
    ]
    assert show() is False
    assert "no such item" in capsys.readouterr().out


def test_an_error_of_the_service_is_shown_as_a_sentence(
    show: Callable[[], bool], service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    del service.responses["/v1/sim/jobs/7/result"]
    assert show() is False
    assert "returned 500" in capsys.readouterr().out


def test_a_missing_service_is_reported_in_a_sentence(
    show: Callable[[], bool], service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    service.server_close()
    service.shutdown()
    assert show() is False
    assert "The demo failed" in capsys.readouterr().out


def test_another_resource_name_is_used(
    show: Callable[[], bool], service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_RESOURCE", "other")
    assert show() is False
    assert service.requests[0][1] == "/v1/other/builds"


def test_a_terminal_shows_progress_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    display = demo.Display(_in_place=True)
    display.update("x" * 50)
    display.update("y")
    assert capsys.readouterr().out == "\r" + "x" * 19 + "\r" + "y".ljust(19)
