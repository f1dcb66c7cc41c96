"""The rules of possible histories: job, attempt, lease, run, shard, hold, event and delivery.

Each rule is a function that yields the rows that break it. Its docstring is the rule. `kept_by` names what keeps
it in production: SQL statements and parts, constraints, and functions. `docs/reference/history-rules.md` lists all.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from jobs.history.rows import CLAIMED, TERMINAL, WAITING, EventRow, History, Row, RunRow

# The moves of a job: `docs/reference/state-machine.md#transitions`, written again so that a mistake there is found.
MOVES = (
    {("", "pending"), ("pending", "queued"), ("starting", "running")}
    | {(waiting, "starting") for waiting in WAITING}
    | {(claimed, "queued") for claimed in CLAIMED}
    | {(waiting, ended) for waiting in WAITING for ended in ("failed", "cancelled")}
    | {(claimed, ended) for claimed in CLAIMED for ended in TERMINAL}
)
# The causes of a job's return to the queue; pauses and resumes have one too.
RETURN_CAUSES = ("lost", "returned")
PAUSES = ("paused", "resumed")
EXPIRED = "stopped renewing its lease"
# A claim can start slightly before the announcement that it waits for.
SKEW_SECONDS = 10.0
# A run that is longer than the first allowance of its shard can end between two checks of its allowance.
OVERRUN_MS = 1_500


@dataclass(frozen=True, kw_only=True)
class Impossible:
    """A row that breaks a rule, and what the rule expects of it."""

    row: Row
    expected: str


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule: its name, its subject and sentence, what keeps it, and the function that finds what breaks it."""

    name: str
    subject: str
    sentence: str
    kept_by: Sequence[str]
    broken_by: Callable[[History], Iterator[Impossible]]


RULES: list[Rule] = []
Check = Callable[[History], Iterator[Impossible]]


def rule(subject: str, *kept_by: str) -> Callable[[Check], Check]:
    """Add a function to the rules about a subject."""

    def add(check: Check) -> Check:
        sentence = (check.__doc__ or "").partition("\n\n")[0].replace("\n    ", " ")
        RULES.append(
            Rule(name=check.__name__, subject=subject, sentence=sentence, kept_by=kept_by, broken_by=check)
        )
        return check

    return add


def moment(seconds: float | None) -> str:
    """Return a time as text."""
    return "never" if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


@rule("job", "store_job")
def job_begins_with_submission(history: History) -> Iterator[Impossible]:
    """The first event of a job is its submission, at the time of its creation."""
    first = history.events[0] if history.events else None
    if first is None:
        yield Impossible(row=history.job, expected="an event of its submission")
    elif (first.before, first.attempt, first.at) != ("", 0, history.job.created_at):
        yield Impossible(row=first, expected=f"the submission at {moment(history.job.created_at)}, attempt 0")


@rule("job", "claim_job", "mark_queued", "start_run", "end_job", "job_moves.move")
def events_are_moves(history: History) -> Iterator[Impossible]:
    """Each event begins with the status after the event before it, and is a move of the state machine or a note."""
    status = ""
    for event in history.events:
        if event.before != status or not is_possible(event):
            yield Impossible(row=event, expected=f"a move from “{status}”, not {event.before} → {event.after}")
        status = event.after


def is_possible(event: EventRow) -> bool:
    """Return whether an event is a move, or says something about a job whose status it does not change.

    Only a pause or a resume does that to a waiting job. A note about an attempt has a reason.
    """
    if event.before == event.after:
        return event.cause in PAUSES if event.after == "queued" else event.after in CLAIMED and bool(event.reason)
    return (event.before, event.after) in MOVES


@rule("job", "claim_job", "job_moves.move")
def paused_job_is_not_claimed(history: History) -> Iterator[Impossible]:
    """Pauses and resumes of a job alternate, and it is not claimed while it is paused."""
    is_paused = False
    for event in history.events:
        if event.cause in PAUSES and is_paused == (event.cause == "paused"):
            yield Impossible(row=event, expected=f"a job that is {'not ' if is_paused else ''}paused")
        elif is_paused and event.is_claim:
            yield Impossible(row=event, expected="a resume before the claim")
        is_paused = event.cause == "paused" if event.cause in PAUSES else is_paused and event.after in WAITING


@rule("job", "end_job", "jobs_job_guard")
def end_is_final(history: History) -> Iterator[Impossible]:
    """A job ends at most once, and nothing happens to it afterwards."""
    for event, _ in pairwise(history.events):
        if event.after in TERMINAL:
            yield Impossible(row=event, expected="no later event of the job")


