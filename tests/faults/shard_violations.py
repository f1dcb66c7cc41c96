"""Invariants of sharded jobs in a fault run (`tests/shard_invariants.py`), checked in the record of all changes.

Each function yields the violations that it finds; each begins with the name of its invariant.
"""

import gzip
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import chain, pairwise
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.db.models import Sum

from billing.models import Entry, Pocket
from jobs.enums import CLAIMED, TERMINAL, ErrorCode, ShardStatus, Status
from jobs.enums import WAITING as WAITING_JOB
from jobs.lifecycle import shard_moves
from jobs.models import Artifact, Job, JobEvent, Run, Shard, ShardedStage
from jobs.planning.multistage import SUFFIX
from jobs.queue import sweep
from tests.faults import shard_audit
from tests.faults.fault_run import Observations
from tests.faults.fault_workers import IDLE_IN_TRANSACTION_SECONDS, SNAPSHOT_MARK
from tests.faults.invariants import Claim, claims, counting_ends, faults_before, orphans
from tests.faults.shard_audit import Audit, Change, Row, StageHistory, pid_of
from tests.shard_invariants import Invariant

WAITING, RUNNING, DONE = ShardStatus.WAITING, ShardStatus.RUNNING, ShardStatus.DONE
ENDED = (ShardStatus.DONE, ShardStatus.STOPPED, ShardStatus.FAILED)
# Between the change of a row and its commit.
COMMIT_SECONDS = 0.5
# The same if the process pauses in between.
UNCOMMITTED_SECONDS = COMMIT_SECONDS + IDLE_IN_TRANSACTION_SECONDS
# The stand-in is stopped as soon as its allowance ends. A busy machine may take this much longer.
GRACE_MS = 1500
SHARD_FILE = re.compile(r"(\d+)-(\d+)\.(\d+)\.shard\.(\d+)\.(\d+)-")
PROFILESET = re.compile(r'^"?profileset\.([^=+]+)\+?=', re.MULTILINE)
NONCE = re.compile(r"nonce (\d+)")


def violations(observed: Observations) -> list[str]:
    """Return all violations of a run."""
    audit = shard_audit.read()
    return [
        *(text for history in audit.stages.values() for text in stage_violations(history, observed)),
        *run_violations(audit, observed),
        *cancel_violations(audit),
        *order_violations(audit),
        *result_violations(audit),
        *leftover_violations(audit, observed),
    ]


def violation(invariant: Invariant, text: str) -> str:
    return f"{invariant.name}: {text}"


def stage_violations(history: StageHistory, observed: Observations) -> Iterator[str]:
    """Yield the violations in the history of one stage."""
    yield from state_violations(history)
    for change, old, new in history.updates():
        title = history.title(new)
        is_adoption = change.transaction in history.adoptions
        if problem := (adoption_problem if is_adoption else move_problem)(old, new):
            yield violation(Invariant.ONE_TRY, f"{title} {problem}")
        if is_adoption:
            continue
        if old["status"] == RUNNING and change.pid != pid_of(old["worker"]) and not is_recovery(change, old, new):
            yield violation(Invariant.ZOMBIE, f"{title} of {old['worker']} was changed by {change.pid}")
        if is_free_return(change, old, new, observed) and new["losses"] != old["losses"]:
            yield violation(Invariant.FREE_RETURN, f"{title} was returned by a stopping worker and counted as lost")


