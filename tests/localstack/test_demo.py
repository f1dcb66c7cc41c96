"""The demo, against an HTTP server with one prepared response."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from localstack import demo
from localstack.stack import CHECKOUT, Stack
from localstack.supervisor import Supervisor
from simservice_client.cli.parser import make_parser

BUILT_IN = {"channel": "latest", "simcVersion": "minisim 0.1.0"}


class Service(ThreadingHTTPServer):
    """Returns `builds`, or an error without them."""

    builds: list[dict[str, str]] | None = [BUILT_IN]
    request: tuple[str, str | None] = ("", None)


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        self.server.request = (self.path, self.headers["Authorization"])
        self.send_response(500 if self.server.builds is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps({"builds": self.server.builds}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(("127.0.0.1", 0), Handler) as service:
        thread = threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield service
        service.shutdown()
        thread.join()


class Commands(Supervisor):
    """Records commands and the addresses they get, and returns `status`."""

    def __init__(self) -> None:
        super().__init__()
        self.status = 0
        self.commands: list[list[str]] = []
        self.environment: dict[str, str] = {}

    def run(self, command: Any, *, folder: Path, environment: Any) -> int:
        assert folder == CHECKOUT
        self.commands.append(list(command))
        self.environment = {name: environment[name] for name in ("SIMSERVICE_URL", "SIMSERVICE_API_KEY")}
        return self.status


@pytest.fixture
def supervisor() -> Commands:
    return Commands()


@pytest.fixture
def stack(service: Service, supervisor: Commands) -> Stack:
    return Stack(
        supervisor=supervisor,
        url=f"http://127.0.0.1:{service.server_port}",
        api_key="sk_key",
        user="demo",
        password="pass",
        database_url="",
        redis_url="",
    )


def test_simctl_runs_the_profile_with_the_demo_key(
    stack: Stack, service: Service, supervisor: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.show(stack) is True
    assert service.request == ("/v1/sim/builds", "Bearer sk_key")
    [command] = supervisor.commands
    assert (CHECKOUT / make_parser().parse_args(command[3:]).files[0]).is_file()
    assert supervisor.environment == {"SIMSERVICE_URL": f"{stack.url}/v1/sim", "SIMSERVICE_API_KEY": "sk_key"}
    assert "demo / pass" in capsys.readouterr().out


def test_the_commands_that_are_shown_can_be_run(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    demo.show(stack)
    lines = [line.partition("bin/simctl ")[2] for line in capsys.readouterr().out.splitlines()]
    login, run = [make_parser().parse_args(line.split()) for line in lines if line]
    assert login.url == stack.url
    assert all((CHECKOUT / file).is_file() for file in run.files)


def test_no_job_is_submitted_to_a_real_build(
    stack: Stack, service: Service, supervisor: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    service.builds = [BUILT_IN | {"channel": "weekly"}, BUILT_IN | {"simcVersion": "1120-01"}, BUILT_IN]
    assert demo.show(stack) is True
    output = capsys.readouterr().out
    assert supervisor.commands == []
    assert "The newest build is SimulationCraft 1120-01. No demo job was submitted" in output
    assert "demo / pass" in output
    assert "failed" not in output


def test_a_failed_job_fails_the_demo(stack: Stack, supervisor: Commands) -> None:
    supervisor.status = 1
    assert demo.show(stack) is False


def test_an_error_of_the_service_is_reported(
    stack: Stack, service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    service.builds = None
    assert demo.show(stack) is False
    assert "The demo failed: 500" in capsys.readouterr().out


def test_a_missing_service_is_reported(stack: Stack, service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.server_close()
    service.shutdown()
    assert demo.show(stack) is False
    assert "The demo failed" in capsys.readouterr().out


def test_another_resource_name_is_used(
    stack: Stack, service: Service, supervisor: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_RESOURCE", "other")
    assert demo.show(stack) is True
    assert service.request[0] == "/v1/other/builds"
    assert supervisor.environment["SIMSERVICE_URL"].endswith("/v1/other")