@rule("job", "claim_job", "mark_queued", "start_run", "end_job", "job_moves.move")
def job_matches_last_event(history: History) -> Iterator[Impossible]:
    """The job has the status and the attempt of its last event."""
    if history.events:
        last = history.events[-1]
        if (last.after, last.attempt) != (history.job.status, history.job.attempt):
            yield Impossible(row=history.job, expected=f"status {last.after} at attempt {last.attempt}")


@rule("job", "end_job")
def end_has_its_time(history: History) -> Iterator[Impossible]:
    """A job has a completion time exactly if it has ended, and it is the time of its last event."""
    ended_at = history.end.at if history.end else None
    if history.job.completed_at != ended_at:
        yield Impossible(row=history.job, expected=f"completed_at {moment(ended_at)}")


@rule("job", "cancellation.cancel", "CANCEL_REQUESTED")
def claimed_job_is_cancelled_on_request(history: History) -> Iterator[Impossible]:
    """A job that a worker has is cancelled only if that was requested before."""
    requested, end = history.job.cancel_requested_at, history.end
    if end is not None and end.before in CLAIMED and end.after == "cancelled" and not before(requested, end.at):
        yield Impossible(row=end, expected="a request to cancel the job before")


@rule("job", "job_moves.requeue", "CANCEL_REQUESTED")
def cancelled_job_is_not_claimed(history: History) -> Iterator[Impossible]:
    """A job is not claimed after a request to cancel it."""
    requested = history.job.cancel_requested_at
    for event in history.claims.values():
        if requested is not None and event.at > requested:
            yield Impossible(row=event, expected=f"no claim after {moment(requested)}")


@rule("event", "claim_job", "mark_queued", "start_run", "end_job", "job_moves.move")
def events_are_in_order(history: History) -> Iterator[Impossible]:
    """The times of events are in the order of their ids, apart from claims and announcements at the same moment."""
    for earlier, later in pairwise(history.events):
        if later.at < earlier.at - SKEW_SECONDS:
            yield Impossible(row=later, expected=f"a time after {moment(earlier.at)}")


@rule("attempt", "claim_job")
def attempts_are_claims(history: History) -> Iterator[Impossible]:
    """A claim begins the next attempt; no other event changes the attempt."""
    attempt = 0
    for event in history.events:
        expected = attempt + event.is_claim
        if event.attempt != expected:
            yield Impossible(row=event, expected=f"attempt {expected}, not {event.attempt}")
        attempt = event.attempt


@rule("attempt", "job_moves.requeue", "job_moves.move")
def returns_have_a_cause(history: History) -> Iterator[Impossible]:
    """An event has a cause exactly if the job returned from a worker to the queue, or was paused or resumed."""
    for event in history.events:
        is_return = event.before in CLAIMED and event.after == "queued"
        is_wait = event.before in WAITING and event.after == "queued"
        possible = RETURN_CAUSES if is_return else ("", *PAUSES) if is_wait else ("",)
        if event.cause not in possible:
            yield Impossible(row=event, expected=f"a cause of {possible}, not “{event.cause}”")


@rule("attempt", "sweep.recover", "sweep.lost_attempts")
def lost_attempts_are_limited(history: History) -> Iterator[Impossible]:
    """After the allowed number of lost attempts, a job ends. Attempts that finished a shard do not count."""
    finished = {run.attempt for run in history.runs if run.wall_ms is not None and history.job.parallel_slots > 1}
    lost = 0
    for event in history.events:
        if event.cause == "lost" and event.attempt not in finished:
            lost += 1
            if lost >= history.terms.max_attempts:
                yield Impossible(row=event, expected=f"the end of the job after {lost} lost attempts")


@rule("lease", "claim_job", "job_lease_iff_held")
def lease_is_held_while_claimed(history: History) -> Iterator[Impossible]:
    """A claimed job has the worker that claimed it and a lease; any other job has neither."""
    job = history.job
    claim = history.claims.get(job.attempt)
    worker = claim.reason.removeprefix("claimed by ") if claim and job.status in CLAIMED else ""
    has_lease = job.lease_expires_at is not None
    if (job.worker, has_lease) != (worker, job.status in CLAIMED):
        yield Impossible(row=job, expected=f"worker “{worker}” and {'a' if worker else 'no'} lease")


