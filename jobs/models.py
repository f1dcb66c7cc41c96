"""Models of jobs and builds. Only `jobs/lifecycle/job_moves.py` changes the status of a job."""

import uuid
from collections.abc import Sequence
from datetime import UTC

from django.db import models
from django.db.models import CheckConstraint, F, Q, UniqueConstraint
from django.db.models.functions import Coalesce, Now

from billing.models import Account
from clients.models import ApiKey, Client
from jobs.enums import (
    ACTIVE,
    CLAIMED,
    TERMINAL,
    WAITING,
    WITH_RESULT,
    Channel,
    ErrorCode,
    Priority,
    PublicStatus,
    ReturnCause,
    ShardStatus,
    Status,
)
from jobs.fields import OrderedJSONField

CHARACTER_LENGTH = 100
TITLE_LENGTH = 200
# A job whose cap is not reserved in full reserves credits for this many seconds at a time.
SLICE_SECONDS = 60
# The next slice is reserved when less than this is left.
MIN_AHEAD_SECONDS = 15
IS_RUNNING = Q(status=ShardStatus.RUNNING)
# Jobs that a worker may claim: nobody has them, they have not ended, and they are not paused. With a condition on
# the status, PostgreSQL could use other indexes too, and while few jobs wait, it expects each to be as fast.
CLAIMABLE = Q(worker="", completed_at=None, paused_at=None)


