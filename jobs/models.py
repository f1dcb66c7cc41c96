"""Builds, jobs and all that belongs to a job. A job's status moves only through `jobs/lifecycle.py`."""

import uuid

from django.db import models
from django.db.models import F, Q

from billing.models import Account
from clients.models import ApiKey, Client
from jobs.enums import (
    ACTIVE,
    HELD,
    TERMINAL,
    WAITING,
    WITH_RESULT,
    Channel,
    ErrorCode,
    Priority,
    PublicStatus,
    Status,
)
from jobs.fields import OrderedJSONField

CHARACTER_LENGTH = 100
# A job without a cap reserves credits for this many seconds at a time.
SLICE_SECONDS = 60


class Build(models.Model):
    """A simulator executable that jobs may run on."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    executable = models.CharField(max_length=1024)
    # What the simulator may read beside the system's own programs and libraries.
    readable_paths = models.JSONField(default=list)
    repo = models.CharField(max_length=200, blank=True)
    git_branch = models.CharField(max_length=64)
    commit = models.CharField(max_length=64)
    simc_version = models.CharField(max_length=128)
    wow_version = models.CharField(max_length=64, blank=True)
    hotfix_date = models.DateField(null=True, blank=True)
    # The folder of bundled files; the paths of those that simulate alone, and of those that can be included.
    profiles_path = models.CharField(max_length=1024, blank=True)
    profiles = models.JSONField(default=list)
    includable = models.JSONField(default=list, db_default=[])
    # {"total": int, "failures": [{"name": str, "reason": str}], "checked_at": ISO time}; null if none were checked
    ci = models.JSONField(null=True)
    created_at = models.DateTimeField()
    # The reason is empty if an operator or the retention withdrew it.
    withdrawn_at = models.DateTimeField(null=True, blank=True)
    broken_reason = models.CharField(max_length=500, blank=True, default="", db_default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["git_branch", "commit"], name="build_commit_unique"),
            models.CheckConstraint(
                condition=Q(broken_reason="") | Q(withdrawn_at__isnull=False), name="build_broken_is_withdrawn"
            ),
        ]
        indexes = [
            models.Index(
                fields=["git_branch", "-created_at"], condition=Q(withdrawn_at=None), name="build_available"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.git_branch}@{self.commit[:12]}"


def is_visible(text: str) -> bool:
    """Return whether a text has visible characters; blanks and zero-width characters are invisible."""
    return any(character.isprintable() and not character.isspace() for character in text)


class Job(models.Model):
    """One simulation job, from its acceptance to its end. The profile's text is a row of its own."""

    id = models.BigIntegerField(primary_key=True, editable=False)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    client = models.ForeignKey(Client, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    # None for a job that was submitted from a page.
    api_key = models.ForeignKey(ApiKey, null=True, on_delete=models.SET_NULL, related_name="jobs")

    # What was asked for
    priority = models.PositiveSmallIntegerField(choices=Priority)
    channel = models.CharField(max_length=8, choices=Channel)
    git_branch = models.CharField(max_length=64)
    # A pinned build that is gone by the time the job runs leaves the channel to decide.
    pinned_build = models.ForeignKey(
        Build, null=True, on_delete=models.SET_NULL, related_name="pinned_jobs", db_index=False
    )
    multi_stage = models.BooleanField(default=False)
    html = models.BooleanField(default=False)
    csv = models.BooleanField(default=False)
    # Whether game credentials came along; they themselves are never in the database.
    has_credentials = models.BooleanField(default=False)
    # Whether its end is told to the client's webhook.
    wants_webhook = models.BooleanField(default=False)
    json_version = models.PositiveSmallIntegerField(default=2)
    metadata = OrderedJSONField(default=dict)
    # The profile's first character, empty if the text names none, and the number of others.
    character = models.CharField(max_length=CHARACTER_LENGTH, blank=True, default="", db_default="")
    other_characters = models.PositiveIntegerField(default=0, db_default=0)

    # What it may use: frozen at submission, so that a changed plan changes no accepted job
    max_credits = models.PositiveBigIntegerField(null=True)
    ceiling_credits = models.PositiveBigIntegerField()
    ceiling_runtime_seconds = models.PositiveIntegerField()
    ceiling_queue_seconds = models.PositiveIntegerField()
    priority_fee_credits = models.PositiveIntegerField(default=0)
    credits_per_second = models.PositiveIntegerField()
    vcpus = models.PositiveSmallIntegerField()

    # Where it is
    status = models.CharField(max_length=9, choices=Status, default=Status.PENDING)
    attempt = models.PositiveSmallIntegerField(default=0)
    worker = models.CharField(max_length=128, blank=True)
    lease_expires_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    queue_deadline_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField()

    # How it ended
    build = models.ForeignKey(Build, null=True, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    error_code = models.CharField(max_length=32, null=True)  # noqa: DJ001 - null means no error
    status_reason = models.CharField(max_length=500, null=True)  # noqa: DJ001
    simulator_exit_code = models.CharField(max_length=16, null=True)  # noqa: DJ001
    sim_duration_ms = models.PositiveBigIntegerField(null=True)
    # Its progress when it ended; while it runs, its progress is in Redis.
    percent = models.FloatField(default=0, db_default=0)
    credits_consumed = models.PositiveBigIntegerField(null=True)
    summary = models.JSONField(null=True)
    # Requested artifacts that could not be stored: kind, stage and reason of each
    missing_artifacts = models.JSONField(default=list, db_default=[])

    share_token = models.CharField(max_length=22, unique=True)
    # When the files and the profile's text were removed, after the retention
    cleared_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(status__in=Status.values), name="job_status_known"),
            models.CheckConstraint(condition=Q(priority__in=Priority.values), name="job_priority_known"),
            models.CheckConstraint(condition=Q(json_version__in=[2, 3]), name="job_json_version_known"),
            # A worker holds a job exactly while it is starting or running.
            models.CheckConstraint(
                condition=(Q(status__in=HELD) & Q(lease_expires_at__isnull=False) & ~Q(worker=""))
                | (~Q(status__in=HELD) & Q(lease_expires_at=None, worker="")),
                name="job_lease_iff_held",
            ),
            models.CheckConstraint(condition=~Q(status__in=HELD) | Q(attempt__gte=1), name="job_held_was_claimed"),
            models.CheckConstraint(
                condition=(Q(status__in=TERMINAL) & Q(completed_at__isnull=False, credits_consumed__isnull=False))
                | (~Q(status__in=TERMINAL) & Q(completed_at=None, credits_consumed=None)),
                name="job_ended_iff_terminal",
            ),
            models.CheckConstraint(
                condition=Q(status=Status.COMPLETED, error_code=None, summary__isnull=False)
                | (Q(status__in=[s for s in TERMINAL if s != Status.COMPLETED]) & Q(error_code__isnull=False))
                | Q(status__in=ACTIVE, error_code=None, summary__isnull=True),
                name="job_error_iff_unsuccessful",
            ),
            # A job never bills more than its ceiling and its fee.
            models.CheckConstraint(
                condition=Q(credits_consumed=None)
                | Q(credits_consumed__lte=F("ceiling_credits") + F("priority_fee_credits")),
                name="job_billed_within_ceiling",
            ),
        ]
        indexes = [
            # The claim; and the forecast, which reads all of it and nothing else.
            models.Index(
                fields=["priority", "id"],
                include=["vcpus"],
                condition=Q(status__in=WAITING),
                name="job_waiting",
            ),
            # Overdue waits.
            models.Index(fields=["queue_deadline_at"], condition=Q(status__in=WAITING), name="job_deadline"),
            # What the sweep still has to announce.
            models.Index(fields=["id"], condition=Q(status=Status.PENDING), name="job_unannounced"),
            # Held jobs are few; leases are renewed often, so the lease itself stays out of every index.
            models.Index(fields=["id"], condition=Q(status__in=HELD), name="job_held"),
            # The active-job ceiling and header.
            models.Index(fields=["account"], condition=Q(status__in=ACTIVE), name="job_active"),
            # An account's jobs, newest first.
            models.Index(fields=["account", "-id"], name="job_by_account"),
            # What the retention has not removed yet, oldest first.
            models.Index(fields=["created_at"], condition=Q(cleared_at=None), name="job_uncleared"),
            # The same by what a list is narrowed to. A client has one account; a build, those of all who used it.
            models.Index(fields=["account", "status", "-id"], name="job_by_status"),
            models.Index(fields=["client", "-id"], name="job_by_client"),
            models.Index(fields=["build", "account", "-id"], name="job_by_build"),
            # Which builds are still wanted.
            models.Index(fields=["pinned_build"], condition=Q(pinned_build__isnull=False), name="job_by_pin"),
            # The last jobs in stages, from which the progress of later ones is estimated.
            models.Index(fields=["-id"], condition=Q(multi_stage=True, status=Status.COMPLETED), name="job_staged"),
        ]

    def __str__(self) -> str:
        return str(self.pk)

    @property
    def title(self) -> str:
        """Return the title on the account's pages: the one in the metadata, else the public title."""
        title = self.metadata.get("title", "").strip()
        return title if is_visible(title) else self.public_title

    @property
    def public_title(self) -> str:
        """Return the title on public pages: the job's characters, else the time of its submission (UTC)."""
        return self.characters or f"Job from {self.created_at:%-d %b, %H:%M}"

    @property
    def characters(self) -> str:
        """Return the job's characters, an empty text if the profile names none."""
        if not is_visible(self.character):
            return ""
        others = f" and {self.other_characters:,} more" if self.other_characters else ""
        return f"{self.character}{others}"

    @property
    def retried(self) -> bool:
        """Whether at least one attempt was lost: `docs/reference/contract.md#automatic-retries`."""
        return self.attempt > 1 or (self.attempt == 1 and self.status in WAITING)

    @property
    def fee_credits(self) -> int:
        """Return the reserved fee, or after the end the charged fee: `docs/reference/contract.md#priority-fee`."""
        return 0 if self.credits_consumed == 0 else self.priority_fee_credits

    @property
    def public_status(self) -> PublicStatus:
        """Return the status that callers see: `starting` is shown as `queued`."""
        return PublicStatus.QUEUED if self.status == Status.STARTING else PublicStatus(self.status)

    @property
    def is_waiting(self) -> bool:
        """Return whether callers see the job as waiting."""
        return self.public_status in (PublicStatus.PENDING, PublicStatus.QUEUED)

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def has_result(self) -> bool:
        """Return whether the summary is a full or partial result; that of a failed run is not."""
        return self.status in WITH_RESULT or self.error_code == ErrorCode.INSUFFICIENT_CREDITS