@rule("lease", "renew_lease", "sweep.recover_expired_leases")
def lease_lasts(history: History) -> Iterator[Impossible]:
    """A lease expires no earlier than the duration of a lease after the claim."""
    for attempt, event in history.ends.items():
        claim = history.claims.get(attempt)
        if claim is not None and event.reason.endswith(EXPIRED):
            earliest = claim.at + history.terms.lease_seconds
            if event.at < earliest:
                yield Impossible(row=event, expected=f"a lease until {moment(earliest)}")


@rule("run", "start_run")
def runs_belong_to_attempts(history: History) -> Iterator[Impossible]:
    """A run starts after the claim of its attempt and before the attempt is over."""
    for run in history.runs:
        claim, end = history.claims.get(run.attempt), history.ends.get(run.attempt)
        if claim is None or run.started_at < claim.at:
            yield Impossible(row=run, expected=f"a claim of attempt {run.attempt} before {moment(run.started_at)}")
        elif end is not None and run.started_at > end.at:
            yield Impossible(row=run, expected=f"a start before the attempt was over at {moment(end.at)}")


@rule("run", "start_run")
def job_runs_since_its_first_process(history: History) -> Iterator[Impossible]:
    """A job has run since its attempt moved it to running, on a build; one that has not started has no start."""
    job, claim = history.job, history.claims.get(history.job.attempt)
    start = next((event for event in reversed(history.events) if event.after in {"queued", "starting"}), None)
    last = history.events[history.events.index(start) :] if start else []
    started = next((event for event in last if event.before == "starting" and event.after == "running"), None)
    if started is None or claim is None:
        if job.started_at is not None:
            yield Impossible(row=job, expected="no start")
    elif job.started_at is None or not claim.at <= job.started_at <= started.at or job.build_id is None:
        yield Impossible(row=job, expected=f"a build and a start by {moment(started.at)}")


@rule("run", "end_run", "end_shard", "end_lost_runs", "end_job")
def runs_end_with_their_attempt(history: History) -> Iterator[Impossible]:
    """The conductor's runs end at the latest with their attempt, and those of helpers with the job."""
    for run in history.runs:
        over = history.end if run.seat else history.ends.get(run.attempt)
        if over is None:
            continue
        # The runs of a lost attempt are ended right after its event, in the same transaction.
        is_late = run.ended_at is None or (run.wall_ms is not None and run.ended_at > over.at)
        if is_late:
            yield Impossible(row=run, expected=f"an end by {moment(over.at)}")


@rule("run", "end_run", "lost_run")
def lost_runs_have_no_duration(history: History) -> Iterator[Impossible]:
    """A run that has ended has a duration, unless it was lost."""
    for run in history.runs:
        # The sandbox may measure a process that it lost.
        if run.ended_at is not None and run.wall_ms is None and run.stopped_for != "lost":
            yield Impossible(row=run, expected="a duration, or the reason “lost”")


@rule("run", "claim_shard", "return_shard", "start_run")
def one_process_at_a_time(history: History) -> Iterator[Impossible]:
    """The runs of a shard follow one another: each ends before the next one starts, which is a later try."""
    for runs in history.tries.values():
        for earlier, later in pairwise(runs):
            if earlier.ended_at is None or earlier.ended_at > later.started_at:
                yield Impossible(
                    row=earlier, expected=f"an end before run {later.id} at {moment(later.started_at)}"
                )
            elif (earlier.attempt, earlier.try_number) >= (later.attempt, later.try_number):
                yield Impossible(row=later, expected=f"a later try than that of run {earlier.id}")


@rule("run", "claim_shard", "shard_seat_unique")
def seats_are_not_shared(history: History) -> Iterator[Impossible]:
    """Two runs never use the same seat at the same time, and no seat exceeds the job's slots."""
    last: dict[int, RunRow] = {}
    for run in history.runs:
        if not 0 <= run.seat < history.job.parallel_slots:
            yield Impossible(row=run, expected=f"a seat below {history.job.parallel_slots}, not {run.seat}")
        before_it = last.get(run.seat)
        if before_it and (before_it.ended_at is None or before_it.ended_at > run.started_at):
            yield Impossible(row=run, expected=f"seat {run.seat} free of run {before_it.id}")
        last[run.seat] = run


@rule("run", "end_job")
def artifacts_are_of_the_last_attempt(history: History) -> Iterator[Impossible]:
    """The files of a job are those of its last attempt, and it has none before its end."""
    for artifact in history.artifacts:
        if artifact.attempt != history.job.attempt or not history.job.has_ended:
            yield Impossible(row=artifact, expected=f"a file of attempt {history.job.attempt} of an ended job")


