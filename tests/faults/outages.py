"""Servers that freeze, slow down or forward nothing, under load: `python -m tests.faults.outages [SECONDS]`.

Starts a stack behind proxies of PostgreSQL, Redis and an S3 server. Disturbs each in three ways for some time, and
prints how each kind of request was answered, when requests succeeded again, and whether any job or credit was lost.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psutil
import requests

from localstack.postgres import start_postgres
from localstack.redis_server import start_redis
from localstack.supervisor import Supervisor
from tests.faults.proxy import Proxy, proxy
from tests.s3_server import S3Server
from tests.stack import QUICK, TERMINAL, Stack, running_stack

PASSWORD = "for-this-run-only"
SLOW_SECONDS = 0.5
PAUSE_SECONDS = 0.4
LONGEST_SECONDS = 90.0
RECOVERY_SECONDS = 120.0


@dataclass
class Kind:
    """A kind of request: its responses by status, and the slowest one, during one fault."""

    send: Callable[[], int]
    statuses: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    last_success: float = 0.0


class Load:
    """Clients that repeat each kind of request, one thread for each."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.accepted: list[str] = []
        self.http = {"Authorization": f"Bearer {stack.ready['apiKey']}"}
        self.known = stack.submit()
        stack.wait_for_end(self.known)
        result = stack.call("GET", f"jobs/{self.known}/result")["result"]
        self.artifact = result["artifacts"][0]["url"]
        self.share = stack.job(self.known)["links"]["share"]
        self.stops = threading.Event()
        self.lock = threading.Lock()
        self.kinds = self.fresh()
        self.threads = [threading.Thread(target=self.repeat, args=[name], daemon=True) for name in self.kinds]

    def fresh(self) -> dict[str, Kind]:
        """Return the kinds of requests, with no responses yet."""
        url, api = self.stack.ready["url"], f"{self.stack.ready['url']}/v1/sim"
        return {
            "submission": Kind(self.submit),
            "status": Kind(lambda: self.get(f"{api}/jobs/{self.known}/status")),
            "list": Kind(lambda: self.get(f"{api}/jobs")),
            "status with `wait=10`": Kind(lambda: self.get(f"{api}/jobs/{self.known}/status?wait=10")),
            "share page": Kind(lambda: self.get(self.share)),
            "artifact": Kind(lambda: self.get(self.artifact)),
            "login page": Kind(lambda: self.get(f"{url}/accounts/login/")),
            "static file": Kind(lambda: self.get(f"{url}/static/css/site.css")),
            "`/healthz`": Kind(lambda: self.get(f"{url}/healthz")),
            "`/readyz`": Kind(lambda: self.get(f"{url}/readyz")),
        }

    def get(self, url: str) -> int:
        headers = self.http if "/v1/" in url else {}
        return requests.get(url, headers=headers, timeout=LONGEST_SECONDS).status_code

    def submit(self) -> int:
        body = {"build": {"channel": "latest"}, "profile": {"text": QUICK}}
        url = f"{self.stack.ready['url']}/v1/sim/jobs"
        answer = requests.post(url, json=body, headers=self.http, timeout=LONGEST_SECONDS)
        if answer.ok:
            self.accepted.append(answer.json()["id"])
        return answer.status_code

    def repeat(self, name: str) -> None:
        """Send one kind of request until the end."""
        while not self.stops.wait(PAUSE_SECONDS):
            started = time.monotonic()
            try:
                status = str(self.kinds[name].send())
            except requests.RequestException as error:
                status = type(error).__name__
            with self.lock:
                kind, seconds = self.kinds[name], time.monotonic() - started
                kind.statuses[status] += 1
                kind.slowest = max(kind.slowest, seconds)
                if status == "200":
                    kind.last_success = time.monotonic()

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self.threads:
            thread.start()
        try:
            yield
        finally:
            self.stops.set()
            for thread in self.threads:
                thread.join()

    def take(self) -> dict[str, Kind]:
        """Return what happened since the last call."""
        with self.lock:
            taken, self.kinds = self.kinds, self.fresh()
        return taken

    def wait_for_successes(self) -> float:
        """Wait until each kind of request has succeeded again. Return how many seconds that took."""
        started = time.monotonic()
        self.take()
        while time.monotonic() - started < RECOVERY_SECONDS:
            with self.lock:
                if all(kind.last_success > started for kind in self.kinds.values()):
                    return max(kind.last_success for kind in self.kinds.values()) - started
            time.sleep(0.1)
        return RECOVERY_SECONDS


@dataclass(frozen=True)
class Server:
    """A server behind a proxy, with the processes to suspend."""

    name: str
    gate: Proxy
    processes: Callable[[], list[psutil.Process]]


@contextmanager
def frozen(server: Server) -> Iterator[None]:
    """Suspend the processes of a server: its connections stay open."""
    suspended = server.processes()
    for process in suspended:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        yield
    finally:
        for process in suspended:
            with suppress(psutil.NoSuchProcess):
                process.resume()


@contextmanager
def slow(server: Server) -> Iterator[None]:
    """Delay each packet."""
    server.gate.delay_seconds = SLOW_SECONDS
    try:
        yield
    finally:
        server.gate.delay_seconds = 0.0


