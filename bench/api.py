"""Speed of the API with a million jobs in the database; takes three minutes, mostly to create the jobs.

PostgreSQL and Redis come from their wheels, the web server from the Procfile; the clients run on the same machine.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
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

from localstack.postgres import start_postgres
from localstack.redis_server import free_port, start_redis
from localstack.supervisor import Program, Supervisor, shell

CHECKOUT = Path(__file__).parents[1]
CALLERS = 4
# One per core of the target machine.
WEB_PROCESSES = 2
REQUESTS = 1_000
WARM_UP = 100


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
        self.seconds(calls[:WARM_UP])
        started, cpu_before = time.perf_counter(), processor_seconds()
        with ThreadPoolExecutor(CALLERS) as callers:
            parts = callers.map(self.seconds, [calls[start::CALLERS] for start in range(CALLERS)])
            durations = [seconds * 1000 for part in parts for seconds in part]
        rate = len(durations) / (time.perf_counter() - started)
        cost = (processor_seconds() - cpu_before) / len(durations) * 1000
        cuts = statistics.quantiles(durations, n=100)
        return (
            f"p50 {cuts[49]:.0f}  p95 {cuts[94]:.0f}  p99 {cuts[98]:.0f} ms  {rate:.0f} / s  {cost:.1f} CPU ms each"
        )


def processor_seconds() -> float:
    """Return the CPU time of the servers, which are descendants of this process."""
    times = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    return float(sum(each.user + each.system for each in times))


@contextmanager
def server() -> Iterator[Server]:
    """Run a web server on a new database with a million jobs during the block."""
    supervisor = Supervisor()
    with tempfile.TemporaryDirectory(prefix="simservice-bench-") as name:
        try:
            environment = _start_stores(supervisor, Path(name))
            run("manage.py", "migrate", "--verbosity", "0", environment=environment)
            filled = json.loads(run("-m", "bench.million_jobs", environment=environment))
            yield Server(_start_web(supervisor, Path(name), environment=environment), filled)
        finally:
            supervisor.stop()


def _start_stores(supervisor: Supervisor, folder: Path) -> dict[str, str]:
    """Start PostgreSQL and Redis; return the environment for programs that use them."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {
        **os.environ,
        "DATABASE_URL": start_postgres(
            supervisor,
            folder / "postgres",
            log=folder / "postgres.log",
            password="bench",  # noqa: S106
        ),
        "REDIS_URL": start_redis(supervisor, folder / "redis", log=folder / "redis.log", password="bench"),  # noqa: S106
        "DATA_DIR": str(folder / "files"),
        "SECRET_KEY": "bench",
        "LOG_LEVEL": "WARNING",
        "PATH": path,
    }


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
        environment={**environment, "PORT": str(port), "WEB_CONCURRENCY": str(WEB_PROCESSES)},
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


def main() -> None:
    with server() as running:
        for name, calls in benchmarks(running.filled).items():
            sys.stdout.write(f"{name:<30}{running.measure(calls):>62}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
