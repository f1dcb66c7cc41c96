"""The points between claim and settlement at which a worker can be made to kill itself.

They are put round the production code's own functions from outside, in the worker's process only.
"""

import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

from billing import ledger
from jobs import artifacts, execution, lifecycle, queue, usage
from jobs.models import TERMINAL, Status
from jobs.simulator.process import SimulatorProcess
from jobs.watching import Watcher

Arm = Callable[[], None]


def die() -> None:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str) -> None:
    """Die instead of calling a function."""
    setattr(owner, name, lambda *_args, **_named: die())


def after(owner: Any, name: str) -> None:
    """Die once a function has done its work."""
    function = getattr(owner, name)

    def and_die(*args: Any, **named: Any) -> None:
        function(*args, **named)
        die()

    setattr(owner, name, and_die)


def after_move(*ends: Status) -> None:
    """Die once a job's status was moved, within the transaction that moves it."""
    move = lifecycle.move

    def and_die(*args: Any, **named: Any) -> bool:
        moved = move(*args, **named)
        if named["to"] in ends:
            die()
        return moved

    lifecycle.move = and_die


# In the order in which a worker passes them.
POINTS: dict[str, Arm] = {
    "within the claim": partial(after, lifecycle, "start_attempt"),
    "claimed": partial(after, queue, "claim"),
    "before the simulator": partial(before, SimulatorProcess, "start"),
    "simulator started": partial(after, SimulatorProcess, "start"),
    "before the run is recorded": partial(before, lifecycle, "start_run"),
    "within the start's transaction": partial(after_move, Status.RUNNING),
    "run recorded": partial(after, lifecycle, "start_run"),
    "while it runs": partial(before, Watcher, "_stop_when_due"),
    "credits extended": partial(after, ledger, "extend"),
    "simulator ended": partial(before, execution, "record_end"),
    "end recorded": partial(after, execution, "record_end"),
    "before an artifact is stored": partial(before, artifacts, "store"),
    "an artifact stored": partial(after, artifacts, "store"),
    "all artifacts stored": partial(before, execution, "conclude"),
    "status moved, not settled": partial(after_move, *TERMINAL),
    "settled, use not counted": partial(after, ledger, "settle"),
    "use counted, not committed": partial(after, usage, "record"),
    "end not committed": partial(after, lifecycle, "finish"),
    "end committed": partial(after, execution, "conclude"),
}
