"""A run of the fault suite: submit, cancel and process jobs while faults hit the processes that do it."""

import logging
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from random import Random
from typing import Any, Self

from django.db import connection

from clients.audit import SYSTEM
from jobs.enums import TERMINAL, WAITING
from jobs.errors import JobAlreadyEnded, JobNotPausable
from jobs.execution import directories
from jobs.lifecycle import cancellation
from jobs.models import Job, JobEvent
from jobs.queue import pausing
from tests.faults.fault_workers import (
    HEARTBEAT_SECONDS,
    IDLE_IN_TRANSACTION_SECONDS,
    LEASE_SECONDS,
    Worker,
    WorkerSpec,
)
from tests.faults.points import ANYWHERE, BY_ROLE, WITHIN_TRANSACTIONS, faults_at
from tests.faults.redis_server import RedisServer
from tests.faults.requests import ShardedForm

logger = logging.getLogger(__name__)

FAULTS = ("kill", "pause", "database", "redis", "answer", "stop", "file")


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
    # Submissions pause when this many jobs wait, and resume when none does.
    max_waiting: int = 30
    cancelled_share: float = 0.1
    paused_share: float = 0.1
    faults: Sequence[str] = FAULTS
    faults_per_second: float = 2.0
    roles: Sequence[str] = tuple(BY_ROLE)
    points: Sequence[str] | None = None
    variant: str = ""
    # The profilesets of all jobs; without it, one job in four can run in shards.
    form: ShardedForm | None = None
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
    # Wall-clock intervals in which a paused, dead or waking process may have locked a job's row.
    locked: list[tuple[float, float]] = field(default_factory=list)
    cancels: Counter[str] = field(default_factory=Counter)
    pauses: Counter[str] = field(default_factory=Counter)
    unexpected_deaths: list[str] = field(default_factory=list)
    # The process ids of killed and paused workers, and of those asked to stop, each with the time of the request.
    killed: set[int] = field(default_factory=set)
    paused: set[int] = field(default_factory=set)
    stopped: dict[int, float] = field(default_factory=dict)
    stalled: bool = False
    seconds: float = 0.0

    @property
    def injected(self) -> Counter[tuple[str, str]]:
        """Return how often each fault was injected at each point."""
        return Counter((point, fault) for _, _, point, fault in self.faults)


