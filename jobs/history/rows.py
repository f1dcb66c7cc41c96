"""The recorded rows of a job, as the rules read them. Times are Unix seconds of the database's clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

WAITING = frozenset({"pending", "queued"})
CLAIMED = frozenset({"starting", "running"})
TERMINAL = frozenset({"completed", "failed", "cancelled", "timed_out"})


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row with its id. `table` is the table that contains it."""

    table: ClassVar[str]
    id: int


@dataclass(frozen=True, kw_only=True)
class JobRow(Row):
    """A job, without its request and its result."""

    table = "jobs_job"
    account_id: int
    client_id: int
    priority: int
    git_branch: str
    status: str
    attempt: int
    worker: str
    lease_expires_at: float | None
    created_at: float
    started_at: float | None
    completed_at: float | None
    cancel_requested_at: float | None
    queue_seconds: int
    ceiling_credits: int
    ceiling_seconds: int
    fee_credits: int
    credits_per_second: int
    parallel_slots: int
    wants_webhook: bool
    build_id: str | None
    error_code: str | None
    sim_ms: int | None
    credits_consumed: int | None

    @property
    def has_ended(self) -> bool:
        return self.status in TERMINAL


@dataclass(frozen=True, kw_only=True)
class EventRow(Row):
    """A change of a job's status."""

    table = "jobs_jobevent"
    at: float
    before: str
    after: str
    attempt: int
    reason: str
    cause: str

    @property
    def is_claim(self) -> bool:
        return self.after == "starting" != self.before


@dataclass(frozen=True, kw_only=True)
class RunRow(Row):
    """A simulator process. `wall_ms` is None while it runs, and if it was lost."""

    table = "jobs_run"
    attempt: int
    stage: int
    shard: int
    try_number: int
    seat: int
    build_id: str
    started_at: float
    ended_at: float | None
    wall_ms: int | None
    stopped_for: str


@dataclass(frozen=True, kw_only=True)
class StageRow(Row):
    """A stage in shards, which exists until its job no longer needs it."""

    table = "jobs_shardedstage"
    attempt: int
    stage: int
    slots: int
    funded_ms: int
    allotted_ms: int


@dataclass(frozen=True, kw_only=True)
class ShardRow(Row):
    """A shard of a stage."""

    table = "jobs_shard"
    stage_id: int
    number: int
    status: str
    try_number: int
    seat: int | None
    worker: str
    lease_expires_at: float | None
    allowance_ms: int
    billed_ms: int


@dataclass(frozen=True, kw_only=True)
class HoldRow(Row):
    """The credits held for a job. Its id is that of the job."""

    table = "billing_hold"
    account_id: int
    credits: int
    spent: int | None
    created_at: float
    resolved_at: float | None


@dataclass(frozen=True, kw_only=True)
class EntryRow(Row):
    """A move of a job's credits from one pocket to another."""

    table = "billing_entry"
    account_id: int
    at: float
    source: str
    target: str
    credits: int


@dataclass(frozen=True, kw_only=True)
class ArtifactRow(Row):
    """A stored file of a job."""

    table = "jobs_artifact"
    attempt: int


@dataclass(frozen=True, kw_only=True)
class NoticeRow(Row):
    """A webhook event that reports the end of a job. `reported_id` and `reported_status` are those in its body."""

    table = "webhooks_event"
    client_id: int
    created_at: float
    state: str
    failure: str
    failures: int
    reported_id: str
    reported_status: str


@dataclass(frozen=True, kw_only=True)
class DeliveryRow(Row):
    """An attempt to deliver a webhook event."""

    table = "webhooks_delivery"
    outcome: str
    started_at: float
    duration_ms: int | None


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the rules need to know about the service: its settings, and when it deletes webhook events.

    `notices_kept_since` is a Unix time. Webhook events of jobs that ended before it may be deleted. A shard gets at
    least `shortest_allowance_ms` at its start, unless the job has less left.
    """

    lease_seconds: float
    delivery_lease_seconds: float
    max_attempts: int
    most_deliveries: int
    notices_kept_since: float
    shortest_allowance_ms: int


@dataclass(frozen=True, kw_only=True)
class History:
    """Everything recorded about one job. Rows are in the order of their ids, which is the order of writing.

    `deliveries` are the first ones if `has_all_deliveries` is false.
    """

    terms: Terms
    job: JobRow
    events: Sequence[EventRow]
    runs: Sequence[RunRow]
    stages: Sequence[StageRow]
    shards: Sequence[ShardRow]
    hold: HoldRow | None
    entries: Sequence[EntryRow]
    artifacts: Sequence[ArtifactRow]
    notice: NoticeRow | None
    deliveries: Sequence[DeliveryRow]
    has_all_deliveries: bool = True

    @cached_property
    def claims(self) -> dict[int, EventRow]:
        """Return the claims of the job, by attempt."""
        return {event.attempt: event for event in self.events if event.is_claim}

    @cached_property
    def ends(self) -> dict[int, EventRow]:
        """Return the events that ended attempts, by attempt."""
        return {
            event.attempt: event for event in self.events if event.before in CLAIMED and event.after not in CLAIMED
        }

    @cached_property
    def end(self) -> EventRow | None:
        """Return the event that ended the job."""
        return next((event for event in self.events if event.after in TERMINAL), None)

    @cached_property
    def held_credits(self) -> int:
        """Return the credits that the job can spend on simulator time."""
        held = self.hold.credits if self.hold else 0
        return min(held - self.job.fee_credits, self.job.ceiling_credits)

    @cached_property
    def tries(self) -> dict[tuple[int, int], list[RunRow]]:
        """Return the runs of each stage and shard, in order."""
        found: dict[tuple[int, int], list[RunRow]] = {}
        for run in self.runs:
            found.setdefault((run.stage, run.shard), []).append(run)
        return found