def state_violations(history: StageHistory) -> Iterator[str]:
    """Yield the transactions after which the sums or the number of running shards are wrong."""
    stage: Row = {}
    shards: dict[int, Row] = {}
    for changes in history.transactions():
        for change in changes:
            if change.source == "jobs_shardedstage":
                stage = change.new or {}
            elif change.new is None:
                shards.pop(change.row["number"])
            else:
                shards[change.row["number"]] = change.new
        if not stage:
            continue
        allotted = sum(shard["billed_ms"] + shard["allowance_ms"] for shard in shards.values())
        if not allotted == stage["allotted_ms"] <= stage["funded_ms"]:
            figures = f"{allotted} ms are allotted, {stage['allotted_ms']} of {stage['funded_ms']} are recorded"
            yield violation(Invariant.ALLOWANCES, f"{history.title()}: {figures}")
        seats = [shard["seat"] for shard in shards.values() if shard["status"] == RUNNING]
        if len(set(seats)) < len(seats) or any(seat >= stage["slots"] for seat in seats):
            yield violation(Invariant.SEATS, f"{history.title()} has seats {seats} of {stage['slots']} slots")


def adoption_problem(old: Row, new: Row) -> str | None:
    """Return what is wrong with the change of a shard whose stage is adopted, or None."""
    if new["try_number"] != old["try_number"] or new["losses"]:
        return f"was adopted with another try, or with {new['losses']} losses"
    if new["status"] == old["status"] or (old["status"], new["status"]) == (RUNNING, WAITING):
        return None
    return f"went from {old['status']} to {new['status']} when its stage was adopted"


def move_problem(old: Row, new: Row) -> str | None:
    """Return what is wrong with a change of a shard, or None."""
    starts = (old["status"], new["status"]) == (WAITING, RUNNING)
    if new["try_number"] != old["try_number"] + starts:
        return f"followed try {old['try_number']}"
    if not is_move(old["status"], new["status"]):
        return f"went from {old['status']} to {new['status']}"
    if old["status"] == new["status"] == RUNNING and (old["worker"], old["seat"]) != (new["worker"], new["seat"]):
        return "has another worker or seat"
    lost = new["losses"] - old["losses"]
    returned = new["status"] == WAITING
    return f"was lost {lost} times at once" if lost not in ((0, 1) if returned else (0,)) else None


def is_move(old: str, new: str) -> bool:
    """Return whether a change of status is a legal move or a renewal."""
    return (old, new) in {(WAITING, RUNNING), (RUNNING, RUNNING), (RUNNING, WAITING), (DONE, WAITING)} or (
        old == RUNNING and new in ENDED
    )


def is_recovery(change: Change, old: Row, new: Row) -> bool:
    """Return whether the lease of a running shard had expired and the shard was returned."""
    return new["status"] == WAITING and epoch(old["lease_expires_at"]) <= change.at


def is_free_return(change: Change, old: Row, new: Row, observed: Observations) -> bool:
    """Return whether a worker that was asked to stop returned its own shard."""
    stopped_at = observed.stopped.get(change.pid)
    is_own = old["status"] == RUNNING and change.pid == pid_of(old["worker"]) and not is_recovery(change, old, new)
    return is_own and new["status"] == WAITING and stopped_at is not None and stopped_at < change.at


def epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def run_violations(audit: Audit, observed: Observations) -> Iterator[str]:
    """Yield the runs that overlapped, ran too long, or differ from the bills of their tries."""
    runs = defaultdict[tuple[int, int, int], list[Run]](list)
    for run in Run.objects.order_by("attempt", "try_number"):
        runs[run.job_id, run.stage, run.shard].append(run)
    yield from overlaps(runs.values())
    for history in audit.stages.values():
        stage = history.stage
        for _, old, new in history.updates():
            if old["status"] == RUNNING and new["status"] in ENDED:
                own = runs[stage["job_id"], stage["stage"], new["number"]]
                tries = (run for run in own if run.attempt >= stage["created_by_attempt"])
                ended = next((run for run in tries if run.try_number == new["try_number"]), None)
                yield from billing_problems(history.title(new), old, new, ended)
                # A paused process cannot stop its simulator.
                over_ms = ((ended and ended.wall_ms) or 0) - old["allowance_ms"]
                if over_ms > GRACE_MS and pid_of(old["worker"]) not in observed.paused:
                    yield violation(Invariant.ALLOWANCES, f"{history.title(new)} ran {over_ms} ms too long")


