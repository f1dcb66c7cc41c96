"""What happened to jobs in the last hour: throughput, waits, errors by fault, and the accounts behind them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from billing.models import Account
from jobs.failure_causes import FAULTS, Fault
from jobs.lifecycle import transitions
from simservice.postgresql.statements import load, run

INTERVAL_SECONDS = 120
INTERVALS = 3600 // INTERVAL_SECONDS
CODES = {str(fault): [code for code, of in FAULTS.items() if of is fault] for fault in Fault}
SQL = load(__file__, transitions.GROUPS)


@dataclass(frozen=True, kw_only=True)
class LastHour:
    """Ended jobs of the last hour, in intervals from the oldest to the latest.

    `waits` are the mean seconds from the submission to the first simulator, of jobs for which one ran; 0 without
    any. `errors` counts by error code, without jobs that their owners cancelled.
    """

    ended: Sequence[int]
    waits: Sequence[float]
    mean_wait: float
    errors: Counter[str]
    errors_by_fault: Mapping[Fault, Sequence[int]]

    @property
    def total(self) -> int:
        return sum(self.ended)


@dataclass(kw_only=True)
class AccountLoad:
    """What an account did in the last hour, and its unfinished jobs."""

    account: Account
    ended: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    credits: int = 0
    waiting: int = 0
    running: int = 0


class BuildShare(NamedTuple):
    """What happened to the jobs on a build in the last hour. `percent` is its part of all jobs that had a build."""

    ended: int
    simulator_errors: int
    service_errors: int
    percent: float


def fault_of(code: str) -> Fault:
    """Return the fault that an error code stands for; unknown codes count as the service's."""
    return FAULTS.get(code, Fault.SERVICE)


def read() -> LastHour:
    """Return the figures of the last hour. One query."""
    ended, started, waited = [0] * INTERVALS, [0] * INTERVALS, [0.0] * INTERVALS
    errors = Counter[str]()
    by_fault: dict[Fault, list[int]] = {fault: [0] * INTERVALS for fault in Fault}
    for age, code, jobs, ran, seconds in run(SQL["last_hour"], values={"seconds": INTERVAL_SECONDS}):
        # A job that ended on a machine whose clock is ahead has a negative age.
        place = INTERVALS - 1 - min(max(age, 0), INTERVALS - 1)
        ended[place] += jobs
        started[place] += ran
        waited[place] += max(seconds, 0.0)
        if code and code != "user_cancelled":
            errors[code] += jobs
            by_fault[fault_of(code)][place] += jobs
    return LastHour(
        ended=ended,
        waits=[total / count if count else 0.0 for total, count in zip(waited, started, strict=True)],
        mean_wait=sum(waited) / (sum(started) or 1),
        errors=errors,
        errors_by_fault=by_fault,
    )


def accounts(*, limit: int) -> list[AccountLoad]:
    """Return the accounts with the most ended jobs in the last hour or the most unfinished jobs. Three queries."""
    ended = run(SQL["accounts_of_last_hour"], values={**CODES, "limit": limit})
    unfinished = run(SQL["unfinished_by_account"], values={"limit": limit})
    found = Account.objects.select_related("plan").in_bulk({row[0] for row in (*ended, *unfinished)})
    loads: dict[int, AccountLoad] = {pk: AccountLoad(account=account) for pk, account in found.items()}
    for pk, jobs, service, simulator, user, spent in ended:
        load = loads[pk]
        load.ended, load.credits = jobs, int(spent)
        load.errors = {"service": service, "simulator": simulator, "user": user}
    for pk, waiting, running in unfinished:
        loads[pk].waiting, loads[pk].running = waiting, running
    return sorted(loads.values(), key=lambda load: (-load.ended - load.waiting - load.running, load.account.name))


def builds() -> dict[UUID, BuildShare]:
    """Return what happened on each build in the last hour. One query."""
    # Jobs that failed before a build was chosen have none.
    rows = [row for row in run(SQL["builds_of_last_hour"], values=CODES) if row[0]]
    total = sum(row[1] for row in rows) or 1
    return {
        pk: BuildShare(ended, simulator, service, 100 * ended / total) for pk, ended, simulator, service in rows
    }
