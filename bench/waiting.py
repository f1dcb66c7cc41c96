"""350 clients that wait for their jobs on one web process: `python -m bench.waiting`.

The jobs are cancelled one after another. The time of a notice is that from the request to cancel until the waiting
client has the answer, so it includes the cancellation itself.
Memory that processes share is divided among them.
"""

import selectors
import socket
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg

from bench.percentiles import percentile
from tests.stack import Stack, below, running_stack

# One account can take half of the 750 places.
CLIENTS = 350
CANCELS_PER_SECOND = 40.0
MEASURED_SECONDS = 3
AIM_MB, AIM_MS = 100, 300
READ_BYTES = 64 << 10


def wait(stack: Stack, job_id: str) -> socket.socket:
    """Send the request of a client that waits for a job."""
    url = urlsplit(stack.ready["url"])
    connection = socket.create_connection((str(url.hostname), int(url.port or 0)))
    head = f"GET /v1/sim/jobs/{job_id}/status?wait=25 HTTP/1.1\r\nHost: localhost\r\n"
    connection.sendall(f"{head}Authorization: Bearer {stack.ready['apiKey']}\r\n\r\n".encode())
    return connection


def notices(stack: Stack, clients: dict[str, socket.socket]) -> list[float]:
    """Cancel all jobs and return the milliseconds until each client had its answer."""
    selector = selectors.DefaultSelector()
    for job_id, client in clients.items():
        selector.register(client, selectors.EVENT_READ, job_id)
    asked: dict[str, float] = {}
    taken: list[float] = []
    left, next_at = list(clients), time.perf_counter()
    while len(taken) < len(clients):
        for key, _ in selector.select(max(0.0, next_at - time.perf_counter()) if left else 1.0):
            answer = clients[key.data].recv(READ_BYTES)
            assert answer.startswith(b"HTTP/1.1 200"), answer
            assert key.data in asked, "answered without a change"
            taken.append((time.perf_counter() - asked[key.data]) * 1000)
            selector.unregister(key.fileobj)
        if left and time.perf_counter() >= next_at:
            asked[left[-1]] = time.perf_counter()
            stack.call("POST", f"jobs/{left.pop()}/cancel")
            next_at += 1 / CANCELS_PER_SECOND
    return taken


def web_process(stack: Stack) -> psutil.Process:
    """Return the only process that handles requests."""
    (worker,) = [
        process for process in below(psutil.Process(stack.process.pid), "gunicorn") if not process.children()
    ]
    return worker


def main() -> None:
    with tempfile.TemporaryDirectory() as data, running_stack(Path(data) / "stack") as stack:
        stack.lift_limits()
        stack.worker().suspend()
        job_ids = [stack.submit() for _ in range(CLIENTS)]
        web, url = web_process(stack), stack.ready["databaseUrl"]
        before = web.memory_full_info().pss
        clients = {job_id: wait(stack, job_id) for job_id in job_ids}
        time.sleep(MEASURED_SECONDS)
        memory, cpu = web.memory_full_info().pss, web.cpu_times()
        time.sleep(MEASURED_SECONDS)
        spent = sum(web.cpu_times()[:2]) - sum(cpu[:2])
        with psycopg.connect(url) as database:
            row = database.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
            connections = row.fetchone()
        taken = notices(stack, clients)
        stack.worker().resume()
    p50, p95 = percentile(taken, 50), percentile(taken, 95)
    sys.stdout.write(
        f"{CLIENTS} waiting clients on one web process\n"
        f"memory {memory / 1e6:.0f} MB (aim: {AIM_MB}), {before / 1e6:.0f} MB before\n"
        f"CPU while nothing changes {spent / MEASURED_SECONDS * 100:.1f} %\n"
        f"database connections of the whole stack {connections and connections[0]}\n"
        f"notice p50 {p50:.0f}  p95 {p95:.0f} (aim: {AIM_MS})  max {max(taken):.0f} ms\n"
    )


if __name__ == "__main__":
    main()
