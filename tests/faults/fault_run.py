"""A run of the fault suite: submit, cancel and process jobs while faults hit the processes that do it."""

import json
import logging
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from random import Random
from typing import Any, Self

from django.db import connection

from clients.audit import SYSTEM
from jobs import cancellation
from jobs.enums import TERMINAL
from jobs.errors import JobAlreadyEnded
from jobs.models import Job, JobEvent
from jobs.runs import directories
from tests.faults.fault_workers import (
    HEARTBEAT_SECONDS,
    IDLE_IN_TRANSACTION_SECONDS,
    LEASE_SECONDS,
    Worker,
    WorkerSpec,
)
from tests.faults.points import BY_ROLE, WITHIN_TRANSACTIONS
from tests.faults.redis_server import RedisServer
from tests.faults.requests import REPORT

logger = logging.getLogger(__name__)

FAULTS = ("kill", "pause", "database", "redis")
ANYWHERE = "anywhere"


@dataclass(frozen=True, kw_only=True)
class FaultPlan:
    """Size, seed and faults of a run.

    Jobs count as lost if they are unfinished and no job has changed for `lost_after_seconds`.
    """

    jobs: int
    seed: int
    workers: int = 3
    slots: int = 2
    sweepers: int = 2
    submitters: int = 2
    # Submissions stop while this many jobs wait.
    max_waiting: int = 30
    cancelled_share: float = 0.1
    faults: Sequence[str] = FAULTS
    faults_per_second: float = 4.0
    roles: Sequence[str] = tuple(BY_ROLE)
    points: Sequence[str] | None = None
    variant: str = ""
    lost_after_seconds: float = 20.0


@dataclass(kw_only=True)
class Observations:
    """What happened during a run."""

    plan: FaultPlan
    # Job id by submission number.
    accepted: dict[int, int] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    # The time of each fault, its process, its point and its kind
    faults: list[tuple[float, str, str, str]] = field(default_factory=list)
    # Wall-clock intervals in which a paused or dead process may have locked a job's row.
    locked: list[tuple[float, float]] = field(default_factory=list)
    cancels: Counter[str] = field(default_factory=Counter)
    unexpected_deaths: list[str] = field(default_factory=list)
    stalled: bool = False
    seconds: float = 0.0

    @property
    def injected(self) -> Counter[tuple[str, str]]:
        """Return how often each fault was injected at each point."""
        return Counter((point, fault) for _, _, point, fault in self.faults)


STAND_IN = """#!/bin/sh
echo 'SimulationCraft 1120-01'
report() { cat > report.json <<'END'
%s
END
}
trap 'report; exit 0' INT
set -- $(sed -n 's/^# stand-in: //p' profile.simc)
# Jobs that run in stages lose their comments.
[ $# -gt 0 ] || set -- 0.2 completed
cat apikey.txt 2>/dev/null
sleep "${1:-0}" & wait $!
case "$2" in
    error) echo 'Error: nothing to simulate' >&2; exit 1;;
    crash) kill -SEGV $$;;
    *) report;;
esac
"""


def make_fast_stand_in(folder: Path) -> Path:
    """Write a simulator that starts at once; comments in its profile set its duration and exit status."""
    folder.chmod(0o755)
    script = folder / "stand-in"
    script.write_text(STAND_IN % json.dumps(REPORT))
    script.chmod(0o755)
    return script


