"""One run of the fault suite: jobs are submitted, cancelled and worked off while faults hit whoever does it."""

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
from tests.faults.actors import HEARTBEAT_SECONDS, IDLE_SECONDS, LEASE_SECONDS, Actor, Part
from tests.faults.points import BY_ROLE, WITHIN_TRANSACTIONS
from tests.faults.redis_server import RedisServer
from tests.faults.requests import REPORT

logger = logging.getLogger(__name__)

FAULTS = ("kill", "pause", "database", "redis")
ANYWHERE = "anywhere"


@dataclass(frozen=True, kw_only=True)
class Score:
    """What a run consists of; what is unfinished when nothing has moved for `lost_after_seconds` counts as lost."""

    jobs: int
    seed: int
    workers: int = 3
    slots: int = 2
    sweepers: int = 2
    submitters: int = 2
    waiting: int = 30
    cancelled: float = 0.1
    faults: Sequence[str] = FAULTS
    faults_per_second: float = 4.0
    roles: Sequence[str] = tuple(BY_ROLE)
    points: Sequence[str] | None = None
    variant: str = ""
    lost_after_seconds: float = 20.0


@dataclass(kw_only=True)
class Seen:
    """What the orchestrator saw of a run."""

    score: Score
    # The job of each submission that was answered, by its number.
    accepted: dict[int, int] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    fired: Counter[tuple[str, str]] = field(default_factory=Counter)
    # From when to when somebody may have stood still with a job's row locked, by the wall clock.
    locked: list[tuple[float, float]] = field(default_factory=list)
    cancels: Counter[str] = field(default_factory=Counter)
    unexpected_deaths: list[str] = field(default_factory=list)
    gave_up: bool = False
    seconds: float = 0.0