class FaultRun:
    """Starts the workers, arms and injects faults, and restarts dead workers."""

    def __init__(
        self,
        plan: FaultPlan,
        folder: Path,
        *,
        keys: Sequence[int],
        server: RedisServer,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        self.plan = plan
        self.keys = tuple(keys)
        self.folder = folder
        self.server = server
        self.watch = watch
        self.random = Random(plan.seed)  # noqa: S311 - repeatable, not secret
        self.observed = Observations(plan=plan)
        self.workers: list[Worker] = []
        self.to_submit = deque(range(plan.jobs))
        # Submissions without a result yet, and the worker that sends each.
        self.in_flight: dict[int, Worker] = {}
        # Paused jobs, each with the time at which it is resumed
        self.to_resume: list[tuple[float, Job]] = []
        self.is_draining = False
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
            # The server can still execute a statement of a killed process, and hold its locks.
            drop_connections(worker.spec.name)
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
            keys=self.keys,
            form=self.plan.form,
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
                self.maybe_pause()
                self.resume_due()
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
            worker.was_ended = True
            self.observed.killed.add(worker.pid)
        elif fault == "stop":
            worker.was_ended = True
            self.observed.stopped[worker.pid] = now
            worker.send("shut down")
        elif fault == "pause":
            self.observed.paused.add(worker.pid)
            resumes_at = worker.resumes_at = now + LEASE_SECONDS * self.random.uniform(1.2, 2.5)
        elif fault == "database":
            drop_connections(worker.spec.name)
            worker.send("resume")
        elif fault == "redis":
            self.server.restart()
            worker.send("resume")
        if point in WITHIN_TRANSACTIONS or fault in ("kill", "database"):
            self.observed.locked.append((now, min(resumes_at, now + IDLE_IN_TRANSACTION_SECONDS)))

    def continue_paused(self) -> None:
        for worker in self.workers:
            if worker.resumes_at is not None and time.time() >= worker.resumes_at:
                worker.resumes_at = None
                # It may lock the row of a job that it has lost, before it learns that.
                self.observed.locked.append((time.time(), time.time()))
                worker.signal(signal.SIGCONT)

    def restart_dead(self) -> None:
        """Restart dead workers; their unanswered submissions are sent again, as a client would."""
        for position, worker in enumerate(self.workers):
            if worker.is_alive:
                continue
            self.receive_from(worker)
            if not worker.was_ended:
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
        waiting = Job.objects.filter(status__in=WAITING).count()
        # Let the queue run empty in between, so that idle slots help with shards.
        self.is_draining = waiting > 0 if self.is_draining else waiting >= self.plan.max_waiting
        if self.is_draining:
            return
        ready = [each for each in self.workers if each.spec.role == "submitter" and each.resumes_at is None]
        for submitter in ready:
            for _ in range(min(4, len(self.to_submit))):
                number = self.to_submit.popleft()
                self.in_flight[number] = submitter
                submitter.send("submit", number)

    def chosen_job(self, chosen: Counter[str], *, share: float) -> Job | None:
        """Return a random one of the latest jobs, None if that share of the jobs was chosen already."""
        accepted = list(self.observed.accepted.values())
        if chosen.total() >= share * len(accepted):
            return None
        return Job(pk=self.random.choice(accepted[-2 * self.plan.max_waiting :]))

    def maybe_cancel(self) -> None:
        """Cancel a random job now and then, whatever its status."""
        if (job := self.chosen_job(self.observed.cancels, share=self.plan.cancelled_share)) is None:
            return
        try:
            cancelled = cancellation.cancel(job, by=SYSTEM)
        except JobAlreadyEnded:
            self.observed.cancels["too late"] += 1
        else:
            self.observed.cancels["requested" if cancelled.requested_at else "at once"] += 1

    def maybe_pause(self) -> None:
        """Pause a random job now and then, whatever its status, and resume it within a second."""
        if (job := self.chosen_job(self.observed.pauses, share=self.plan.paused_share)) is None:
            return
        try:
            paused = pausing.pause(job, by=SYSTEM)
        except JobNotPausable:
            self.observed.pauses["too late"] += 1
        else:
            self.observed.pauses["at once" if paused.is_paused else "requested"] += 1
            self.to_resume.append((time.monotonic() + self.random.random(), job))

    def resume_due(self) -> None:
        """Resume the jobs whose pause is over."""
        for due in [due for due in self.to_resume if due[0] <= time.monotonic()]:
            self.to_resume.remove(due)
            with suppress(JobNotPausable):
                pausing.resume(due[1], by=SYSTEM)

    def maybe_inject(self) -> None:
        """Arm the next fault at a point, or inject it at once."""
        now = time.monotonic()
        if now < self.next_fault_at or not self.plan.faults:
            return
        self.next_fault_at = now + self.random.expovariate(self.plan.faults_per_second)
        ready = [each for each in self.workers if each.spec.role in self.plan.roles and each.can_be_armed(now)]
        if not ready:
            return
        worker = self.random.choice(ready)
        points = self.plan.points or [*BY_ROLE[worker.spec.role], ANYWHERE]
        known = [point for point in points if point in BY_ROLE[worker.spec.role] or point == ANYWHERE]
        point = self.random.choice(known)
        possible = faults_at(point, role=worker.spec.role)
        fault = self.random.choice([fault for fault in self.plan.faults if fault in possible])
        if point != ANYWHERE:
            worker.arm(point, fault)
            return
        if fault == "kill":
            worker.signal(signal.SIGKILL)
        elif fault == "pause":
            worker.signal(signal.SIGSTOP)
        self.inject(worker, ANYWHERE, fault)


def drop_connections(name: str) -> None:
    """Close a worker's database connections, as a network failure does, and wait until they have ended."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name LIKE %s",
            [f"{name}:%"],
        )
