"""The data of an account, as rows of an export. Secrets, hashes and encrypted values are left out."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.urls import reverse

from billing.models import Account, Entry, Grant
from clients import credit_notices
from clients.models import ApiKey, AuditEvent, Client, Invitation, Membership
from jobs.artifacts import retention
from jobs.models import Artifact, DailyUsage, Job, JobEvent, JobProfile
from privacy.archive import Row, Section, pages, rows_of
from webhooks.models import Delivery, Endpoint, Event

# A profile can have 2 MB, and a delivery an excerpt of 2 KiB.
JOBS_AT_ONCE, EVENTS_AT_ONCE = 20, 200
ACCOUNT_FIELDS = "name created_at suspended_at shares_inputs".split()
JOB_FIELDS = (
    "client_id api_key_id priority channel git_branch pinned_build_id multi_stage html csv has_credentials "
    "wants_webhook json_version metadata given_title character other_characters max_credits ceiling_credits "
    "ceiling_runtime_seconds ceiling_queue_seconds priority_fee_credits credits_per_second vcpus parallel_slots "
    "retention_days status attempt created_at started_at completed_at cancel_requested_at paused_at build_id "
    "error_code status_reason simulator_exit_code sim_duration_ms credits_consumed slots_used summary warnings "
    "missing_artifacts shares_inputs cleared_at"
).split()
JOB_EVENT_FIELDS = "at from_status to_status attempt reason cause".split()
ARTIFACT_FIELDS = "id attempt stage kind mime_type bytes sha256 created_at token".split()
KEY_FIELDS = (
    "client__name name last4 scope addresses created_by__email created_at expires_at revoked_at last_used_at"
).split()
ENDPOINT_FIELDS = "client__name url created_at disabled_at disabled_for failing_since reports_low_credits".split()
EVENT_FIELDS = "name client_id job_id created_at state failure failures next_attempt_at ended_at".split()
DELIVERY_FIELDS = "name outcome started_at duration_ms address status problem detail excerpt".split()
INVITATION_FIELDS = "email role invited_by__email created_at expires_at closed_at".split()
GRANT_FIELDS = "reason note original remaining created_at expires_at".split()
ENTRY_FIELDS = "at source target credits grant_id job_id reason".split()
USAGE_FIELDS = "day client__name build_id jobs runs sim_ms credits".split()
AUDIT_FIELDS = "at action user_id actor address target_id target details".split()


def sections(account: Account) -> Iterator[Section]:
    """Yield the files of an account's export with their rows."""
    of = {"account": account}
    clients = Client.objects.filter(**of)
    row = {name: getattr(account, name) for name in ACCOUNT_FIELDS}
    row["low_credits_notice"] = credit_notices.threshold_of(account)
    yield "account", [{"id": account.pk, "plan": account.plan.name, **row}]
    yield "members", rows_of(Membership.objects.filter(**of), "user__email", "user__username", "role")
    yield "invitations", rows_of(Invitation.objects.filter(**of), *INVITATION_FIELDS)
    yield "clients", rows_of(clients, "name", "is_default", "created_at")
    yield "keys", rows_of(ApiKey.objects.filter(client__account=account), *KEY_FIELDS)
    yield "webhooks", rows_of(Endpoint.objects.filter(client__account=account), *ENDPOINT_FIELDS)
    yield "jobs", _jobs(account)
    yield "usage", rows_of(DailyUsage.objects.filter(**of), *USAGE_FIELDS)
    yield "grants", rows_of(Grant.objects.filter(**of), *GRANT_FIELDS)
    yield "credit_history", rows_of(Entry.objects.filter(**of), *ENTRY_FIELDS)
    yield "webhook_events", _webhook_events(list(clients.values_list("pk", flat=True)))
    yield "audit_log", rows_of(AuditEvent.objects.filter(**of), *AUDIT_FIELDS)


def _jobs(account: Account) -> Iterator[Row]:
    for jobs in pages(Job.objects.filter(account=account), size=JOBS_AT_ONCE):
        ids = [job.pk for job in jobs]
        texts = dict(JobProfile.objects.filter(pk__in=ids).values_list("pk", "text"))
        events = _by_parent(JobEvent.objects.filter(job__in=ids), "job_id", JOB_EVENT_FIELDS)
        artifacts = _by_parent(Artifact.objects.filter(job__in=ids), "job_id", ARTIFACT_FIELDS)
        for job in jobs:
            row = {"id": job.pk, **{field: getattr(job, field) for field in JOB_FIELDS}}
            found = {"events": events[job.pk], "artifacts": _addressed(job, artifacts[job.pk])}
            yield {**row, "profile": texts.get(job.pk), **found}


def _addressed(job: Job, artifacts: Iterable[Row]) -> list[Row]:
    """Return artifacts with the address of the file, null after retention, instead of its token."""
    rows = []
    for artifact in artifacts:
        path = reverse("artifact", args=[artifact.pop("token")])
        rows.append({**artifact, "url": settings.PUBLIC_BASE_URL + path if retention.is_kept(job) else None})
    return rows


def _webhook_events(clients: Sequence[int]) -> Iterator[Row]:
    for client in clients:
        for events in pages(Event.objects.filter(client=client), size=EVENTS_AT_ONCE):
            ids = [event.pk for event in events]
            deliveries = _by_parent(Delivery.objects.filter(event__in=ids), "event_id", DELIVERY_FIELDS)
            for event in events:
                row = {field: getattr(event, field) for field in EVENT_FIELDS}
                body = bytes(event.body).decode(errors="replace")
                yield {**row, "body": body, "deliveries": deliveries[event.pk]}


def _by_parent(found: QuerySet[Any], parent: str, fields: Sequence[str]) -> dict[int, list[Row]]:
    """Return fields of all rows by the id of their parent."""
    rows: dict[int, list[Row]] = defaultdict(list)
    for row in found.order_by("pk").values(parent, *fields):
        rows[row.pop(parent)].append(row)
    return rows