@rule("run", "end_job", "stages.Stages", "job_moves.kept_ms")
def time_is_that_of_the_runs(history: History) -> Iterator[Impossible]:
    """The simulator time of a job is the time of the runs that count: the last one of each stage and shard.

    A job without parallel slots counts the runs of its last attempt. The time of a shard is at most its allowance,
    which is not recorded, so a job with shards may have less time than its runs.
    """
    job = history.job
    if job.sim_ms is None:
        return
    own_ms = sum(run.wall_ms or 0 for run in history.runs if run.attempt == job.attempt)
    if job.parallel_slots == 1:
        if own_ms != job.sim_ms:
            yield Impossible(row=job, expected=f"{own_ms} ms of simulator time, not {job.sim_ms}")
        return
    counted = [run for runs in history.tries.values() if (run := last_billed(runs)) is not None]
    most_ms = sum(run.wall_ms or 0 for run in counted)
    own = [run for run in counted if run.attempt == job.attempt]
    long = sum((run.wall_ms or 0) >= history.terms.shortest_allowance_ms for run in own)
    least_ms = sum(run.wall_ms or 0 for run in own) - OVERRUN_MS * long
    if job.sim_ms > most_ms:
        yield Impossible(row=job, expected=f"at most {most_ms} ms of simulator time, not {job.sim_ms}")
    elif job.status == "completed" and job.sim_ms < least_ms:
        yield Impossible(row=job, expected=f"at least {least_ms} ms of simulator time, not {job.sim_ms}")


def last_billed(runs: Sequence[RunRow]) -> RunRow | None:
    """Return the last run that has a duration and was not stopped because another shard failed."""
    return next(
        (run for run in reversed(runs) if run.wall_ms is not None and run.stopped_for != "shard_failed"), None
    )


@rule("shard", "create_stage", "current_job")
def stages_belong_to_attempts(history: History) -> Iterator[Impossible]:
    """A stage in shards belongs to an attempt, and each of its running shards has a seat of its own."""
    for stage in history.stages:
        if stage.attempt not in history.claims:
            yield Impossible(row=stage, expected=f"a claim of attempt {stage.attempt}")
        seats = set()
        for shard in history.shards:
            if shard.stage_id == stage.id and shard.seat is not None:
                if shard.seat in seats or shard.seat >= stage.slots:
                    yield Impossible(row=shard, expected=f"a free seat below {stage.slots}, not {shard.seat}")
                seats.add(shard.seat)


@rule("shard", "claim_shard", "shard_seated_iff_running")
def shards_have_leases_while_running(history: History) -> Iterator[Impossible]:
    """A running shard has a seat, a worker, a lease and an allowance; any other has none."""
    for shard in history.shards:
        held = (
            shard.seat is not None,
            bool(shard.worker),
            shard.lease_expires_at is not None,
            shard.allowance_ms > 0,
        )
        if set(held) != {shard.status == "running"}:
            yield Impossible(row=shard, expected="a seat, a worker, a lease and an allowance exactly while it runs")


@rule("shard", "claim_shard", "renew_shard", "end_shard", "return_shard", "reject_shard", "sharded_stage_is_funded")
def allotted_time_is_that_of_the_shards(history: History) -> Iterator[Impossible]:
    """The allotted time of a stage is that of its ended shards and running allowances, and is funded."""
    for stage in history.stages:
        own = [shard for shard in history.shards if shard.stage_id == stage.id]
        allotted_ms = sum(shard.billed_ms + shard.allowance_ms for shard in own)
        if stage.allotted_ms != allotted_ms or allotted_ms > stage.funded_ms:
            expected = f"{allotted_ms} ms allotted of {stage.funded_ms}, not {stage.allotted_ms}"
            yield Impossible(row=stage, expected=expected)


@rule("shard", "fund_sharded_stage", "Conductor._funded_ms")
def stages_are_funded_by_the_hold(history: History) -> Iterator[Impossible]:
    """A stage of a running job is funded for no more time than the job's hold pays for."""
    job = history.job
    paid_ms = history.held_credits // max(1, job.credits_per_second) * 1000
    for stage in history.stages:
        is_current = job.status in CLAIMED and stage.attempt == job.attempt
        # A stage that is continued keeps the time of its shards, even if a pause made the hold smaller.
        most_ms = max(min(paid_ms, job.ceiling_seconds * 1000), stage.allotted_ms if job.attempt > 1 else 0)
        if is_current and stage.funded_ms > most_ms:
            yield Impossible(row=stage, expected=f"at most {most_ms} ms funded, not {stage.funded_ms}")


