"""Speed of the API with a million jobs in the database; takes three minutes, mostly to create the jobs.

PostgreSQL and Redis come from their wheels, the web server from the Procfile; the clients run on the same machine.
`python -m bench.api` measures more endpoints than `make bench`.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import psutil
from honcho.environ import parse_procfile

from bench.figures import Value, Values
from bench.percentiles import milliseconds, percentile
from bench.stores import running_stores
from localstack.redis_server import free_port
from localstack.supervisor import Program, Supervisor, shell

CHECKOUT = Path(__file__).parents[1]
CALLERS = 4
QUICK_JOBS = 50_000
JOBS = 1_000_000
REQUESTS, QUICK_REQUESTS = 1_000, 250
WARM_UP = 100
READS = {
    "list": ("GET jobs, first page of 25", "GET jobs, a deep page of 25"),
    "job": ("GET jobs/{id}",),
    "status": ("GET jobs/{id}/status, ended", "GET jobs/{id}/status, waiting"),
}


@dataclass(frozen=True)
class Call:
    """One request."""

    method: str
    path: str
    body: bytes | None = None


@dataclass(frozen=True)
class Server:
    """The running web server and the ids in its database."""

    port: int
    filled: Mapping[str, Any]

    def seconds(self, calls: list[Call]) -> list[float]:
        """Make calls in sequence on one connection; return the duration of each."""
        connection = HTTPConnection("127.0.0.1", self.port)
        headers = {
            "Authorization": f"Bearer {self.filled['apiKey']}",
            "Content-Type": "application/json",
            "Cookie": f"sessionid={self.filled['session']}",
        }
        durations = []
        for call in calls:
            started = time.perf_counter()
            connection.request(call.method, call.path, body=call.body, headers=headers)
            response = connection.getresponse()
            body = response.read()
            durations.append(time.perf_counter() - started)
            assert response.status == 200, body
        connection.close()
        return durations

    def measure(self, calls: list[Call]) -> str:
        """Distribute calls over the clients; return latencies, throughput and the servers' CPU time per call."""
        started, cpu_before = time.perf_counter(), processor_seconds()
        durations = self.milliseconds(calls)
        rate = len(durations) / (time.perf_counter() - started)
        cost = (processor_seconds() - cpu_before) / len(durations) * 1000
        p50, p95, p99 = (percentile(durations, percent) for percent in (50, 95, 99))
        return f"p50 {p50:.0f}  p95 {p95:.0f}  p99 {p99:.0f} ms  {rate:.0f} / s  {cost:.1f} CPU ms each"

    def milliseconds(self, calls: list[Call]) -> list[float]:
        """Distribute calls over the clients; return the duration of each."""
        with ThreadPoolExecutor(CALLERS) as callers:
            parts = callers.map(self.seconds, [calls[start::CALLERS] for start in range(CALLERS)])
            return milliseconds([seconds for part in parts for seconds in part])


def processor_seconds() -> float:
    """Return the CPU time of the servers, which are descendants of this process."""
    times = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    return float(sum(each.user + each.system for each in times))


@contextmanager
def server(*, jobs: int = JOBS, web_processes: int = 1) -> Iterator[Server]:
    """Run a web server on a new database with many jobs during the block."""
    with running_stores() as stores:
        environment = stores.environment | {
            "BENCH_JOBS": str(jobs),
            "WEB_CONCURRENCY": str(web_processes),
            "PUBLIC_REQUESTS_PER_MINUTE": "1000000",
        }
        run("manage.py", "migrate", "--verbosity", "0", environment=environment)
        filled = json.loads(run("-m", "bench.million_jobs", environment=environment))
        yield Server(_start_web(stores.supervisor, stores.folder, environment=environment), filled)


def run(*arguments: str, environment: Mapping[str, str]) -> str:
    """Run a program to its end and return its output."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def _start_web(supervisor: Supervisor, folder: Path, *, environment: Mapping[str, str]) -> int:
    """Start the web server, wait until it responds, and return its port."""
    port = free_port()
    line = parse_procfile((CHECKOUT / "Procfile").read_text()).processes["web"]
    program = Program(
        name="web",
        command=shell(line),
        folder=CHECKOUT,
        log=folder / "web.log",
        environment={**environment, "PORT": str(port)},
    )
    supervisor.start_server(program, lambda: check_health(port), not_yet=ConnectionError)
    return port


def check_health(port: int) -> None:
    """Raise ConnectionError unless the web server responds."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/healthz")
    connection.getresponse()
    connection.close()


def benchmarks(filled: Mapping[str, Any]) -> dict[str, list[Call]]:
    """Return the calls of each row of the table."""
    root = f"/v1/{os.environ.get('API_RESOURCE', 'sim')}"
    waiting_ids, ended_ids = filled["waiting"], filled["ended"]
    body = {"build": {"channel": "latest"}, "profile": {"text": 'mage="Ada"\nlevel=80\niterations=100\n'}}
    submission = Call("POST", f"{root}/jobs", json.dumps(body).encode())

    def get(path: Callable[[str], str], ids: list[str]) -> list[Call]:
        return [Call("GET", root + path(job_id)) for job_id in islice(cycle(ids), REQUESTS)]

    return {
        "GET jobs, first page of 25": get(lambda _: "/jobs", [""]),
        "GET jobs, a deep page of 25": get(lambda _: f"/jobs?cursor={filled['cursor']}", [""]),
        "GET jobs, a deep page of 100": get(lambda _: f"/jobs?limit=100&cursor={filled['cursor']}", [""]),
        "GET jobs/{id}": get(lambda job_id: f"/jobs/{job_id}", ended_ids),
        "GET jobs/{id}/status, ended": get(lambda job_id: f"/jobs/{job_id}/status", ended_ids),
        "GET jobs/{id}/status, waiting": get(lambda job_id: f"/jobs/{job_id}/status", waiting_ids),
        "GET usage": get(lambda _: "/usage", [""]),
        "POST jobs": [submission] * REQUESTS,
    }


def measure(*, quick: bool) -> Values:
    """Return the 95th percentiles of a list, a job and a status. For lists and statuses: the slower kind."""
    jobs = QUICK_JOBS if quick else JOBS
    with server(jobs=jobs) as running:
        count = QUICK_REQUESTS if quick else REQUESTS
        calls = {name: each[:count] for name, each in benchmarks(running.filled).items()}
        slowest = {key: max(_p95(running, calls[name]) for name in names) for key, names in READS.items()}
    return {f"reads.{key}": Value(p95, f"{jobs:,} jobs, {CALLERS} callers") for key, p95 in slowest.items()}


def _p95(running: Server, calls: list[Call]) -> float:
    running.seconds(calls[:WARM_UP])
    return percentile(running.milliseconds(calls), 95)


def main() -> None:
    with server() as running:
        for name, calls in benchmarks(running.filled).items():
            running.seconds(calls[:WARM_UP])
            sys.stdout.write(f"{name:<30}{running.measure(calls):>62}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