class Build(models.Model):
    """A simulator executable that jobs may run on."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    executable = models.CharField(max_length=1024)
    # Paths that the simulator may read in addition to system programs and libraries.
    readable_paths = models.JSONField(default=list)
    repo = models.CharField(max_length=200, blank=True)
    git_branch = models.CharField(max_length=64)
    commit = models.CharField(max_length=64)
    simc_version = models.CharField(max_length=128)
    wow_version = models.CharField(max_length=64, blank=True)
    hotfix_date = models.DateField(null=True, blank=True)
    # The folder of bundled files, the paths of files that simulate alone, and the paths that can be included.
    profiles_path = models.CharField(max_length=1024, blank=True)
    profiles = models.JSONField(default=list)
    includable = models.JSONField(default=list, db_default=[])
    # {"total": int, "failures": [{"name": str, "reason": str}], "checked_at": ISO time}; null if unchecked
    ci = models.JSONField(null=True)
    created_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True, blank=True)
    # Empty unless the service withdrew the build because it cannot run.
    broken_reason = models.CharField(max_length=500, blank=True, default="", db_default="")
    # Why the build cannot write HTML reports; empty if it can, or if that is unknown.
    html_failure = models.CharField("HTML failure", max_length=500, blank=True, default="", db_default="")

    class Meta:
        constraints = [
            UniqueConstraint(fields=["git_branch", "commit"], name="build_commit_unique"),
            CheckConstraint(
                condition=Q(broken_reason="") | Q(withdrawn_at__isnull=False), name="build_broken_is_withdrawn"
            ),
        ]
        indexes = [
            models.Index(
                fields=["git_branch", "-created_at"], condition=Q(withdrawn_at=None), name="build_available"
            )
        ]

    def __str__(self) -> str:
        return f"{self.git_branch}@{self.commit[:12]}"


def is_visible(text: str) -> bool:
    """Return whether a text has visible characters; whitespace and zero-width characters are invisible."""
    return any(character.isprintable() and not character.isspace() for character in text)


def public_status_of(status: str) -> PublicStatus:
    """Return the status that callers see: `starting` is shown as `queued`."""
    return PublicStatus.QUEUED if status == Status.STARTING else PublicStatus(status)


class Job(models.Model):
    """A simulation job. Its profile text is in `JobProfile`."""

    id = models.BigIntegerField(primary_key=True, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    client = models.ForeignKey(Client, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    # Null for a job submitted from the dashboard.
    api_key = models.ForeignKey(ApiKey, null=True, on_delete=models.SET_NULL, related_name="jobs", db_index=False)

    # The request
    priority = models.PositiveSmallIntegerField(choices=Priority)
    channel = models.CharField(max_length=8, choices=Channel)
    git_branch = models.CharField(max_length=64)
    # If the pinned build is unavailable when the job runs, the channel chooses a build.
    pinned_build = models.ForeignKey(
        Build, null=True, on_delete=models.SET_NULL, related_name="pinned_jobs", db_index=False
    )
    multi_stage = models.BooleanField(default=False)
    html = models.BooleanField(default=False)
    csv = models.BooleanField(default=False)
    # Whether the request had game credentials, which are never in the database.
    has_credentials = models.BooleanField(default=False)
    # Whether the client's webhook is notified when the job ends.
    wants_webhook = models.BooleanField(default=False)
    json_version = models.PositiveSmallIntegerField(default=2)
    metadata = OrderedJSONField(default=dict)
    # The first character, empty if it is unknown, and the number of other ones: as in the profile, then, once the
    # job has ended with a report, the name in the report.
    character = models.CharField(max_length=CHARACTER_LENGTH, blank=True, default="", db_default="")
    other_characters = models.PositiveIntegerField(default=0, db_default=0)
    # The title that a member gave the job on its page (`jobs/results/edits.py`), empty if none did.
    given_title = models.CharField(max_length=TITLE_LENGTH, blank=True, default="", db_default="")

    # Limits, copied from the plan at submission so that a changed plan does not affect accepted jobs
    max_credits = models.PositiveBigIntegerField(null=True)
    ceiling_credits = models.PositiveBigIntegerField()
    ceiling_runtime_seconds = models.PositiveIntegerField()
    ceiling_queue_seconds = models.PositiveIntegerField()
    priority_fee_credits = models.PositiveIntegerField(default=0)
    credits_per_second = models.PositiveIntegerField()
    vcpus = models.PositiveSmallIntegerField()
    # Slots that the job's shards may use at a time, including the conductor's.
    parallel_slots = models.PositiveSmallIntegerField(default=1, db_default=1)
    # Days for which files and profile are kept; null for the setting RETENTION_DAYS.
    retention_days = models.PositiveSmallIntegerField(null=True)

    # The current state
    status = models.CharField(max_length=9, choices=Status, default=Status.PENDING)
    attempt = models.PositiveSmallIntegerField(default=0)
    worker = models.CharField(max_length=128, blank=True)
    lease_expires_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    queue_deadline_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    # When the pause of a claimed job was requested, and since when a waiting one is paused
    pause_requested_at = models.DateTimeField(null=True)
    paused_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField()

    # The outcome
    build = models.ForeignKey(Build, null=True, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    error_code = models.CharField(max_length=32, null=True)  # noqa: DJ001 - null means no error
    status_reason = models.CharField(max_length=500, null=True)  # noqa: DJ001
    simulator_exit_code = models.CharField(max_length=16, null=True)  # noqa: DJ001
    sim_duration_ms = models.PositiveBigIntegerField(null=True)
    # Progress at the end; the progress of a running job is in Redis.
    percent = models.FloatField(default=0, db_default=0)
    credits_consumed = models.PositiveBigIntegerField(null=True)
    # How many slots ran simulators in the last attempt; null until the job ends, and if none ran.
    slots_used = models.PositiveSmallIntegerField(null=True)
    summary = models.JSONField(null=True)
    # Warnings of a job without a summary; a summary has its own
    warnings = models.JSONField(default=list, db_default=[])
    # The kind, stage and reason of each requested artifact that could not be stored
    missing_artifacts = models.JSONField(default=list, db_default=[])

    # The W3C `traceparent` of the request that submitted the job, empty without traces
    trace_parent = models.CharField(max_length=55, blank=True, default="", db_default="")
    share_token = models.CharField(max_length=22)
    # Whether the share link shows the profile and the logs, if the account allows it
    shares_inputs = models.BooleanField(default=True, db_default=True)
    # When the files and the profile text were removed at the end of the retention period
    cleared_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            CheckConstraint(condition=Q(status__in=Status.values), name="job_status_known"),
            CheckConstraint(condition=Q(priority__in=Priority.values), name="job_priority_known"),
            CheckConstraint(condition=Q(json_version__in=[2, 3]), name="job_json_version_known"),
            # Not `unique=True`, which would add an index for LIKE
            UniqueConstraint(fields=["share_token"], name="jobs_job_share_token_key"),
            # Starting and running jobs have a worker and a lease; all others have neither.
            CheckConstraint(
                condition=(Q(status__in=CLAIMED) & Q(lease_expires_at__isnull=False) & ~Q(worker=""))
                | (~Q(status__in=CLAIMED) & Q(lease_expires_at=None, worker="")),
                name="job_lease_iff_held",
            ),
            CheckConstraint(condition=~Q(status__in=CLAIMED) | Q(attempt__gte=1), name="job_held_was_claimed"),
            CheckConstraint(condition=~Q(status__in=CLAIMED) | Q(paused_at=None), name="job_paused_waits"),
            CheckConstraint(
                condition=(Q(status__in=TERMINAL) & Q(completed_at__isnull=False, credits_consumed__isnull=False))
                | (~Q(status__in=TERMINAL) & Q(completed_at=None, credits_consumed=None)),
                name="job_ended_iff_terminal",
            ),
            CheckConstraint(
                condition=Q(status=Status.COMPLETED, error_code=None, summary__isnull=False)
                | (Q(status__in=[s for s in TERMINAL if s != Status.COMPLETED]) & Q(error_code__isnull=False))
                | Q(status__in=ACTIVE, error_code=None, summary__isnull=True),
                name="job_error_iff_unsuccessful",
            ),
            # No job is billed more than its ceiling and its fee.
            CheckConstraint(
                condition=Q(credits_consumed=None)
                | Q(credits_consumed__lte=F("ceiling_credits") + F("priority_fee_credits")),
                name="job_billed_within_ceiling",
            ),
        ]
        # Each of the five changes of a job's status adds an entry to every index that contains the row.
        indexes = [
            # Claims, and the forecast, which reads nothing but this index
            models.Index(fields=["priority", "id"], include=["vcpus"], condition=CLAIMABLE, name="job_claimable"),
            # Whether an attempt returned a job to the queue, so that claims must search from the start of a lane
            models.Index(fields=["id"], condition=CLAIMABLE & Q(attempt__gt=0), name="job_returned"),
            models.Index(fields=["queue_deadline_at"], condition=Q(status__in=WAITING), name="job_deadline"),
            models.Index(fields=["id"], condition=Q(status=Status.PENDING), name="job_unannounced"),
            # Claimed jobs; without the lease, because each renewal would then update the index
            models.Index(fields=["id"], condition=Q(status__in=CLAIMED), name="job_held"),
            # The limit and the header of active jobs
            models.Index(fields=["account"], condition=Q(status__in=ACTIVE), name="job_active"),
            models.Index(fields=["account", "-id"], name="job_by_account"),
            # Ended jobs whose files are not removed yet, oldest first for each period of retention
            models.Index(
                fields=["retention_days", "created_at"],
                condition=Q(cleared_at=None, status__in=TERMINAL),
                name="job_to_expire",
            ),
            # Filters of an account's jobs; a client belongs to one account, a build to none
            models.Index(fields=["account", "status", "-id"], name="job_by_status"),
            models.Index(fields=["client", "-id"], name="job_by_client"),
            models.Index(fields=["build", "account", "-id"], condition=Q(build__isnull=False), name="job_on_build"),
            models.Index(fields=["pinned_build"], condition=Q(pinned_build__isnull=False), name="job_by_pin"),
            # The latest multistage jobs, from which the progress of others is estimated
            models.Index(fields=["-id"], condition=Q(multi_stage=True, status=Status.COMPLETED), name="job_staged"),
            # The history of an account's characters
            models.Index(
                fields=["account", "character", "-id"],
                condition=Q(status=Status.COMPLETED) & ~Q(character=""),
                name="job_by_character",
            ),
            # The last hour in the operators' console; includes all that its figures read. The indexes of its search
            # are in `jobs/migrations/0003_console_indexes.py`.
            models.Index(
                fields=["completed_at"],
                include=["error_code", "account", "build", "created_at", "started_at", "credits_consumed"],
                condition=Q(completed_at__isnull=False),
                name="job_ended",
            ),
        ]

    def __str__(self) -> str:
        return str(self.pk)

    @property
    def title(self) -> str:
        """Return the title on account pages: a given one, the one in the metadata, or the public title."""
        title = self.metadata.get("title", "").strip()
        return title if not self.given_title and is_visible(title) else self.public_title

    @property
    def public_title(self) -> str:
        """Return the title on public pages: a given one, the characters, or the time of submission (UTC)."""
        return self.given_title or self.characters or f"Job from {self.created_at:%-d %b, %H:%M}"

    @property
    def characters(self) -> str:
        """Return the names of the characters, empty if the profile names none."""
        if not is_visible(self.character):
            return ""
        others = f" and {self.other_characters:,} more" if self.other_characters else ""
        return f"{self.character}{others}"

    @property
    def retried(self) -> bool:
        """Return whether the job returned from a worker to the queue: `docs/reference/api.md#automatic-retries`."""
        return self.attempt > 1 or (self.attempt == 1 and self.status in WAITING)

    @property
    def fee_credits(self) -> int:
        """Return the reserved fee, for an ended job the charged one: `docs/reference/limits.md#priority-fee`."""
        return 0 if self.credits_consumed == 0 else self.priority_fee_credits

    @property
    def public_status(self) -> PublicStatus:
        """Return the status that callers see."""
        return public_status_of(self.status)

    @property
    def log_ids(self) -> dict[str, int]:
        """Return the ids in log lines about this attempt at the job."""
        return {"job_id": self.pk, "attempt": self.attempt, "account_id": self.account_id}

    @property
    def is_waiting(self) -> bool:
        """Return whether callers see the job as waiting."""
        return self.public_status in (PublicStatus.PENDING, PublicStatus.QUEUED)

    @property
    def is_paused(self) -> bool:
        """Return whether the job waits until it is resumed."""
        return self.paused_at is not None and self.status == Status.QUEUED

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def shows_inputs(self) -> bool:
        """Return whether share links show the profile and the logs: if the account and the job share them."""
        return self.shares_inputs and self.account.shares_inputs

    @property
    def has_result(self) -> bool:
        """Return whether the summary is a full or partial result; that of another failed job is not."""
        if self.error_code == ErrorCode.EXECUTION_FAILED:
            # A run that ended early by itself
            return self.is_partial
        return self.status in WITH_RESULT or self.error_code == ErrorCode.INSUFFICIENT_CREDITS

    @property
    def is_partial(self) -> bool:
        """Return whether the summary has only a part of what was asked for."""
        # Lists read this flag instead of the summary.
        flags = vars(self) if "partial" in vars(self) else self.summary
        return bool((flags or {}).get("partial"))

    @property
    def listed_warnings(self) -> Sequence[str]:
        """Return the warnings about the job's run."""
        found: Sequence[str] = (self.summary or {}).get("warnings") or self.warnings
        return found


