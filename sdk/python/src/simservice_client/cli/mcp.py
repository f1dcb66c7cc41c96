"""`simctl mcp`: an MCP server on standard input and output, which passes each message to the service.

A message has a thread of its own, because some wait for a job, and others must not wait for them. Nothing but
answers is written to standard output, without a buffer: a thread that writes while the command ends would otherwise
hold its lock.
"""

import json
import os
import sys
import threading
import time
from argparse import Namespace
from typing import Any

from simservice_client import Client
from simservice_client.cli.console import Console
from simservice_client.cli.exits import Exit, message_of
from simservice_client.cli.session import open_client
from simservice_client.errors import ApiError, SimserviceError

# The longest time that the service lets a message wait
LONGEST_WAIT_SECONDS = 25.0
MAX_THREADS = 32
INTERNAL_ERROR = -32603
NOT_READY = "result_not_ready"


def serve(arguments: Namespace, console: Console) -> int:
    """Answer messages until standard input ends, and those that are left then."""
    bridge = Bridge(open_client(arguments), console)
    for line in sys.stdin.buffer:
        if line.strip():
            bridge.accept(line.strip())
    bridge.finish()
    return Exit.COMPLETED


class Bridge:
    """Passes messages to the service, and their answers back."""

    def __init__(self, client: Client, console: Console) -> None:
        self._client = client
        self._console = console
        self._places = threading.BoundedSemaphore(MAX_THREADS)
        self._writing = threading.Lock()
        # The version of the protocol that the service has agreed on
        self._version: str | None = None

    def accept(self, line: bytes) -> None:
        """Begin to answer a message. Waits while too many are being answered."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._console.complain("A line of the input is not JSON, and was ignored.")
            return
        self._places.acquire()
        threading.Thread(target=self._carry_out, args=(line, message), daemon=True).start()

    def finish(self) -> None:
        """Wait for the answers to all messages."""
        for _ in range(MAX_THREADS):
            self._places.acquire()

    def _carry_out(self, line: bytes, message: Any) -> None:
        try:
            answer = self._answer(line, message)
            if answer:
                self._write(answer)
        finally:
            self._places.release()

    def _answer(self, line: bytes, message: Any) -> bytes:
        """Return the answer of the service, or an error that says why there is none. Empty if none is expected."""
        try:
            return self._ended(line, message)
        except SimserviceError as error:
            if not is_request(message):
                self._console.complain(message_of(error))
                return b""
            data = {"code": error.code, "meta": error.meta} if isinstance(error, ApiError) else None
            described = {"code": INTERNAL_ERROR, "message": message_of(error), "data": data}
            return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": described}).encode()

    def _ended(self, line: bytes, message: Any) -> bytes:
        """Return the answer of the service, to a question for the result of a task once that has ended."""
        while True:
            started = time.monotonic()
            content = self._client.mcp(
                line, version=self._version, repeats=can_be_repeated(message), answer_seconds=LONGEST_WAIT_SECONDS
            )
            answer = read(content)
            if is_request(message) and message["method"] == "initialize":
                self._version = found(answer, "result", "protocolVersion")
            if found(answer, "error", "data", "code") != NOT_READY:
                # A line break would end the message.
                return content.replace(b"\n", b" ").strip()
            if time.monotonic() - started < 1:
                time.sleep(found(answer, "error", "data", "retryAfterSeconds") or 1)

    def _write(self, answer: bytes) -> None:
        """Write a line. Ends the command if nobody reads it any more."""
        rest = answer + b"\n"
        try:
            with self._writing:
                while rest:
                    rest = rest[os.write(sys.stdout.fileno(), rest) :]
        except OSError:
            os._exit(Exit.OUTPUT_CLOSED)


def is_request(message: Any) -> bool:
    """Return whether a message expects an answer."""
    return isinstance(message, dict) and {"id", "method"} <= message.keys()


def can_be_repeated(message: Any) -> bool:
    """Return whether a message changes nothing when it comes twice. Without a key, each run is another job."""
    is_run = found(message, "method") == "tools/call" and found(message, "params", "name") == "run"
    return not is_run or found(message, "params", "arguments", "idempotencyKey") is not None


def read(content: bytes) -> Any:
    """Return the JSON of an answer, None if it is empty. Raises SimserviceError if it is something else."""
    try:
        return json.loads(content) if content else None
    except (ValueError, RecursionError):
        raise SimserviceError("The service answered with something else than JSON: check the address.") from None


def found(value: Any, *names: str) -> Any:
    """Return the value at a path in JSON, None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
