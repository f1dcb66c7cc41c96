"""Points at which a fault can hit a process: before and after each commit, announcement, spawn and settlement.

Each point wraps a function of the production code, in test processes only.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from django.core.files.storage import default_storage

from billing import ledger
from jobs.artifacts import artifact_files, credentials
from jobs.execution import attempt, shard_files
from jobs.execution.conductor import Conductor
from jobs.execution.shard_results import ShardResults
from jobs.execution.time_limits import JobLimit
from jobs.lifecycle import job_moves, shard_moves
from jobs.live.progress import Publisher
from jobs.models import Artifact, Shard, ShardedStage
from jobs.queue import announcements, claims, sweep
from jobs.submission import accept
from jobs.submission.idempotency import ByIdempotencyKey
from sandbox.process import ConfinedProcess

# An action at a point, which may return the injected fault, and a function that installs an action.
Action = Callable[[], object]
Arm = Callable[[Action], None]
# Whether an action applies to a call with these named arguments.
Only = Callable[[Mapping[str, object]], bool]
# Before a statement, so that a fault can hit while PostgreSQL executes it.
DELAY_SECONDS = 0.2
DELAY = f"SELECT pg_sleep({DELAY_SECONDS})"
# The functions that move shards, and their names in a fault run.
MOVES = {
    "create_stage": "shards are created",
    "adopt_stage": "a stage is adopted",
    "renew_shard": "a shard is renewed",
    "end_shard": "a shard ends",
    "return_shard": "a shard is given back",
    "lose_expired": "a shard is lost",
    "reject_shard": "a shard is rejected",
    "fund_stage": "shards are funded",
    "stop_stage": "shards are stopped",
    "remove_stage": "shards are removed",
}


def die() -> None:
    """Kill this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_after_a_shard() -> None:
    """Kill this process if a shard is done."""
    if Shard.objects.filter(status="done").exists():
        die()


def any_call(_: Mapping[str, object]) -> bool:
    return True


def before(owner: Any, name: str, action: Action, *, only: Only = any_call) -> None:
    """Run an action before each call of a function, or only before calls with certain arguments."""
    function = getattr(owner, name)

    def reached(*args: Any, **named: Any) -> Any:
        if only(named):
            action()
        return function(*args, **named)

    setattr(owner, name, reached)


def after(owner: Any, name: str, action: Action, *, only: Only = any_call) -> None:
    """Run an action after each call of a function, except claims and moves of shards that changed nothing."""
    function = getattr(owner, name)

    def reached(*args: Any, **named: Any) -> Any:
        result = function(*args, **named)
        may_change_nothing = owner in (claims, shard_moves)
        if only(named) and (result or not may_change_nothing):
            action()
        return result

    setattr(owner, name, reached)