@contextmanager
def silent(server: Server) -> Iterator[None]:
    """Accept connections and forward nothing."""
    server.gate.flows.clear()
    try:
        yield
    finally:
        server.gate.flows.set()


FAULTS = {"frozen": frozen, f"slow ({SLOW_SECONDS:g} s a packet)": slow, "silent": silent}


def disturb(server: Server, fault: str, load: Load, *, seconds: float) -> tuple[dict[str, Kind], float]:
    """Disturb a server under load. Return the responses, and the seconds until all requests succeeded again."""
    load.take()
    with FAULTS[fault](server):
        time.sleep(seconds)
        during = load.take()
    return during, load.wait_for_successes()


def report(results: dict[tuple[str, str], tuple[dict[str, Kind], float]]) -> Iterator[str]:
    """Yield the lines of two Markdown tables."""
    by_kind: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    for case, (kinds, _) in results.items():
        for name, kind in kinds.items():
            counts = ", ".join(f"{count} times {status}" for status, count in kind.statuses.most_common())
            by_kind[name][case] = f"{counts or 'no answer'}; slowest {kind.slowest:.1f} s"
    for (server, fault), (_, recovery) in results.items():
        yield f"\n{server}, {fault}: all requests succeeded {recovery:.1f} s after the fault\n"
        yield "| request | answers |"
        yield "|---|---|"
        yield from (f"| {name} | {cells[server, fault]} |" for name, cells in by_kind.items())


def lost_jobs(load: Load) -> list[str]:
    """Wait for the end of all accepted jobs. Return those that did not complete."""
    deadline = time.monotonic() + RECOVERY_SECONDS
    states: dict[str, str] = {}
    for job_id in load.accepted:
        while time.monotonic() < deadline and states.get(job_id) not in TERMINAL:
            states[job_id] = load.stack.job(job_id)["status"]
            time.sleep(0 if states[job_id] in TERMINAL else 0.2)
    return [f"{job_id} {state}" for job_id, state in states.items() if state != "completed"]


def start_servers(folder: Path, opened: ExitStack) -> tuple[list[Server], dict[str, str]]:
    """Start the servers and their proxies. Return them, and the settings of a stack that uses them."""
    supervisor = Supervisor()
    opened.callback(supervisor.stop)
    before = set(psutil.Process().children())
    database = start_postgres(supervisor, folder / "postgres", log=folder / "postgres.log", password=PASSWORD)
    (postgres,) = set(psutil.Process().children()) - before
    redis = start_redis(supervisor, folder / "redis", log=folder / "redis.log", password=PASSWORD)
    (redis_server,) = set(psutil.Process().children()) - before - {postgres}
    bucket = S3Server(folder / "buckets")
    bucket.start()
    opened.callback(bucket.stop)
    url = urlsplit(database)
    (socket_folder,) = parse_qs(url.query)["host"]
    targets = (
        f"{socket_folder}/.s.PGSQL.5432",
        ("127.0.0.1", urlsplit(redis).port or 0),
        ("127.0.0.1", bucket.port),
    )
    gates = [opened.enter_context(proxy(target, ("127.0.0.1", 0))) for target in targets]
    assert bucket.process is not None
    rclone = psutil.Process(bucket.process.pid)
    trees: list[Callable[[], list[psutil.Process]]] = [
        lambda: [postgres, *postgres.children(recursive=True)],
        lambda: [redis_server],
        lambda: [rclone],
    ]
    names = ("PostgreSQL", "Redis", "bucket")
    servers = [Server(name, gate, tree) for name, gate, tree in zip(names, gates, trees, strict=True)]
    variables = {
        "DATABASE_URL": f"postgresql://{url.username}:{url.password}@127.0.0.1:{gates[0].port}{url.path}",
        "REDIS_URL": f"redis://:{PASSWORD}@127.0.0.1:{gates[1].port}/0",
        **bucket.variables(),
        "ARTIFACTS_ENDPOINT_URL": f"http://127.0.0.1:{gates[2].port}",
    }
    return servers, variables


def main() -> int:
    """Run all faults, print the tables, and return 1 if anything was lost."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    folder = Path(tempfile.mkdtemp(prefix="outages-"))
    folder.chmod(0o711)
    with ExitStack() as opened:
        opened.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.joinpath("buckets").mkdir()
        servers, variables = start_servers(folder, opened)
        stack = opened.enter_context(running_stack(folder / "stack", **variables))
        stack.lift_limits()
        load = Load(stack)
        results = {}
        with load.running():
            for server in servers:
                for fault in FAULTS:
                    results[server.name, fault] = disturb(server, fault, load, seconds=seconds)
        lost = lost_jobs(load)
        stack.wait_for_all_ends()
        own = {"DATABASE_URL": variables["DATABASE_URL"], "REDIS_URL": variables["REDIS_URL"], "SECRET_KEY": "any"}
        verify = [sys.executable, "manage.py", "verifyledger"]
        ledger = subprocess.run(verify, env=os.environ | own, capture_output=True, text=True, check=False)
        lines = [*report(results), "", f"{len(load.accepted)} jobs accepted; not completed: {lost or 'none'}"]
        sys.stdout.write(
            "\n".join([*lines, f"verifyledger: {ledger.stdout.strip()} (status {ledger.returncode})", ""])
        )
        return int(bool(lost) or ledger.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