def overlaps(runs: Iterable[list[Run]]) -> Iterator[str]:
    """Yield the runs of a shard that ended after its next run began."""
    for run, following in chain.from_iterable(map(pairwise, runs)):
        if run.ended_at is None or run.ended_at > following.started_at:
            yield violation(Invariant.ONE_TRY, f"run {run} try {run.try_number} ended after the next one began")


def billing_problems(title: str, old: Row, new: Row, run: Run | None) -> Iterator[str]:
    """Yield what is wrong with the bill of an ended try."""
    if run is None or run.wall_ms is None:
        yield violation(Invariant.BILL, f"{title} ended without a run")
        return
    is_billed = new["result"]["stopped_for"] != "shard_failed"
    if new["billed_ms"] != (min(run.wall_ms, old["allowance_ms"]) if is_billed else 0):
        figures = f"ran {run.wall_ms} ms of {old['allowance_ms']} allowed and is billed {new['billed_ms']}"
        yield violation(Invariant.BILL, f"{title} {figures}")


def cancel_violations(audit: Audit) -> Iterator[str]:
    """Yield the shards that started after a cancellation or after the end of their attempt."""
    cancelled = cancellations(audit)
    over = ends_of_attempts(audit)
    for history in audit.stages.values():
        job = history.stage["job_id"]
        for change, new, attempt in history.starts():
            if change.at - COMMIT_SECONDS > cancelled.get(job, math.inf):
                yield violation(Invariant.CANCEL, f"{history.title(new)} started after the cancellation")
            if (job, attempt) in over and change.at - COMMIT_SECONDS > over[job, attempt].at:
                yield violation(Invariant.END_IS_FINAL, f"{history.title(new)} started after its attempt ended")
    last = {job: end for (job, _), end in over.items() if end.row["status"] in TERMINAL}
    for change in audit.runs:
        # Helpers finish their shards for the next attempt.
        job, attempt = change.row["job_id"], change.row["attempt"]
        end = last.get(job) if change.row["seat"] else over.get((job, attempt))
        if end and change.transaction != end.transaction and change.at - UNCOMMITTED_SECONDS > end.at:
            yield violation(Invariant.END_IS_FINAL, f"a run changed after its attempt ended: {change.row}")


def cancellations(audit: Audit) -> dict[int, float]:
    """Return when the cancellation of each job was requested."""
    rows = [(change, change.row) for change in reversed(audit.jobs)]
    return {row["id"]: change.at for change, row in rows if row["cancel_requested_at"] is not None}


def ends_of_attempts(audit: Audit) -> dict[tuple[int, int], Change]:
    """Return the changes that ended attempts, by job and attempt."""
    rows = [(change, change.old or {}, change.row) for change in audit.jobs]
    return {
        (new["id"], new["attempt"]): change
        for change, old, new in rows
        if old["status"] in CLAIMED and new["status"] not in CLAIMED
    }


def helping_claims(audit: Audit) -> Iterator[tuple[StageHistory, Claim, Row]]:
    """Yield helpers' claims of shards, in the form in which claims of jobs are compared."""
    for history in audit.stages.values():
        for change, new, _ in history.starts():
            if new["seat"]:
                saw = int(new["worker"].partition(SNAPSHOT_MARK)[2])
                rank = (history.stage["priority"], history.stage["job_id"])
                yield (
                    history,
                    Claim(job=rank[1], rank=rank, at=change.at, number=change.transaction, saw=saw, waited=0),
                    new,
                )


def order_violations(audit: Audit) -> Iterator[str]:
    """Yield the shards that helpers claimed while a job of their priority or a better one waited.

    Jobs with locked rows count too: the claim of a shard does not skip them.
    """
    jobs = claims()
    for history, claim, shard in helping_claims(audit):
        ahead = [job.job for job in jobs if job.rank[0] <= claim.rank[0] and job.was_waiting_at(claim)]
        if ahead:
            yield violation(Invariant.QUEUE_ORDER, f"{history.title(shard)} was claimed before the jobs {ahead}")