class JobProfile(models.Model):
    """The profile text of a job, exactly as it was submitted."""

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="profile")
    text = models.TextField()

    def __str__(self) -> str:
        return f"profile of {self.job_id}"


class Run(models.Model):
    """One simulator process: an attempt's stage and shard."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="runs")
    attempt = models.PositiveSmallIntegerField()
    stage = models.PositiveSmallIntegerField(default=1)
    shard = models.PositiveSmallIntegerField(default=0)
    build = models.ForeignKey(Build, on_delete=models.PROTECT, related_name="runs")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    # Null while it runs, and for good when it was lost.
    wall_ms = models.PositiveBigIntegerField(null=True)
    cpu_ms = models.PositiveBigIntegerField(null=True)
    peak_memory_bytes = models.PositiveBigIntegerField(null=True)
    exit_code = models.CharField(max_length=16, null=True)  # noqa: DJ001 - null while it runs
    stopped_for = models.CharField(max_length=32, blank=True)
    sandbox_layers = models.JSONField(default=list)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "attempt", "stage", "shard"], name="run_unique"),
            models.CheckConstraint(
                condition=Q(wall_ms=None) | Q(ended_at__isnull=False), name="run_with_duration_has_ended"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_id}#{self.attempt}.{self.stage}.{self.shard}"


class JobEvent(models.Model):
    """One move of a job from one status to another: written with the move, never changed."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events", db_index=False)
    at = models.DateTimeField()
    from_status = models.CharField(max_length=9, blank=True)
    to_status = models.CharField(max_length=9, choices=Status)
    attempt = models.PositiveSmallIntegerField()
    reason = models.CharField(max_length=500, blank=True)

    class Meta:
        indexes = [models.Index(fields=["job", "id"], name="event_by_job")]

    def __str__(self) -> str:
        return f"{self.job_id}: {self.from_status or '-'} → {self.to_status}"