@rule("shard", "end_shard", "start_run", "reject_shard")
def shards_match_their_runs(history: History) -> Iterator[Impossible]:
    """An ended shard has an ended run of its try and is billed at most its time; no run has a later try."""
    stages = {stage.id: stage for stage in history.stages}
    for shard in history.shards:
        stage = stages.get(shard.stage_id)
        runs = history.tries.get((stage.stage, shard.number), []) if stage else []
        if runs and runs[-1].attempt == (stage.attempt if stage else 0) and runs[-1].try_number > shard.try_number:
            yield Impossible(
                row=shard, expected=f"try {runs[-1].try_number} or a later one, like run {runs[-1].id}"
            )
        if shard.status not in {"done", "stopped", "failed"}:
            continue
        wall_ms = next((run.wall_ms for run in reversed(runs) if run.try_number == shard.try_number), None)
        if wall_ms is None:
            yield Impossible(row=shard, expected=f"an ended run of try {shard.try_number}")
        elif shard.billed_ms > wall_ms:
            yield Impossible(row=shard, expected=f"a bill of at most {wall_ms} ms, not {shard.billed_ms}")


@rule("hold", "store_job", "holding")
def job_has_a_hold(history: History) -> Iterator[Impossible]:
    """A job has a hold of its account from its submission on."""
    job, hold = history.job, history.hold
    if hold is None:
        yield Impossible(row=job, expected="a hold")
    elif (hold.account_id, hold.created_at) != (job.account_id, job.created_at):
        yield Impossible(row=hold, expected=f"account {job.account_id} and {moment(job.created_at)}")


@rule("hold", "end_job", "settlement")
def hold_is_settled_at_the_end(history: History) -> Iterator[Impossible]:
    """The hold is settled when the job ends, at the same time and for the credits that the job consumed."""
    job, hold = history.job, history.hold
    if hold and (hold.resolved_at, hold.spent) != (job.completed_at, job.credits_consumed):
        yield Impossible(row=hold, expected=f"{job.credits_consumed} credits spent at {moment(job.completed_at)}")


@rule("hold", "taking", "settlement")
def entries_add_up(history: History) -> Iterator[Impossible]:
    """The entries of a job add up to its hold and what was spent of it; after its end, nothing is held."""
    hold = history.hold
    if hold is None:
        return
    taken = sum(entry.credits for entry in history.entries if entry.target == "held")
    spent = sum(entry.credits for entry in history.entries if entry.target == "spent")
    freed = sum(entry.credits for entry in history.entries if entry.source == "held") - spent
    is_open = hold.resolved_at is None
    if spent != (hold.spent or 0):
        yield Impossible(row=hold, expected=f"{spent} credits spent, as in its entries")
    elif taken - spent - freed != (hold.credits if is_open else 0):
        yield Impossible(row=hold, expected=f"{taken - spent - freed} credits still held, as in its entries")


@rule("hold", "extend_hold", "job_moves.extend_hold", "settlement")
def credits_move_with_the_job(history: History) -> Iterator[Impossible]:
    """Credits are held at the submission, by an attempt that has the job, or at a resume, and are spent at the end.

    Those that are not spent return at the end or at a pause.
    """
    end_at = history.end.at if history.end else None
    for entry in history.entries:
        event = last_event_at(history, entry.at)
        if entry.account_id != history.job.account_id:
            yield Impossible(row=entry, expected=f"account {history.job.account_id}")
        elif event is None:
            yield Impossible(row=entry, expected=f"a time after the submission, not {moment(entry.at)}")
        elif entry.target == "held":
            if entry.at != history.job.created_at and event.after not in CLAIMED and event.cause != "resumed":
                yield Impossible(row=entry, expected=f"an attempt that had the job at {moment(entry.at)}")
        elif entry.at != end_at and (entry.target == "spent" or event.cause != "paused"):
            yield Impossible(row=entry, expected=f"the end of the job at {moment(entry.at)}")


def last_event_at(history: History, at: float) -> EventRow | None:
    """Return the last event up to a time."""
    return next((event for event in reversed(history.events) if event.at <= at), None)