class JobProfile(models.Model):
    """The profile text of a job, exactly as submitted."""

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="profile")
    text = models.TextField()

    def __str__(self) -> str:
        return f"profile of {self.job_id}"


class MetadataEntry(models.Model):
    """An entry of a job's metadata, from which lists find the job (`jobs/results/listing.py`).

    A trigger on jobs writes it. `digest` is computed by the function `jobs_metadata_digest` of the database
    (`jobs/migrations/0002_triggers_and_vacuum.py`). It is deleted at the end of the retention period.
    """

    pk = models.CompositePrimaryKey("account_id", "digest", "job_id")
    # Not checked by the database, because the trigger copies both from the job.
    account = models.ForeignKey(
        Account, on_delete=models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False
    )
    digest = models.UUIDField()
    job = models.ForeignKey(Job, on_delete=models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)

    def __str__(self) -> str:
        return f"metadata of {self.job_id}"


class JobDetails(models.Model):
    """The details of a job's report, as compressed JSON (`jobs/results/details.py`). Written when the job ends."""

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="details")
    version = models.PositiveSmallIntegerField()
    document = models.BinaryField()

    def __str__(self) -> str:
        return f"details of {self.job_id}"


class JobRanking(models.Model):
    """All profilesets of a job, if its summary lists only some, as compressed JSON (`jobs/results/rankings.py`)."""

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="ranking")
    document = models.BinaryField()

    def __str__(self) -> str:
        return f"ranking of {self.job_id}"