def checked_claims() -> tuple[int, int]:
    """Return how many shards helpers claimed, and how many pairs of such a claim and a waiting job there are."""
    jobs = claims()
    helping = [claim for _, claim, _ in helping_claims(shard_audit.read())]
    return len(helping), sum(job.was_waiting_at(claim) for claim in helping for job in jobs)


def last_stages(audit: Audit) -> dict[int, list[StageHistory]]:
    """Return the sharded stages of each job's last attempt."""
    attempts = dict(Job.objects.values_list("id", "attempt"))
    found: dict[int, list[StageHistory]] = {}
    for history in audit.stages.values():
        if history.stage["attempt"] == attempts[history.stage["job_id"]]:
            found.setdefault(history.stage["job_id"], []).append(history)
    return found


def result_violations(audit: Audit) -> Iterator[str]:
    """Yield the jobs whose bill or results are not those of their shards."""
    stages = last_stages(audit)
    for job in Job.objects.filter(pk__in=stages, sim_duration_ms__isnull=False).prefetch_related(
        "runs", "artifacts"
    ):
        yield from bill_violations(job, stages[job.pk])
        if job.status == Status.COMPLETED:
            yield from summary_violations(job)
            for history in stages[job.pk]:
                yield from completeness_violations(job, history)


def bill_violations(job: Job, stages: list[StageHistory]) -> Iterator[str]:
    """Yield the differences between a job's bill and the time of its shards and whole stages."""
    sharded = {history.stage["stage"] for history in stages}
    used_ms = sum(shard["billed_ms"] for history in stages for shard in history.shards.values())
    used_ms += sum(
        run.wall_ms or 0 for run in job.runs.all() if run.attempt == job.attempt and run.stage not in sharded
    )
    if used_ms != job.sim_duration_ms:
        yield violation(Invariant.BILL, f"job {job.pk} ran {job.sim_duration_ms} ms, its shards {used_ms} ms")
    if job.error_code == ErrorCode.INSUFFICIENT_CREDITS or (job.status == Status.TIMED_OUT and not job.max_credits):
        yield violation(Invariant.ALLOWANCES, f"job {job.pk} was stopped at a limit that it does not have")
    held = Entry.objects.filter(job_id=job.pk, target=Pocket.HELD).aggregate(sum=Sum("credits"))["sum"]
    due = min(math.ceil(used_ms / 1000) * job.credits_per_second + job.priority_fee_credits, held)
    if job.credits_consumed != due:
        yield violation(Invariant.BILL, f"job {job.pk} cost {job.credits_consumed}, its shards {due}")
    for history in stages:
        paid_ms = (held - job.priority_fee_credits) * 1000 // job.credits_per_second
        if history.stage["funded_ms"] > paid_ms:
            funds = f"was funded {history.stage['funded_ms']} ms, {paid_ms} ms were held"
            yield violation(Invariant.ALLOWANCES, f"{history.title()} {funds}")


def summary_violations(job: Job) -> Iterator[str]:
    """Yield the profilesets that a completed job's summary does not contain exactly once."""
    assert job.summary is not None
    named = Counter(row["name"] for row in job.summary["mainActor"]["profilesets"]["results"])
    yield from name_problems(f"the summary of job {job.pk}", named, set(PROFILESET.findall(job.profile.text)))


def name_problems(title: str, named: Counter[str], planned: Iterable[str]) -> Iterator[str]:
    if named != Counter(set(planned)):
        yield violation(Invariant.COMPLETE, f"{title} has {dict(named)}, not {sorted(planned)}")