class Artifact(models.Model):
    """A file that a job produced. Size and hash are those of the content, whatever the storage compresses."""

    class Kind(models.TextChoices):
        JSON_REPORT = "json_report"
        HTML_REPORT = "html_report"
        CSV_REPORT = "csv_report"
        INPUT = "input"
        STDOUT_LOG = "stdout_log"
        STDERR_LOG = "stderr_log"

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


class DailyUsage(models.Model):
    """What an account's jobs that ended on one day (UTC) used, by client and build."""

    account = models.ForeignKey(Account, on_delete=models.CASCADE, related_name="+", db_index=False)
    client = models.ForeignKey(Client, on_delete=models.CASCADE, related_name="+", db_index=False)
    # Null for jobs that ended before a build was chosen.
    build = models.ForeignKey(Build, null=True, on_delete=models.SET_NULL, related_name="+")
    day = models.DateField()
    jobs = models.PositiveIntegerField()
    # Jobs of these for which a simulator ran.
    runs = models.PositiveIntegerField()
    sim_ms = models.PositiveBigIntegerField()
    credits = models.PositiveBigIntegerField()

    class Meta:
        constraints = [
            # In the order in which an account's days are read.
            models.UniqueConstraint(
                fields=["account", "day", "client", "build"], name="daily_usage_unique", nulls_distinct=False
            ),
        ]

    def __str__(self) -> str:
        return f"{self.account_id} on {self.day}"


class IdempotencyKey(models.Model):
    """An idempotency key and the response to its submission: `docs/reference/contract.md#idempotency-keys`."""

    api_key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="idempotency_keys")
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="idempotency_key")
    response = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["api_key", "key"], name="idempotency_key_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.api_key}: {self.key}"