class ShardedStage(models.Model):
    """A stage that is split into shards, which several slots can run. Deleted after the job's end.

    It belongs to the job. After a lost attempt, the next one adopts it with its finished shards. `funded_ms` is the
    simulator time that the job's hold pays for in this stage. `allotted_ms` is the time of ended shards and the
    allowances of running ones.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="sharded_stages", db_index=False)
    # The attempt that conducts it now, and the one that created it; null if a version before adoption did.
    attempt = models.PositiveSmallIntegerField()
    created_by_attempt = models.SmallIntegerField(null=True)
    stage = models.PositiveSmallIntegerField()
    build = models.ForeignKey(Build, on_delete=models.CASCADE, related_name="+", db_index=False)
    # A machine whose file differs leaves the shards to others.
    executable_sha256 = models.CharField(max_length=64)
    priority = models.PositiveSmallIntegerField()
    slots = models.PositiveSmallIntegerField()
    # The profile without its profilesets, the base of every shard but the first.
    base_text = models.TextField()
    # The stage's `iterations` and `target_error`, as lines, for a shard with `full_baseline`.
    numbers = models.CharField(max_length=100)
    funded_ms = models.PositiveBigIntegerField()
    allotted_ms = models.PositiveBigIntegerField(default=0)
    # The allowance of a shard at its start. Each renewal of its lease extends it until as much is left again.
    slice_ms = models.PositiveIntegerField()
    # Why running shards must stop; empty if they may continue.
    stop_reason = models.CharField(max_length=32, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["job", "attempt", "stage"], name="sharded_stage_unique"),
            # The shards never use more time than the job's hold pays for.
            CheckConstraint(condition=Q(allotted_ms__lte=F("funded_ms")), name="sharded_stage_is_funded"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id}#{self.attempt}.{self.stage}"

    @property
    def creator(self) -> int:
        """The attempt that created the stage. Names of its files and Redis keys contain it."""
        return self.created_by_attempt or self.attempt


class Shard(models.Model):
    """A part of a sharded stage: some profilesets, run by one simulator process at a time.

    Shard 0 is the whole profile, with one iteration for each profileset. `try_number` counts the starts, and fences
    all writes of the process that runs the shard.
    """

    stage = models.ForeignKey(ShardedStage, on_delete=models.CASCADE, related_name="shards", db_index=False)
    number = models.PositiveSmallIntegerField()
    # Its profilesets, as lines to append to the base; empty for shard 0, which only the conductor runs.
    text = models.TextField()
    profilesets = models.PositiveIntegerField()
    # Whether the baseline runs with the stage's numbers, which the profilesets inherit, instead of one iteration.
    full_baseline = models.BooleanField(default=False)
    status = models.CharField(max_length=7, choices=ShardStatus, default=ShardStatus.WAITING)
    try_number = models.PositiveSmallIntegerField(default=0)
    losses = models.PositiveSmallIntegerField(default=0)
    # While it runs: its slot among the job's (0 is the conductor's), its lease, and the time that it may use.
    seat = models.PositiveSmallIntegerField(null=True)
    worker = models.CharField(max_length=128, blank=True)
    lease_expires_at = models.DateTimeField(null=True)
    allowance_ms = models.PositiveBigIntegerField(default=0)
    # The time that is billed for the try that counts, once it has ended.
    billed_ms = models.PositiveBigIntegerField(default=0)
    # How the try ended (`jobs.execution.shard_files.ShardResult`), once it has ended.
    result = models.JSONField(null=True)

    class Meta:
        constraints = [
            UniqueConstraint(fields=["stage", "number"], name="shard_unique"),
            UniqueConstraint(fields=["stage", "seat"], condition=IS_RUNNING, name="shard_seat_unique"),
            CheckConstraint(condition=Q(status__in=ShardStatus.values), name="shard_status_known"),
            # Running shards have a seat, a worker, a lease and an allowance; all others have none.
            CheckConstraint(
                condition=(
                    IS_RUNNING
                    & Q(seat__isnull=False, lease_expires_at__isnull=False, allowance_ms__gt=0)
                    & ~Q(worker="")
                )
                | (~IS_RUNNING & Q(seat=None, lease_expires_at=None, allowance_ms=0, worker="")),
                name="shard_seated_iff_running",
            ),
            CheckConstraint(
                condition=Q(status__in=[ShardStatus.WAITING, ShardStatus.RUNNING], result=None, billed_ms=0)
                | Q(status__in=[ShardStatus.DONE, ShardStatus.STOPPED, ShardStatus.FAILED], result__isnull=False),
                name="shard_result_iff_ended",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.stage_id}.{self.number}"


class Run(models.Model):
    """One simulator process: a stage and shard of an attempt, and the try of that shard."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="runs")
    attempt = models.PositiveSmallIntegerField()
    stage = models.PositiveSmallIntegerField(default=1)
    shard = models.PositiveSmallIntegerField(default=0)
    try_number = models.PositiveSmallIntegerField(default=1, db_default=1)
    # The number of the slot among those of the job; 0 is the slot that claimed the job.
    seat = models.PositiveSmallIntegerField(default=0, db_default=0)
    build = models.ForeignKey(Build, on_delete=models.PROTECT, related_name="runs")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    # Null while the process runs, and if it was lost.
    wall_ms = models.PositiveBigIntegerField(null=True)
    cpu_ms = models.PositiveBigIntegerField(null=True)
    peak_memory_bytes = models.PositiveBigIntegerField(null=True)
    exit_code = models.CharField(max_length=16, null=True)  # noqa: DJ001 - null while the process runs
    stopped_for = models.CharField(max_length=32, blank=True)
    sandbox_layers = models.JSONField(default=list)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job", "attempt", "stage", "shard", "try_number"], name="run_try_unique"
            ),
            models.CheckConstraint(
                condition=Q(wall_ms=None) | Q(ended_at__isnull=False), name="run_with_duration_has_ended"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_id}#{self.attempt}.{self.stage}.{self.shard}"


