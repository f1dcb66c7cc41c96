"""`simctl mcp`: messages from standard input to the service, and answers to standard output."""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from simservice_client.cli.exits import Exit
from tests.sdk.commands import Simctl
from tests.sdk.fake_service import KEY, Answer, Service, refusal

PATH = "POST /mcp"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
NOT_READY = {"code": -32602, "message": "Not yet.", "data": {"code": "result_not_ready", "retryAfterSeconds": 0.1}}


def lines(*messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def result(value: Any = None, *, number: int = 1) -> Answer:
    return Answer({"jsonrpc": "2.0", "id": number, "result": value or {}})


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {**PING, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


@dataclass(frozen=True)
class Held(Answer):
    """An answer that comes only when it is released."""

    released: threading.Event = field(default_factory=threading.Event)

    @property
    def content(self) -> bytes:
        self.released.wait(60)
        return super().content


@contextmanager
def running(simctl: Simctl) -> Iterator[Any]:
    """Run `simctl mcp` within the block; the end of its input ends it."""
    process: Any = simctl.start("mcp")
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()
        process.stderr.close()


def test_only_answers_are_printed(simctl: Simctl, service: Service) -> None:
    service.answers[PATH] = [result({"a": "\N{SNOWMAN}\n"}), Answer(status=202)]
    done = simctl("mcp", stdin=lines(PING, {"jsonrpc": "2.0", "method": "notifications/initialized"}) + b"\n")
    assert (done.returncode, done.stderr) == (Exit.COMPLETED, "")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"jsonrpc": "2.0", "id": 1, "result": {"a": "\N{SNOWMAN}\n"}}
    ]
    assert service.requests == [PATH, PATH]
    assert service.keys == {f"Bearer {KEY}"}


def test_an_answer_of_several_lines_becomes_one(simctl: Simctl, service: Service) -> None:
    service.answers[PATH] = [Answer(b'{"jsonrpc": "2.0",\n "id": 1,\n "result": {}}\n')]
    (line,) = simctl("mcp", stdin=lines(PING)).stdout.splitlines()
    assert json.loads(line)["result"] == {}


def test_the_agreed_version_is_sent(simctl: Simctl, service: Service) -> None:
    service.answers[PATH] = [result({"protocolVersion": "2025-06-18"}), result()]
    with running(simctl) as process:
        for method in ("initialize", "ping"):
            process.stdin.write(lines({**PING, "method": method}).decode())
            process.stdin.flush()
            process.stdout.readline()
    assert service.versions == [None, "2025-06-18"]


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        (refusal(401, "invalid_token"), "invalid_token", "The sentence of invalid_token. (invalid_token)"),
        (Answer(b"<html>", 502), None, "instead of the API's JSON"),
        (Answer(b"<html>"), None, "response is not JSON"),
    ],
)
def test_errors_of_the_service_are_answers(
    simctl: Simctl, service: Service, answer: Answer, code: str | None, text: str
) -> None:
    service.answers[PATH] = [answer]
    done = simctl("mcp", stdin=lines({**call("run"), "id": "seven"}))
    (found,) = map(json.loads, done.stdout.splitlines())
    assert (found["id"], found["error"]["code"]) == ("seven", -32603)
    assert text in found["error"]["message"]
    assert (found["error"].get("data") or {}).get("code") == code


def test_a_refused_notification_is_reported_elsewhere(simctl: Simctl, service: Service) -> None:
    service.answers[PATH] = [refusal(401, "invalid_token")]
    done = simctl("mcp", stdin=lines({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    assert (done.returncode, done.stdout) == (Exit.COMPLETED, "")
    assert "invalid_token" in done.stderr


@pytest.mark.parametrize(
    ("message", "attempts"),
    [(PING, 2), (call("check"), 2), (call("run", idempotencyKey="one"), 2), (call("run"), 1)],
)
def test_what_may_run_a_job_twice_is_not_repeated(
    simctl: Simctl, service: Service, message: dict[str, Any], attempts: int
) -> None:
    service.answers[PATH] = [refusal(503, "queue_unavailable", **{"Retry-After": "0"}), result()]
    simctl("mcp", stdin=lines(message))
    assert service.requests == [PATH] * attempts


def test_the_result_of_a_task_is_asked_for_until_it_has_ended(simctl: Simctl, service: Service) -> None:
    not_ready = Answer({"jsonrpc": "2.0", "id": 1, "error": NOT_READY})
    service.answers[PATH] = [not_ready, not_ready, result({"done": True})]
    (found,) = simctl("mcp", stdin=lines({**PING, "method": "tasks/result"})).stdout.splitlines()
    assert json.loads(found)["result"] == {"done": True}
    assert len(service.requests) == 3


def test_a_waiting_message_delays_no_other(simctl: Simctl, service: Service) -> None:
    held = Held(result(number=1).body)
    service.answers[PATH] = [held, result(number=2)]
    with running(simctl) as process:
        process.stdin.write(lines(call("wait")).decode())
        process.stdin.flush()
        service.wait_for(lambda known: len(known.requests) == 1)
        process.stdin.write(lines({**PING, "id": 2}).decode())
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 2
        held.released.set()
        assert json.loads(process.stdout.readline())["id"] == 1


@pytest.mark.parametrize("line", [b"x\n", b'"\xff"\n', b"[" * 100_000 + b"\n"])
def test_a_line_that_is_no_json_is_ignored(simctl: Simctl, service: Service, line: bytes) -> None:
    service.answers[PATH] = [result()]
    done = simctl("mcp", stdin=line + lines(PING))
    assert (done.returncode, len(done.stdout.splitlines())) == (Exit.COMPLETED, 1)
    assert done.stderr == "simctl: Ignored an input line that is not JSON. Send one message per line.\n"


def test_a_key_is_needed(simctl: Simctl) -> None:
    done = simctl.with_variables(SIMSERVICE_API_KEY=None)("mcp", stdin=lines(PING))
    assert (done.returncode, done.stdout) == (Exit.USAGE, "")


def test_ctrl_c_ends_it_while_a_message_waits(simctl: Simctl, service: Service) -> None:
    held = Held()
    service.answers[PATH] = [held]
    with running(simctl) as process:
        process.stdin.write(lines(PING).decode())
        process.stdin.flush()
        service.wait_for(lambda known: bool(known.requests))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == Exit.INTERRUPTED
        held.released.set()
        assert (process.stdout.read(), process.stderr.read()) == ("", "simctl: interrupted\n")


def test_ctrl_c_ends_it_while_nobody_reads_the_answers(simctl: Simctl, service: Service) -> None:
    service.answers[PATH] = [result({"a": "x" * 1_000_000})]
    with running(simctl) as process:
        process.stdin.write(lines(PING, PING).decode())
        process.stdin.flush()
        service.wait_for(lambda known: len(known.requests) == 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == Exit.INTERRUPTED


def test_it_ends_when_its_reader_has_left(simctl: Simctl, service: Service) -> None:
    service.answers[PATH] = [result()]
    with running(simctl) as process:
        process.stdout.close()
        process.stdin.write(lines(PING).decode())
        process.stdin.flush()
        assert process.wait(60) == Exit.OUTPUT_CLOSED