STAND_IN = """#!/bin/sh
echo 'SimulationCraft 1120-01'
report() { cat > report.json <<'END'
%s
END
}
trap 'report; exit 0' INT
set -- $(sed -n 's/^# stand-in: //p' profile.simc)
# What runs in stages has no comments left.
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
    """Write a simulator that starts in no time; its profile says how long it takes and how it ends."""
    folder.chmod(0o755)
    script = folder / "stand-in"
    script.write_text(STAND_IN % json.dumps(REPORT))
    script.chmod(0o755)
    return script


class Orchestra:
    """Starts the actors, arms their faults, does what a fault needs from outside, and starts the dead again."""

    def __init__(
        self, score: Score, folder: Path, *, server: RedisServer, watch: Callable[[], None] = lambda: None
    ) -> None:
        self.score = score
        self.folder = folder
        self.server = server
        self.watch = watch
        self.random = Random(score.seed)  # noqa: S311 - repeatable, not secret
        self.seen = Seen(score=score)
        self.actors: list[Actor] = []
        self.to_submit = deque(range(score.jobs))
        self.out: dict[int, Actor] = {}
        self.next_fault_at = 0.0
        self.moved_at = time.monotonic()
        self.last_event = 0

    def __enter__(self) -> Self:
        counts = {
            "worker": self.score.workers,
            "sweeper": self.score.sweepers,
            "submitter": self.score.submitters,
        }
        for role, count in counts.items():
            self.actors += [Actor(self.part(role, number)) for number in range(count)]
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self.actors:
            actor.signal(signal.SIGCONT)
            actor.order("stop")
        for actor in self.actors:
            actor.process.join(15)
            actor.signal(signal.SIGKILL)
            actor.process.join()
        directories.remove_leftovers()

    def part(self, role: str, number: int) -> Part:
        """Return what an actor is told."""
        return Part(
            role=role,
            name=f"{role}-{number}",
            database=str(connection.settings_dict["NAME"]),
            redis=self.server.url,
            log=self.folder / f"{role}-{number}.log",
            slots=self.score.slots if role == "worker" else 1,
            seed=self.score.seed,
            variant=self.score.variant,
            chosen={"LEASE_SECONDS": LEASE_SECONDS, "HEARTBEAT_SECONDS": HEARTBEAT_SECONDS},
        )

    def play(self) -> Seen:
        """Go on until every job has ended, or nothing moves any more."""
        started = time.monotonic()
        with self:
            while not self.is_over():
                self.hear()
                self.continue_paused()
                self.restart_dead()
                self.hand_out()
                self.maybe_cancel()
                self.maybe_arm()
                self.watch()
            self.seen.seconds = time.monotonic() - started
            # Whoever still stands still wakes up to find everything ended.
            time.sleep(0.5)
        return self.seen

    def is_over(self) -> bool:
        last = JobEvent.objects.order_by("-id").values_list("id", flat=True).first() or 0
        # The first start takes its time.
        if last != self.last_event or not self.seen.accepted:
            self.last_event, self.moved_at = last, time.monotonic()
        self.seen.gave_up = time.monotonic() - self.moved_at > self.score.lost_after_seconds
        unsettled = self.to_submit or self.out
        return self.seen.gave_up or (not unsettled and not Job.objects.exclude(status__in=TERMINAL).exists())

    def hear(self) -> None:
        """Take what the actors say."""
        links = {actor.link: actor for actor in self.actors if actor.is_alive}
        for link in wait(list(links), timeout=0.05):
            self.hear_out(links[link])  # type: ignore[index]

    def hear_out(self, actor: Actor) -> None:
        """Take everything that an actor has said, with its last breath perhaps."""
        try:
            while actor.link.poll():
                self.take(actor, *actor.link.recv())
        except (EOFError, OSError):
            logger.info("%s is dead", actor.part.name)

    def take(self, actor: Actor, kind: str, *rest: Any) -> None:
        """Take one message."""
        if kind == "reached":
            self.strike(actor, *rest)
            return
        number, answer = rest
        self.out.pop(number, None)
        if kind == "refused":
            self.seen.refused[answer] += 1
            self.to_submit.append(number)
        elif self.seen.accepted.setdefault(number, answer) != answer:
            self.seen.contradictions.append(f"submission {number} made two jobs")

    def strike(self, actor: Actor, point: str, fault: str) -> None:
        """Do what a fault needs from outside."""
        self.seen.fired[point, fault] += 1
        actor.armed_at = 0.0
        now = time.time()
        goes_on_at = now
        if fault == "kill":
            actor.must_die = True
        elif fault == "pause":
            goes_on_at = actor.goes_on_at = now + LEASE_SECONDS * self.random.uniform(1.2, 2.5)
        elif fault == "database":
            drop_connections(actor.part.name)
            actor.order("go on")
        else:
            self.server.restart()
            actor.order("go on")
        if point in WITHIN_TRANSACTIONS or fault in ("kill", "database"):
            self.seen.locked.append((now, min(goes_on_at, now + IDLE_SECONDS)))

    def continue_paused(self) -> None:
        for actor in self.actors:
            if actor.goes_on_at is not None and time.time() >= actor.goes_on_at:
                actor.goes_on_at = None
                actor.signal(signal.SIGCONT)

    def restart_dead(self) -> None:
        """Start a dead actor again; what was ordered from a submitter is sent again, as a client would."""
        for position, actor in enumerate(self.actors):
            if actor.is_alive:
                continue
            self.hear_out(actor)
            if not actor.must_die:
                self.seen.unexpected_deaths.append(f"{actor.part.name}: {actor.process.exitcode}")
            for number in [number for number, who in self.out.items() if who is actor]:
                del self.out[number]
                self.to_submit.append(number)
            actor.link.close()
            self.actors[position] = Actor(actor.part)

    def hand_out(self) -> None:
        """Order submissions while few jobs wait."""
        if not self.to_submit or len(self.out) >= 4:
            return
        if Job.objects.filter(status__in=["pending", "queued"]).count() >= self.score.waiting:
            return
        submitters = [actor for actor in self.actors if actor.part.role == "submitter" and actor.goes_on_at is None]
        for actor in submitters:
            for _ in range(min(4, len(self.to_submit))):
                number = self.to_submit.popleft()
                self.out[number] = actor
                actor.order("submit", number)

    def maybe_cancel(self) -> None:
        """Cancel some job now and then, whatever it is doing."""
        done = sum(self.seen.cancels.values())
        if not self.seen.accepted or done >= self.score.cancelled * len(self.seen.accepted):
            return
        number = self.random.choice(list(self.seen.accepted)[-2 * self.score.waiting :])
        try:
            cancelled = cancellation.cancel(Job(pk=self.seen.accepted[number]), by=SYSTEM)
        except JobAlreadyEnded:
            self.seen.cancels["too late"] += 1
        else:
            self.seen.cancels["asked for" if cancelled.requested_at else "at once"] += 1

    def maybe_arm(self) -> None:
        """Let the next fault wait somewhere, or strike where nobody expects it."""
        now = time.monotonic()
        if now < self.next_fault_at or not self.score.faults:
            return
        self.next_fault_at = now + self.random.expovariate(self.score.faults_per_second)
        able = [actor for actor in self.actors if actor.part.role in self.score.roles and actor.may_be_armed(now)]
        if not able:
            return
        actor, fault = self.random.choice(able), self.random.choice(list(self.score.faults))
        points = self.score.points or [*BY_ROLE[actor.part.role], ANYWHERE]
        known = [point for point in points if point in BY_ROLE[actor.part.role] or point == ANYWHERE]
        point = self.random.choice(known)
        if point != ANYWHERE:
            actor.arm(point, fault)
            return
        if fault == "kill":
            actor.signal(signal.SIGKILL)
        elif fault == "pause":
            actor.signal(signal.SIGSTOP)
        self.strike(actor, ANYWHERE, fault)


def drop_connections(name: str) -> None:
    """Drop an actor's connections to the database, as a network that fails does."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", [name])