class JobEvent(models.Model):
    """A change of a job's status, written in the transaction of the change and never updated."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events", db_index=False)
    at = models.DateTimeField()
    from_status = models.CharField(max_length=9, blank=True)
    to_status = models.CharField(max_length=9, choices=Status)
    attempt = models.PositiveSmallIntegerField()
    reason = models.CharField(max_length=500, blank=True)
    # If the job returned to the queue, why its attempt ended; or that the job was paused or resumed
    cause = models.CharField(max_length=8, choices=ReturnCause, blank=True, default="", db_default="")

    class Meta:
        indexes = [models.Index(fields=["job", "id"], name="event_by_job")]

    def __str__(self) -> str:
        return f"{self.job_id}: {self.from_status or '-'} → {self.to_status}"

    @property
    def is_return(self) -> bool:
        """Return whether the job returned from a worker to the queue."""
        return self.to_status == Status.QUEUED and self.from_status in CLAIMED


class Artifact(models.Model):
    """A file that a job produced. `bytes` and `sha256` are those of the uncompressed content."""

    class Kind(models.TextChoices):
        JSON_REPORT = "json_report"
        HTML_REPORT = "html_report"
        CSV_REPORT = "csv_report"
        INPUT = "input"
        STDOUT_LOG = "stdout_log"
        STDERR_LOG = "stderr_log"

    # The profile and the logs, which share links list only if the job shows its inputs.
    PRIVATE_KINDS = (Kind.INPUT, Kind.STDOUT_LOG, Kind.STDERR_LOG)

    id = models.BigIntegerField(primary_key=True, editable=False)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="artifacts")
    attempt = models.PositiveSmallIntegerField()
    stage = models.PositiveSmallIntegerField(null=True)
    kind = models.CharField(max_length=16, choices=Kind)
    mime_type = models.CharField(max_length=64)
    token = models.CharField(max_length=22, unique=True)
    storage_name = models.CharField(max_length=255, unique=True)
    bytes = models.PositiveBigIntegerField()
    sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job", "attempt", "kind", "stage"], name="artifact_unique", nulls_distinct=False
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.job_id}"


class StoredBytes(models.Model):
    """Bytes of an account's artifacts, counted when jobs end (`jobs/artifacts/storage.py`)."""

    account = models.OneToOneField(
        Account, primary_key=True, on_delete=models.CASCADE, related_name="+", editable=False
    )
    bytes = models.PositiveBigIntegerField(default=0)

    class Meta:
        verbose_name_plural = "stored bytes"

    def __str__(self) -> str:
        return f"{self.bytes} of {self.account_id}"