def during(name: str, *, module: ModuleType = job_moves) -> Arm:
    """Run an action while PostgreSQL executes a delayed statement. `module` is the module that runs it.

    If the process dies, PostgreSQL notices only after it has committed the statement.
    """
    statement = vars(module)["SQL"][name]

    def arm(action: Action) -> None:
        run: Callable[..., list[tuple[Any, ...]]] = vars(module)["run"]

        def reached(*statements: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
            if statements[-1] is not statement:
                return run(*statements, values=values)
            timer = threading.Timer(DELAY_SECONDS / 2, action)
            timer.start()
            try:
                return run(*statements[:-1], DELAY, statement, values=values)
            finally:
                timer.join()

        vars(module)["run"] = reached

    return arm


def after_storing(action: Action) -> None:
    """Run an action after the files of a shard are stored. If it injects "file", truncate the report."""
    store = shard_files.store

    def reached(
        stage: ShardedStage, contents: Iterator[tuple[Artifact.Kind, BinaryIO]], *, number: int, try_number: int
    ) -> None:
        store(stage, contents, number=number, try_number=try_number)
        if action() == "file":
            name = shard_files.name_of(stage, Artifact.Kind.JSON_REPORT, number=number, try_number=try_number)
            report = Path(default_storage.path(name))
            report.write_bytes(report.read_bytes()[: report.stat().st_size // 2])

    vars(shard_files)["store"] = reached


# In the order in which a worker reaches them.
POINTS: dict[str, Arm] = {
    "while the claim runs": during("claim_job"),
    "claimed": partial(after, claims, "claim_work"),
    "before the simulator": partial(before, ConfinedProcess, "start"),
    "simulator started": partial(after, ConfinedProcess, "start"),
    "before the run is recorded": partial(before, job_moves, "start_run"),
    "while the start runs": during("start_run"),
    "run recorded": partial(after, job_moves, "start_run"),
    "while it runs": partial(before, JobLimit, "stop_reason"),
    "credits extended": partial(after, ledger, "extend"),
    "simulator ended": partial(before, job_moves, "end_run"),
    "end recorded": partial(after, job_moves, "end_run"),
    "before artifacts are stored": partial(before, artifact_files, "store_all"),
    "artifacts stored": partial(after, artifact_files, "store_all"),
    "all artifacts stored": partial(before, attempt, "conclude"),
    "while the end runs": during("end_job"),
    "end committed": partial(after, attempt, "conclude"),
}
WORKER_POINTS = POINTS | {
    "before the claim": partial(before, claims, "claim_work"),
    "credentials fetched": partial(after, credentials, "fetch"),
    "before the heartbeat": partial(before, job_moves, "renew_lease"),
    "heartbeat committed": partial(after, job_moves, "renew_lease"),
    "progress published": partial(after, Publisher, "publish"),
    "before credits are extended": partial(before, ledger, "extend"),
    "before credentials are forgotten": partial(before, credentials, "forget"),
}


def as_conductor(named: Mapping[str, object]) -> bool:
    return "attempt" in named


def as_helper(named: Mapping[str, object]) -> bool:
    return not as_conductor(named)


SHARD_POINTS: dict[str, Arm] = {
    **{f"before {title}": partial(before, shard_moves, name) for name, title in MOVES.items()},
    **{f"after {title}": partial(after, shard_moves, name) for name, title in MOVES.items()},
    "before a helper's claim": partial(before, shard_moves, "claim_shard", only=as_helper),
    "after a helper's claim": partial(after, shard_moves, "claim_shard", only=as_helper),
    "before a conductor's claim": partial(before, shard_moves, "claim_shard", only=as_conductor),
    "after a conductor's claim": partial(after, shard_moves, "claim_shard", only=as_conductor),
    "while the claim of a shard runs": during("claim_shard", module=shard_moves),
    "while the end of a shard runs": during("end_shard", module=shard_moves),
    "while the return of a shard runs": during("return_shard", module=shard_moves),
    "before the files of a shard are stored": partial(before, shard_files, "store"),
    "after the files of a shard are stored": after_storing,
    "before the conductor fetches": partial(before, ShardResults, "_collect"),
    "fetched, not checked": partial(before, ShardResults, "_checked"),
    "collected": partial(after, ShardResults, "_collect"),
    "all shards ended": partial(before, Conductor, "_conclude"),
    "before the merge": partial(before, ShardResults, "report"),
    "merged": partial(after, ShardResults, "_merged_report"),
}
SUBMITTER_POINTS: dict[str, Arm] = {
    "credentials stored": partial(after, credentials, "store"),
    "before the job is stored": partial(before, accept, "_store"),
    "response rendered, job not stored": partial(after, ByIdempotencyKey, "record"),
    "submission committed": partial(after, accept, "_store"),
    "before the announcement": partial(before, announcements, "announce"),
    "marked as announced, no message sent": partial(after, job_moves, "mark_queued"),
    "message sent": partial(after, announcements, "wake_one"),
}
SWEEPER_POINTS: dict[str, Arm] = {
    "before the recovery": partial(before, sweep, "recover"),
    "recovered, not committed": partial(after, job_moves, "end_lost_runs"),
    "recovery committed": partial(after, job_moves, "requeue"),
    "before an overdue end": partial(before, job_moves, "finish"),
    "sweeper ended, perhaps not committed": partial(after, job_moves, "finish"),
    "sweeper's end committed": partial(after, sweep, "recover"),
    "before messages are sent again": partial(before, announcements, "replenish"),
    "before void shards are removed": partial(before, shard_moves, "remove_stage"),
    "after void shards are removed": partial(after, shard_moves, "remove_stage"),
}
WORKER_AND_SHARD_POINTS = WORKER_POINTS | SHARD_POINTS
BY_ROLE = {"worker": WORKER_AND_SHARD_POINTS, "submitter": SUBMITTER_POINTS, "sweeper": SWEEPER_POINTS}

ANYWHERE = "anywhere"
# A process paused at one of these may have locked a job's row, which claims then skip.
WITHIN_TRANSACTIONS = frozenset(
    [
        "while the claim runs",
        "while the start runs",
        "credits extended",
        "while the end runs",
        "recovered, not committed",
        "sweeper ended, perhaps not committed",
        ANYWHERE,
    ]
)

# Points after a commit whose response a fault can lose.
ANSWERS = frozenset(
    ["run recorded", "heartbeat committed", "end recorded", "end committed"]
    + [point for point in SHARD_POINTS if point.startswith("after ") and "files" not in point]
)


def faults_at(point: str, *, role: str) -> set[str]:
    """Return the faults that are possible at a point.

    "kill", "pause", "database" and "redis" are possible everywhere. "answer" loses the response to a commit, "stop"
    is an ordinary shutdown of a worker, and "file" damages a stored file.
    """
    possible = {"kill", "pause", "database", "redis"}
    if point in ANSWERS:
        possible.add("answer")
    if role == "worker":
        possible.add("stop")
    if point == "after the files of a shard are stored":
        possible.add("file")
    return possible
