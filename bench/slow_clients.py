"""Speed of the web server while 100 clients send one byte per second: `python -m bench.slow_clients`."""

import json
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from tests.stack import QUICK, Stack, running_stack

CLIENTS = 100
REQUESTS = 100
AIM_MS = 200.0
TIMEOUT_SECONDS = 2.0
HEAD = b"POST /v1/sim/jobs HTTP/1.1\r\nHost: localhost\r\nX-Endless: " + b"y" * 4000


def _send_slowly(address: tuple[str, int], stop: threading.Event) -> None:
    """Send one byte per second; reconnect when the server closes the connection."""
    while not stop.is_set():
        with suppress(OSError), socket.create_connection(address, timeout=5) as connection:
            for byte in HEAD:
                connection.sendall(bytes([byte]))
                if stop.wait(1):
                    return


@contextmanager
def slow_clients(address: tuple[str, int]) -> Iterator[None]:
    """Run the slow clients during the block."""
    stop = threading.Event()
    threads = [threading.Thread(target=_send_slowly, args=(address, stop)) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    time.sleep(3)
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def request_milliseconds(stack: Stack, method: str, path: str) -> float | None:
    """Return the duration of one request on a new connection in milliseconds, or None if it failed."""
    body = json.dumps({"build": {"channel": "latest"}, "profile": {"text": QUICK}}) if method == "POST" else None
    headers = {"Authorization": f"Bearer {stack.ready['apiKey']}", "Content-Type": "application/json"}
    connection = HTTPConnection(urlsplit(stack.ready["url"]).netloc, timeout=TIMEOUT_SECONDS)
    started = time.perf_counter()
    try:
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        response.read()
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()
    return 1000 * (time.perf_counter() - started) if response.status == 200 else None


def report(stack: Stack, method: str, path: str) -> None:
    """Make requests in sequence and print their durations and failures."""
    results = [request_milliseconds(stack, method, path) for _ in range(REQUESTS)]
    durations = sorted(each for each in results if each is not None)
    failures = len(results) - len(durations)
    p50, p95 = statistics.median(durations), durations[int(len(durations) * 0.95) - 1]
    figures = f"{failures} failures  p50 {p50:6.1f} ms  p95 {p95:6.1f} ms"
    print(f"{method:4} {path:14} {figures}  (aim: 0 failures, p95 under {AIM_MS:.0f} ms)")


def main() -> None:
    with tempfile.TemporaryDirectory() as data, running_stack(Path(data) / "stack") as stack:
        url = urlsplit(stack.ready["url"])
        worker = stack.worker()
        # The simulator would compete with the web server for the CPU.
        worker.suspend()
        with slow_clients((str(url.hostname), int(url.port or 0))):
            report(stack, "GET", "/healthz")
            report(stack, "POST", "/v1/sim/jobs")
        worker.resume()


if __name__ == "__main__":
    main()