class DailyUsage(models.Model):
    """Usage of an account's jobs that ended on one day (UTC), by client and build."""

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="+", db_index=False)
    client = models.ForeignKey(Client, on_delete=models.CASCADE, related_name="+", db_index=False)
    # Null for jobs that ended before a build was chosen.
    build = models.ForeignKey(Build, null=True, on_delete=models.SET_NULL, related_name="+")
    day = models.DateField()
    jobs = models.PositiveIntegerField()
    # Jobs for which a simulator ran
    runs = models.PositiveIntegerField()
    sim_ms = models.PositiveBigIntegerField()
    credits = models.PositiveBigIntegerField()

    class Meta:
        constraints = [
            # The order of the fields is that in which days are read.
            models.UniqueConstraint(
                fields=["account", "day", "client", "build"], name="daily_usage_unique", nulls_distinct=False
            ),
        ]

    def __str__(self) -> str:
        return f"{self.account_id} on {self.day}"


class Closure(models.Model):
    """A paused lane or a drained machine (`jobs/queue/closures.py`). Ended rows stay as the history."""

    # One of the two; the machine by its host name
    lane = models.PositiveSmallIntegerField(choices=Priority, null=True)
    host = models.CharField(max_length=253, blank=True)
    reason = models.CharField(max_length=200, blank=True)
    began_at = models.DateTimeField(db_default=Now())
    # Name of the operator at that time
    began_by = models.CharField(max_length=300)
    ended_at = models.DateTimeField(null=True)
    ended_by = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [
            CheckConstraint(
                condition=Q(lane__in=Priority.values, host="") | (Q(lane=None) & ~Q(host="")),
                name="closure_of_lane_or_machine",
            ),
            # Also the index by which claims and the sweep find what has not ended
            UniqueConstraint(Coalesce("lane", -1), "host", condition=Q(ended_at=None), name="closure_one_current"),
        ]

    def __str__(self) -> str:
        return f"machine {self.host}" if self.host else f"lane {Priority(self.lane or 0).api_name}"

    @property
    def description(self) -> str:
        """Return the state, its start, the operator and the reason in one line."""
        state = "drained" if self.host else "paused"
        reason = f": {self.reason}" if self.reason else ""
        return f"{state} since {self.began_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC by {self.began_by}{reason}"


class IdempotencyKey(models.Model):
    """An idempotency key and the response to its submission: `docs/reference/api.md#idempotency-keys`."""

    api_key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="idempotency_keys")
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="idempotency_key")
    response = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["api_key", "key"], name="idempotency_key_unique")]

    def __str__(self) -> str:
        return f"{self.api_key}: {self.key}"