def completeness_violations(job: Job, history: StageHistory) -> Iterator[str]:
    """Yield the shards of a completed stage that are not done or not in its merged report."""
    statuses = {number: shard["status"] for number, shard in sorted(history.shards.items())}
    if set(statuses.values()) != {DONE} or list(statuses) != list(range(len(statuses))):
        yield violation(Invariant.COMPLETE, f"{history.title()} completed with {statuses}")
    rows = merged_rows(job, history.stage["stage"])
    # The report has the results of a profileset and its replicate under one name.
    owners = defaultdict[str, set[int]](set)
    for number, text in history.texts.items():
        for name in PROFILESET.findall(text) if number else ():
            owners[name.removesuffix(SUFFIX)].add(number)
    yield from name_problems(f"the report of {history.title()}", Counter(row["name"] for row in rows), owners)
    nonces = {number: nonce_of(shard) for number, shard in history.shards.items()}
    for row in rows:
        counting = {nonces.get(number) for number in owners[row["name"]]}
        if row["max"] not in counting:
            yield violation(
                Invariant.ZOMBIE,
                f"{history.title()} has a result of process {row['max']} for {row['name']}, not of {counting}",
            )


def merged_rows(job: Job, stage: int) -> list[dict[str, Any]]:
    """Return the profilesets in the report of a stage."""
    kind = Artifact.Kind.JSON_REPORT
    reports = {artifact.stage: artifact for artifact in job.artifacts.all() if artifact.kind == kind}
    found = reports.get(stage) or reports.get(None)
    if found is None:
        return []
    with default_storage.open(found.storage_name) as stored:
        rows: list[dict[str, Any]] = json.loads(gzip.decompress(stored.read()))["sim"]["profilesets"]["results"]
    return rows


def nonce_of(shard: Row) -> int | None:
    """Return the number that the process of a shard's last try printed."""
    printed = NONCE.search(" ".join((shard["result"] or {}).get("warnings", ())))
    return int(printed[1]) if printed else None


def leftover_violations(audit: Audit, observed: Observations) -> Iterator[str]:
    """Yield the rows and files of shards that were never removed."""
    with pytest.MonkeyPatch.context() as patch:
        # A sweep removes the stages of lost conductors.
        patch.setattr(shard_moves, "VOID_KEPT", timedelta(0))
        sweep.sweep()
    if ShardedStage.objects.exists() or Shard.objects.exists():
        left = [str(stage) for stage in ShardedStage.objects.all()]
        yield violation(Invariant.PROGRESS, f"stages are left after a sweep: {left}")
    conductors = ending_workers()
    # The conductor that ends a job removes the files.
    ended_at = dict(counting_ends().values_list("job_id", "at"))
    workers = workers_of_tries(audit)
    for name in orphans():
        if found := SHARD_FILE.match(name.rpartition("/")[2]):
            key = tuple(map(int, found.groups()))
            if key[0] in ended_at and not {workers.get(key), conductors[key[0]]} & observed.killed:
                faults = faults_before(observed, ended_at[key[0]].timestamp())
                text = f"{name} is left, but process {workers.get(key)} was not killed; before the end: {faults}"
                yield violation(Invariant.ZOMBIE, text)


def ending_workers() -> dict[int, int]:
    """Return the process of each job's last attempt."""
    claims = JobEvent.objects.filter(from_status__in=WAITING_JOB, to_status=Status.STARTING).order_by("id")
    return {event.job_id: pid_of(event.reason.removeprefix("claimed by ")) for event in claims}


def workers_of_tries(audit: Audit) -> dict[tuple[int, ...], int]:
    """Return the process of each try, by job, attempt, stage, shard and try."""
    return {
        (
            *(history.stage[key] for key in ("job_id", "created_by_attempt", "stage")),
            new["number"],
            new["try_number"],
        ): pid_of(new["worker"])
        for history in audit.stages.values()
        for _, _, new in history.updates()
        if new["status"] == RUNNING
    }
