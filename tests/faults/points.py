"""Points at which a fault can hit a process: before and after each commit, announcement, spawn and settlement.

Each point wraps a function of the production code, in test processes only.
"""

import os
import signal
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from billing import ledger
from jobs import artifacts, credentials, lifecycle, move_statements
from jobs.execution import attempt, stages
from jobs.execution.watcher import Watcher
from jobs.progress import Publisher
from jobs.queueing import announcements, claims, sweep
from jobs.simulator.process import SimulatorProcess
from jobs.submission import accept
from jobs.submission.idempotency import KeyedRequest
from simservice.statements import Statement

# An action at a point, and the function that installs it.
Action = Callable[[], None]
Arm = Callable[[Action], None]
# Before a statement, so that a fault can hit while PostgreSQL executes it.
DELAY_SECONDS = 0.04
DELAY = Statement("delay", f"SELECT pg_sleep({DELAY_SECONDS})")


def die() -> None:
    """Kill this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str, action: Action) -> None:
    """Run an action before each call of a function."""
    function = getattr(owner, name)

    def reached(*args: Any, **named: Any) -> Any:
        action()
        return function(*args, **named)

    setattr(owner, name, reached)


def after(owner: Any, name: str, action: Action) -> None:
    """Run an action after each call of a function, except a claim that found no job."""
    function = getattr(owner, name)

    def reached(*args: Any, **named: Any) -> Any:
        result = function(*args, **named)
        if function is not claim or result is not None:
            action()
        return result

    setattr(owner, name, reached)


def during(name: str) -> Arm:
    """Run an action while PostgreSQL executes a statement of `move_statements`, which it delays.

    If the process dies, PostgreSQL notices only after it has committed the statement.
    """
    statement = getattr(move_statements, name)

    def arm(action: Action) -> None:
        run: Callable[..., list[tuple[Any, ...]]] = vars(lifecycle)["run"]

        def reached(*statements: Statement, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
            if statements[-1] is not statement:
                return run(*statements, values=values)
            timer = threading.Timer(DELAY_SECONDS / 2, action)
            timer.start()
            try:
                return run(*statements[:-1], DELAY, statement, values=values)
            finally:
                timer.join()

        vars(lifecycle)["run"] = reached

    return arm


claim = claims.claim

# In the order in which a worker reaches them.
POINTS: dict[str, Arm] = {
    "while the claim runs": during("CLAIM"),
    "claimed": partial(after, claims, "claim"),
    "before the simulator": partial(before, SimulatorProcess, "start"),
    "simulator started": partial(after, SimulatorProcess, "start"),
    "before the run is recorded": partial(before, lifecycle, "start_run"),
    "while the start runs": during("START"),
    "run recorded": partial(after, lifecycle, "start_run"),
    "while it runs": partial(before, Watcher, "_stop_when_due"),
    "credits extended": partial(after, ledger, "extend"),
    "simulator ended": partial(before, stages, "record_end"),
    "end recorded": partial(after, stages, "record_end"),
    "before artifacts are stored": partial(before, artifacts, "store_all"),
    "artifacts stored": partial(after, artifacts, "store_all"),
    "all artifacts stored": partial(before, attempt, "conclude"),
    "while the end runs": during("END"),
    "end committed": partial(after, attempt, "conclude"),
}
WORKER_POINTS = POINTS | {
    "before the claim": partial(before, claims, "claim"),
    "credentials fetched": partial(after, credentials, "fetch"),
    "before the heartbeat": partial(before, lifecycle, "renew_lease"),
    "heartbeat committed": partial(after, lifecycle, "renew_lease"),
    "progress published": partial(after, Publisher, "publish"),
    "before credits are extended": partial(before, ledger, "extend"),
    "before credentials are forgotten": partial(before, credentials, "forget"),
}
SUBMITTER_POINTS: dict[str, Arm] = {
    "credentials stored": partial(after, credentials, "store"),
    "before the job is stored": partial(before, accept, "_store"),
    "response rendered, job not stored": partial(after, KeyedRequest, "record"),
    "submission committed": partial(after, accept, "_store"),
    "before the announcement": partial(before, announcements, "announce"),
    "marked as announced, no hint sent": partial(after, lifecycle, "mark_queued"),
    "hint sent": partial(after, announcements, "send_hint"),
}
SWEEPER_POINTS: dict[str, Arm] = {
    "before the recovery": partial(before, sweep, "recover"),
    "recovered, not committed": partial(after, lifecycle, "end_lost_runs"),
    "recovery committed": partial(after, lifecycle, "requeue"),
    "before an overdue end": partial(before, lifecycle, "finish"),
    "sweeper ended, perhaps not committed": partial(after, lifecycle, "finish"),
    "sweeper's end committed": partial(after, sweep, "recover"),
    "before hints are sent again": partial(before, announcements, "replenish_hints"),
}
BY_ROLE = {"worker": WORKER_POINTS, "submitter": SUBMITTER_POINTS, "sweeper": SWEEPER_POINTS}

# A process paused at one of these may have locked a job's row, which claims then skip.
WITHIN_TRANSACTIONS = frozenset(
    [
        "while the claim runs",
        "while the start runs",
        "credits extended",
        "while the end runs",
        "recovered, not committed",
        "sweeper ended, perhaps not committed",
        "anywhere",
    ]
)
