"""`simctl mcp`: an MCP server on standard input and output, which forwards each message to the service.

Each message has its own thread, because some wait for a job and must not delay the others. Only answers are written
to standard output. They are not buffered, because a thread that writes while the command ends would hold the lock
of the buffer.
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
    """Answer all messages until standard input ends."""
    bridge = Bridge(open_client(arguments), console)
    for line in sys.stdin.buffer:
        if line.strip():
            bridge.accept(line.strip())
    bridge.finish()
    return Exit.COMPLETED


class Bridge:
    """Forwards messages to the service, and answers back."""

    def __init__(self, client: Client, console: Console) -> None:
        self._client = client
        self._console = console
        self._places = threading.BoundedSemaphore(MAX_THREADS)
        self._writing = threading.Lock()
        # The protocol version that the service has agreed to
        self._version: str | None = None

    def accept(self, line: bytes) -> None:
        """Begin to answer a message. Waits while too many are being answered."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._console.complain("Ignored an input line that is not JSON. Send one message per line.")
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
        """Return the service's answer, or an error if there is none. Empty if no answer is expected."""
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
        """Return the service's answer. Repeat a request for a task's result until the task has ended."""
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
        """Write a line. End the command if nobody reads the output anymore."""
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
    """Return whether a message can be sent twice. Without a key, each `run` submits another job."""
    is_run = found(message, "method") == "tools/call" and found(message, "params", "name") == "run"
    return not is_run or found(message, "params", "arguments", "idempotencyKey") is not None


def read(content: bytes) -> Any:
    """Return the JSON of an answer, or None if it is empty. Raises SimserviceError if it is not JSON."""
    try:
        return json.loads(content) if content else None
    except (ValueError, RecursionError):
        raise SimserviceError("The service's response is not JSON. Check the service's address.") from None


def found(value: Any, *names: str) -> Any:
    """Return the value at a path in JSON, or None."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
