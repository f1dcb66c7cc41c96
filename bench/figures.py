"""All figures with their aims, by scenario."""

from collections.abc import Sequence
from typing import NamedTuple


class Value(NamedTuple):
    """A measured value, with a remark such as its sample size."""

    value: float
    note: str = ""


Values = dict[str, Value]


class Figure(NamedTuple):
    """One row of the table, with its aim. Figures without an aim help to explain other figures."""

    key: str
    title: str
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def aim(self) -> str:
        return f"≥ {self.at_least:g}" if self.at_least else f"≤ {self.at_most:g}" if self.at_most else ""

    def judge(self, value: float) -> str:
        """Return a mark for whether a value meets the aim; nothing without an aim."""
        is_met = (self.at_least or value) <= value <= (self.at_most or value)
        return "" if not self.aim else "✓" if is_met else "✗"


# The share of slots' time in which simulators work, by the number of slots
ONE_PASS = {2: 0.9, 4: 0.9, 8: 0.9, 16: 0.9, 32: 0.8}
STAGES = {8: 0.8, 16: 0.8}

SCENARIOS: dict[str, tuple[Figure, ...]] = {
    "path": (
        Figure("path.rate", "whole path, sustained", "jobs/s", at_least=45),
        Figure("path.sim_cpu", "CPU per job: simulation worker, bubblewrap", "ms", at_most=25),
        Figure("path.web_cpu", "CPU per job: web", "ms", at_most=6),
        Figure("path.postgres_cpu", "CPU per job: PostgreSQL", "ms", at_most=6),
        Figure("path.other_cpu", "CPU per job: other programs", "ms"),
        Figure("start.idle_p50", "created → started, idle: p50", "ms", at_most=25),
        Figure("start.idle_p99", "created → started, idle: p99", "ms", at_most=80),
        Figure("start.burst_p50", "created → started, after 200: p50", "ms", at_most=25),
        Figure("start.burst_p99", "created → started, after 200: p99", "ms", at_most=80),
        Figure("post.rate", "POST jobs alone", "/s", at_least=120),
        Figure("post.p50", "POST jobs alone: p50", "ms"),
        Figure("post.p99", "POST jobs alone: p99", "ms", at_most=100),
        Figure("post.web_cpu", "POST jobs alone: CPU of web", "ms"),
        Figure("post.postgres_cpu", "POST jobs alone: CPU of PostgreSQL", "ms"),
        Figure("idle.statements", "idle machine: statements", "/s", at_most=5),
        Figure("idle.cpu", "idle machine: CPU of all processes", "% of a core", at_most=2),
        Figure("memory.idle", "memory of the largest process, idle", "MB", at_most=150),
        Figure("memory.growth", "largest growth of a process's memory", "%"),
    ),
    "slots": (
        Figure("slots.claimed", "two of eight slots free: slowest claim of two jobs", "ms", at_most=50),
        Figure("slots.started", "two of eight slots free: slowest start of two simulators", "ms"),
    ),
    "moves": (
        Figure("moves.rate", "claim + start + finish", "/s", at_least=300),
        Figure("moves.cpu", "CPU of claim + start + finish", "ms", at_most=1),
        Figure("moves.postgres_cpu", "CPU of PostgreSQL for these", "ms"),
        Figure("moves.claim_p99", "claim: p99", "ms"),
    ),
    "ledger": (
        Figure("ledger.pairs", "reserve + settle, 50 accounts", "/s", at_least=600),
        Figure("ledger.one_account", "reserve + settle, one account", "/s"),
        Figure("ledger.alone", "reserve + settle, one at a time", "/s"),
    ),
    "webhooks": (
        Figure("webhooks.rate", "webhook deliveries", "/s", at_least=400),
        Figure("webhooks.closing", "webhook deliveries, new connection for each", "/s"),
        Figure("webhooks.hanging", "webhook deliveries, a fifth hanging", "/s"),
    ),
    "reads": (
        Figure("reads.list", "GET jobs: p95", "ms", at_most=10),
        Figure("reads.job", "GET jobs/{id}: p95", "ms", at_most=10),
        Figure("reads.status", "GET jobs/{id}/status: p95", "ms", at_most=10),
    ),
    "history": (
        Figure("history.replay", "replay of the history, for each job", "µs", at_most=1_000),
        Figure("history.cpu", "CPU of the replay, for each job", "µs"),
        Figure("history.bytes", "events and runs of a job, with indexes", "bytes"),
    ),
    "scaling": (
        *(
            Figure(f"scaling.one_pass_{n}", f"one pass, {n} slots: T1/(nTn)", "", aim)
            for n, aim in ONE_PASS.items()
        ),
        *(Figure(f"scaling.stages_{n}", f"in stages, {n} slots: T1/(nTn)", "", aim) for n, aim in STAGES.items()),
    ),
}


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of the values do not exceed (nearest rank).

    Raises ValueError without values.
    """
    if not values:
        raise ValueError("no values")
    rank = -(-len(values) * percent // 100)
    return sorted(values)[max(0, int(rank) - 1)]
