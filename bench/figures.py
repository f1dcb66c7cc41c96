"""All figures of `make bench`, with their aims."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple


class Value(NamedTuple):
    """A measured value, with a remark such as its sample size; None if it cannot be measured here."""

    value: float | None
    note: str = ""


Values = dict[str, Value]


@dataclass(frozen=True)
class Aim:
    """The limit that a figure should meet."""

    kind: Literal["at least", "at most"]
    limit: float

    def is_met_by(self, value: float) -> bool:
        return value >= self.limit if self.kind == "at least" else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.kind == 'at least' else '≤'} {self.limit:g}"


def at_least(limit: float) -> Aim:
    return Aim("at least", limit)


def at_most(limit: float) -> Aim:
    return Aim("at most", limit)


@dataclass(frozen=True)
class Figure:
    """One row of the table. Figures without an aim help to explain other figures."""

    key: str
    title: str
    unit: str
    aim: Aim | None = None


class Scenario(NamedTuple):
    """A function (`module:function`) that measures some figures in a separate process."""

    name: str
    function: str
    figures: tuple[Figure, ...]


SCENARIOS = (
    Scenario(
        "path",
        "bench.whole_path:measure",
        (
            Figure("path.rate", "whole path, sustained", "jobs/s", at_least(45)),
            Figure("path.sim_cpu", "CPU per job: simulation worker, bubblewrap", "ms", at_most(25)),
            Figure("path.web_cpu", "CPU per job: web", "ms", at_most(6)),
            Figure("path.postgres_cpu", "CPU per job: PostgreSQL", "ms", at_most(6)),
            Figure("path.redis_cpu", "CPU per job: Redis", "ms"),
            Figure("path.other_cpu", "CPU per job: other programs", "ms"),
            Figure("path.unexplained_cpu", "CPU per job: rest of the machine", "ms"),
            Figure("start.idle_p50", "created → started, idle: p50", "ms", at_most(25)),
            Figure("start.idle_p99", "created → started, idle: p99", "ms", at_most(80)),
            Figure("start.burst_p50", "created → started, after 200: p50", "ms", at_most(25)),
            Figure("start.burst_p99", "created → started, after 200: p99", "ms", at_most(80)),
            Figure("post.rate", "POST jobs alone", "/s", at_least(120)),
            Figure("post.p50", "POST jobs alone: p50", "ms"),
            Figure("post.p99", "POST jobs alone: p99", "ms", at_most(100)),
            Figure("post.idle_p50", "POST jobs alone, one idle caller: p50", "ms"),
            Figure("post.web_cpu", "POST jobs alone: CPU of web", "ms"),
            Figure("post.postgres_cpu", "POST jobs alone: CPU of PostgreSQL", "ms"),
            Figure("idle.statements", "idle machine: statements", "/s", at_most(5)),
            Figure("idle.cpu", "idle machine: CPU of all processes", "% of a core", at_most(2)),
            Figure("memory.idle", "memory of the largest process, idle", "MB", at_most(150)),
            Figure("memory.growth", "largest growth of a process's memory", "%"),
        ),
    ),
    Scenario(
        "bare",
        "bench.whole_path:measure_without_bubblewrap",
        (
            Figure("bare.rate", "whole path without bubblewrap", "jobs/s"),
            Figure("bare.sim_cpu", "CPU per job: simulation worker, bare", "ms", at_most(18)),
        ),
    ),
    Scenario(
        "slots",
        "bench.free_slots:measure",
        (
            Figure("slots.claimed", "two of eight slots free: slowest claim of two jobs", "ms", at_most(50)),
            Figure("slots.started", "two of eight slots free: slowest start of two simulators", "ms"),
        ),
    ),
    Scenario(
        "moves",
        "bench.moves:measure",
        (
            Figure("moves.rate", "claim + start + finish", "/s", at_least(300)),
            Figure("moves.cpu", "CPU of claim + start + finish", "ms", at_most(1)),
            Figure("moves.postgres_cpu", "CPU of PostgreSQL for these", "ms"),
            Figure("moves.claim_p99", "claim: p99", "ms"),
            Figure("peers.procrastinate", "Procrastinate, no-op", "/s"),
            Figure("peers.celery", "Celery, no-op", "/s"),
            Figure("moves.ratio", "claim + start + finish / Procrastinate", "", at_least(0.5)),
        ),
    ),
    Scenario(
        "ledger",
        "bench.ledger:measure",
        (
            Figure("ledger.pairs", "reserve + settle, 50 accounts", "/s", at_least(600)),
            Figure("ledger.one_account", "reserve + settle, one account", "/s"),
            Figure("ledger.alone", "reserve + settle, one at a time", "/s"),
        ),
    ),
    Scenario(
        "webhooks",
        "bench.webhooks:measure",
        (
            Figure("webhooks.rate", "webhook deliveries", "/s", at_least(400)),
            Figure("webhooks.closing", "webhook deliveries, new connection for each", "/s"),
            Figure("webhooks.hanging", "webhook deliveries, a fifth hanging", "/s"),
        ),
    ),
    Scenario(
        "reads",
        "bench.api:measure",
        (
            Figure("reads.list", "GET jobs: p95", "ms", at_most(10)),
            Figure("reads.job", "GET jobs/{id}: p95", "ms", at_most(10)),
            Figure("reads.status", "GET jobs/{id}/status: p95", "ms", at_most(10)),
        ),
    ),
    Scenario(
        "queue",
        "bench.growth:measure_long_queue",
        (
            Figure("queue.claim_p99", "claim from a long queue: p99", "ms", at_most(10)),
            Figure("queue.claim_p50", "claim from a long queue: p50", "ms"),
            Figure("queue.sweep", "sweep of a long queue", "ms"),
            Figure("queue.forecast", "forecast of a long queue", "ms"),
        ),
    ),
)

FIGURES: Mapping[str, Figure] = {figure.key: figure for scenario in SCENARIOS for figure in scenario.figures}