@rule("hold", "Budget.charge", "Stages._with_usage", "cancellation.cancel", "job_billed_within_ceiling")
def bill_is_the_price_of_the_time(history: History) -> Iterator[Impossible]:
    """A job costs its simulator time, in whole seconds, and its fee, but at most its hold; without a run, nothing.

    A job that was stopped at its limit costs what it holds.
    """
    job = history.job
    if job.credits_consumed is None:
        return
    if job.sim_ms is None:
        possible = {0}
    else:
        price = min(-(-job.sim_ms // 1000) * job.credits_per_second, history.held_credits)
        possible = {price + job.fee_credits}
        if job.status == "timed_out":
            possible.add(history.held_credits + job.fee_credits)
    if job.credits_consumed not in possible:
        expected = " or ".join(map(str, sorted(possible)))
        yield Impossible(row=job, expected=f"a charge of {expected} credits, not {job.credits_consumed}")


@rule("delivery", "end_job", "inserted_event")
def end_is_reported_once(history: History) -> Iterator[Impossible]:
    """A job that ended has a webhook event from that moment if it asked for one; no other job has one."""
    job, notice = history.job, history.notice
    is_due = job.wants_webhook and job.completed_at is not None
    if notice is None:
        if is_due and not before(job.completed_at, history.terms.notices_kept_since):
            yield Impossible(row=job, expected="a webhook event of its end")
    elif not is_due or notice.created_at != job.completed_at:
        yield Impossible(row=notice, expected=f"an end of job {job.id} at {moment(notice.created_at)}")


@rule("delivery", "end_job", "webhook_events.end_payload")
def notice_tells_the_end(history: History) -> Iterator[Impossible]:
    """A webhook event goes to the job's client and reports the job's id and status."""
    job, notice = history.job, history.notice
    if notice and (notice.client_id, notice.reported_id, notice.reported_status) != (
        job.client_id,
        str(job.id),
        job.status,
    ):
        yield Impossible(row=notice, expected=f"status {job.status} of job {job.id} for client {job.client_id}")


@rule("delivery", "next_due", "claims.start_attempts", "retries.recover_lost")
def one_request_at_a_time(history: History) -> Iterator[Impossible]:
    """A request is made after the one before it has ended, or after its lease if it was lost."""
    for earlier, later in pairwise(history.deliveries):
        if earlier.outcome == "sending":
            yield Impossible(row=earlier, expected=f"an outcome before delivery {later.id}")
            continue
        is_lost = earlier.outcome == "lost"
        seconds = history.terms.delivery_lease_seconds if is_lost else (earlier.duration_ms or 0) / 1000
        if later.started_at < earlier.started_at + seconds - 0.001:
            expected = f"a start after {moment(earlier.started_at + seconds)}, when delivery {earlier.id} ended"
            yield Impossible(row=later, expected=expected)


@rule("delivery", "end_attempts", "move_events", "event_times_fit_state")
def notice_matches_its_last_delivery(history: History) -> Iterator[Impossible]:
    """The state of a webhook event follows from its last delivery, unless it is to be sent again."""
    notice = history.notice
    if notice is None or not history.has_all_deliveries:
        return
    last = history.deliveries[-1].outcome if history.deliveries else ""
    possible = {
        "sending": {"sending"},
        "delivered": {"delivered"},
        "waiting": {"", "failed", "lost", "rejected", "delivered"},
        "failed": {"rejected": {"rejected"}, "exhausted": {"failed"}}.get(
            notice.failure, {"", "failed", "lost", "rejected", "delivered"}
        ),
    }[notice.state]
    if last not in possible:
        yield Impossible(row=notice, expected=f"another state than {notice.state} after “{last}”")


@rule("delivery", "retries.decide", "move_events")
def retries_are_counted(history: History) -> Iterator[Impossible]:
    """A webhook event has no more failures than failed deliveries, and is given up only after the last retry."""
    notice = history.notice
    if notice is None or not history.has_all_deliveries:
        return
    failed = sum(delivery.outcome in {"failed", "rejected"} for delivery in history.deliveries)
    if notice.failures > min(failed, history.terms.most_deliveries):
        yield Impossible(row=notice, expected=f"at most {failed} failures, not {notice.failures}")
    elif notice.failure == "exhausted" and notice.failures != history.terms.most_deliveries:
        yield Impossible(row=notice, expected=f"{history.terms.most_deliveries} failures, not {notice.failures}")


def before(earlier: float | None, later: float) -> bool:
    """Return whether something happened, and not after a time."""
    return earlier is not None and earlier <= later


def broken(history: History) -> Iterator[tuple[Rule, Impossible]]:
    """Yield the rows of a history that break a rule, in the order of the rules."""
    for each in RULES:
        for impossible in each.broken_by(history):
            yield each, impossible