class FaultRun:
    """Starts the workers, arms and injects faults, and restarts dead workers."""

    def __init__(
        self, plan: FaultPlan, folder: Path, *, server: RedisServer, watch: Callable[[], None] = lambda: None
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.server = server
        self.watch = watch
        self.random = Random(plan.seed)  # noqa: S311 - repeatable, not secret
        self.observed = Observations(plan=plan)
        self.workers: list[Worker] = []
        self.to_submit = deque(range(plan.jobs))
        # Submissions without a result yet, and the worker that sends each.
        self.in_flight: dict[int, Worker] = {}
        self.next_fault_at = 0.0
        self.last_change_at = time.monotonic()
        self.last_event = 0

    def __enter__(self) -> Self:
        counts = {
            "worker": self.plan.workers,
            "sweeper": self.plan.sweepers,
            "submitter": self.plan.submitters,
        }
        for role, count in counts.items():
            self.workers += [Worker(self.spec(role, number)) for number in range(count)]
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.signal(signal.SIGCONT)
            worker.send("stop")
        for worker in self.workers:
            worker.process.join(15)
            worker.signal(signal.SIGKILL)
            worker.process.join()
        directories.remove_leftovers()

    def spec(self, role: str, number: int) -> WorkerSpec:
        return WorkerSpec(
            role=role,
            name=f"{role}-{number}",
            database=str(connection.settings_dict["NAME"]),
            redis=self.server.url,
            log=self.folder / f"{role}-{number}.log",
            slots=self.plan.slots if role == "worker" else 1,
            seed=self.plan.seed,
            variant=self.plan.variant,
            settings={"LEASE_SECONDS": LEASE_SECONDS, "HEARTBEAT_SECONDS": HEARTBEAT_SECONDS},
        )

    def run(self) -> Observations:
        """Run until every job has ended or no job changes any more."""
        started = time.monotonic()
        with self:
            while not self.is_over():
                self.receive()
                self.continue_paused()
                self.restart_dead()
                self.submit()
                self.maybe_cancel()
                self.maybe_inject()
                self.watch()
            self.observed.seconds = time.monotonic() - started
            # Paused workers wake up and find every job ended.
            time.sleep(0.5)
        return self.observed

    def is_over(self) -> bool:
        last = JobEvent.objects.order_by("-id").values_list("id", flat=True).first() or 0
        # The first start takes longer.
        if last != self.last_event or not self.observed.accepted:
            self.last_event, self.last_change_at = last, time.monotonic()
        self.observed.stalled = time.monotonic() - self.last_change_at > self.plan.lost_after_seconds
        unsubmitted = self.to_submit or self.in_flight
        return self.observed.stalled or (not unsubmitted and not Job.objects.exclude(status__in=TERMINAL).exists())

    def receive(self) -> None:
        """Handle messages from all live workers."""
        links = {worker.link: worker for worker in self.workers if worker.is_alive}
        for link in wait(list(links), timeout=0.05):
            self.receive_from(links[link])  # type: ignore[index]

    def receive_from(self, worker: Worker) -> None:
        """Handle all messages of a worker, also those it sent before it died."""
        try:
            while worker.link.poll():
                self.handle(worker, *worker.link.recv())
        except (EOFError, OSError):
            logger.info("%s is dead", worker.spec.name)

    def handle(self, worker: Worker, kind: str, *rest: Any) -> None:
        if kind == "reached":
            self.inject(worker, *rest)
            return
        number, result = rest
        self.in_flight.pop(number, None)
        if kind == "rejected":
            self.observed.rejected[result] += 1
            self.to_submit.append(number)
        elif self.observed.accepted.setdefault(number, result) != result:
            self.observed.contradictions.append(f"submission {number} created two jobs")

    def inject(self, worker: Worker, point: str, fault: str) -> None:
        """Do the part of a fault that happens outside the worker."""
        worker.armed_at = 0.0
        now = time.time()
        self.observed.faults.append((now, worker.spec.name, point, fault))
        resumes_at = now
        if fault == "kill":
            worker.was_killed = True
        elif fault == "pause":
            resumes_at = worker.resumes_at = now + LEASE_SECONDS * self.random.uniform(1.2, 2.5)
        elif fault == "database":
            drop_connections(worker.spec.name)
            worker.send("resume")
        else:
            self.server.restart()
            worker.send("resume")
        if point in WITHIN_TRANSACTIONS or fault in ("kill", "database"):
            self.observed.locked.append((now, min(resumes_at, now + IDLE_IN_TRANSACTION_SECONDS)))

    def continue_paused(self) -> None:
        for worker in self.workers:
            if worker.resumes_at is not None and time.time() >= worker.resumes_at:
                worker.resumes_at = None
                worker.signal(signal.SIGCONT)

    def restart_dead(self) -> None:
        """Restart dead workers; their unanswered submissions are sent again, as a client would."""
        for position, worker in enumerate(self.workers):
            if worker.is_alive:
                continue
            self.receive_from(worker)
            if not worker.was_killed:
                self.observed.unexpected_deaths.append(f"{worker.spec.name}: {worker.process.exitcode}")
            for number in [number for number, sender in self.in_flight.items() if sender is worker]:
                del self.in_flight[number]
                self.to_submit.append(number)
            worker.link.close()
            self.workers[position] = Worker(worker.spec)

    def submit(self) -> None:
        """Request submissions while few jobs wait."""
        if not self.to_submit or len(self.in_flight) >= 4:
            return
        if Job.objects.filter(status__in=["pending", "queued"]).count() >= self.plan.max_waiting:
            return
        ready = [each for each in self.workers if each.spec.role == "submitter" and each.resumes_at is None]
        for submitter in ready:
            for _ in range(min(4, len(self.to_submit))):
                number = self.to_submit.popleft()
                self.in_flight[number] = submitter
                submitter.send("submit", number)

    def maybe_cancel(self) -> None:
        """Cancel a random job now and then, whatever its status."""
        done = sum(self.observed.cancels.values())
        if not self.observed.accepted or done >= self.plan.cancelled_share * len(self.observed.accepted):
            return
        number = self.random.choice(list(self.observed.accepted)[-2 * self.plan.max_waiting :])
        try:
            cancelled = cancellation.cancel(Job(pk=self.observed.accepted[number]), by=SYSTEM)
        except JobAlreadyEnded:
            self.observed.cancels["too late"] += 1
        else:
            self.observed.cancels["requested" if cancelled.requested_at else "at once"] += 1

    def maybe_inject(self) -> None:
        """Arm the next fault at a point, or inject it at once."""
        now = time.monotonic()
        if now < self.next_fault_at or not self.plan.faults:
            return
        self.next_fault_at = now + self.random.expovariate(self.plan.faults_per_second)
        ready = [each for each in self.workers if each.spec.role in self.plan.roles and each.can_be_armed(now)]
        if not ready:
            return
        worker, fault = self.random.choice(ready), self.random.choice(list(self.plan.faults))
        points = self.plan.points or [*BY_ROLE[worker.spec.role], ANYWHERE]
        known = [point for point in points if point in BY_ROLE[worker.spec.role] or point == ANYWHERE]
        point = self.random.choice(known)
        if point != ANYWHERE:
            worker.arm(point, fault)
            return
        if fault == "kill":
            worker.signal(signal.SIGKILL)
        elif fault == "pause":
            worker.signal(signal.SIGSTOP)
        self.inject(worker, ANYWHERE, fault)


def drop_connections(name: str) -> None:
    """Close a worker's database connections, as a network failure does."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", [name])
