"""Each error code: its status, the handwritten schema of its `meta`, and a request that causes it."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import Settings
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from billing import ledger
from billing.models import Account
from clients.models import ApiKey
from jobs import registry
from jobs.artifacts import artifact_files, credentials
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Job
from jobs.queue import forecast
from jobs.queue.pausing import MAX_PAUSES
from tests.conftest import Api
from tests.factories import PROFILE, make_job, make_key, make_member, make_running_job, unknown_key
from tests.jobs.api.bodies import BODY, body_with
from tests.jobs.api.contract.types import (
    BOOLEAN,
    COUNT,
    DOCS,
    ID,
    NULL,
    POSITIVE,
    REQUEST_ID,
    TERMINAL,
    TEXT,
    UNFINISHED,
    UUID,
    Schema,
    an_object,
    many,
    matching,
    one_of,
    or_null,
)


@dataclass(frozen=True)
class CaseContext:
    """Tools of a case: the caller's key, the API and pytest's fixtures."""

    key: ApiKey
    api: Api
    settings: Settings
    monkeypatch: pytest.MonkeyPatch

    @property
    def account(self) -> Account:
        return self.key.client.account

    def plan(self, **changes: Any) -> None:
        """Change the caller's plan."""
        type(self.account.plan).objects.filter(pk=self.account.plan_id).update(**changes)

    def submit(self, body: Any = BODY, **kwargs: Any) -> Any:
        return self.api.post("jobs", body, **kwargs)


UNREACHABLE = Redis.from_url("redis://127.0.0.1:1", retry=Retry(NoBackoff(), 0))


class Case(NamedTuple):
    """An error code: its status, the schema of its `meta`, and a function that causes it."""

    status: int
    meta: Schema
    produce: Callable[[CaseContext], Any]


CASES: dict[str, Case] = {}


def case(
    status: int, code: str, meta: Schema = NULL
) -> Callable[[Callable[[CaseContext], Any]], Callable[[CaseContext], Any]]:
    """Register a function as the case of an error code."""

    def add(produce: Callable[[CaseContext], Any]) -> Callable[[CaseContext], Any]:
        CASES[code] = Case(status, meta, produce)
        return produce

    return add


def error(status: int, code: str) -> Schema:
    """Return the schema of an error. Raises KeyError if the status does not have the code."""
    if (status, code) != RANGE_ERROR and CASES[code].status != status:
        raise KeyError(f"{status} {code}")
    raised = {"priorityFeeCredits": COUNT} if code == "insufficient_credits_liability" else {}
    return an_object(
        {"error": matching(".+"), "code": {"const": code}, "meta": CASES[code].meta, "requestId": REQUEST_ID},
        **raised,
    )


# The range of a download starts after the end of the file.
RANGE_ERROR = (416, "validation_failed")


def reason(code: str) -> dict[str, Schema]:
    return {"reason": {"const": code}}


BLOCKED_TEXT = {"type": "string", "maxLength": 200}
BLOCKED = {
    "message": TEXT,
    "docsUrl": DOCS,
    "blocked": many(an_object({"line": POSITIVE, "text": BLOCKED_TEXT, "reason": TEXT}), 20),
    "blockedCount": COUNT,
    "blockedTruncated": BOOLEAN,
}
PIN = BLOCKED | {"buildId": UUID, "maxPinAgeDays": {"const": 30}}


case(400, "validation_failed", an_object({"issues": many(an_object({"path": TEXT, "message": TEXT}))}))(
    lambda context: context.submit({})
)
case(400, "invalid_json")(lambda context: context.submit("{"))
case(400, "invalid_cursor")(lambda context: context.api.get("jobs?cursor=forged"))
case(400, "webhook_not_configured")(lambda context: context.submit(body_with("webhook.events", ["job.terminal"])))
case(401, "missing_token")(lambda _: HttpClient().get("/v1/sim/jobs"))
case(401, "invalid_token")(lambda _: Api(unknown_key()).get("jobs"))
case(404, "not_found")(lambda context: context.api.get("jobs/123456789012345678"))
case(405, "method_not_allowed")(lambda context: context.api.http.delete("/v1/sim/jobs"))
case(415, "unsupported_media_type")(lambda context: context.submit("x", content_type="text/csv"))
case(413, "request_too_large")(lambda context: context.submit(b" " * ((13 << 20) + 1)))
case(413, "profile_too_large")(
    lambda context: context.submit(body_with("profile.text", "#" * (2 * 1024 * 1024 + 1)))
)
case(422, "input_sanitized_rejected", an_object(reason("input_sanitized_rejected") | BLOCKED))(
    lambda context: context.submit(body_with("profile.text", "html=/tmp/x"))
)
case(409, "result_not_ready", an_object({"status": UNFINISHED}))(
    lambda context: context.api.get(f"jobs/{make_job(context.key.client).pk}/result")
)


@case(401, "revoked_token")
def revoked(context: CaseContext) -> Any:
    ApiKey.objects.update(revoked_at=timezone.now())
    return context.api.get("jobs")


@case(401, "expired_token")
def expired(context: CaseContext) -> Any:
    return Api(make_key(expires_at=timezone.now() - timedelta(seconds=1))[1]).get("jobs")


@case(403, "insufficient_scope", an_object({"required": {"const": "submit"}, "scope": {"const": "read"}}))
def reads_only(context: CaseContext) -> Any:
    ApiKey.objects.update(scope="read")
    return context.submit()


@case(403, "address_not_allowed")
def elsewhere(context: CaseContext) -> Any:
    ApiKey.objects.update(addresses=["192.0.2.0/24"])
    return context.api.get("jobs")


@case(403, "read_only_key")
def demoted(context: CaseContext) -> Any:
    viewer = make_member(context.account, role="viewer")
    ApiKey.objects.update(created_by=viewer.user)
    return context.submit()


@case(403, "origin_not_allowed")
def another_site(context: CaseContext) -> Any:
    return context.api.http.post("/mcp", "{}", content_type="application/json", headers={"origin": "https://x.y"})


@case(
    402,
    "insufficient_credits_liability",
    an_object(
        {
            "reason": TEXT,
            "ceilingMaxCredits": COUNT,
            "maxAffordableCredits": COUNT,
            "ceilingRuntimeSeconds": COUNT,
            "maxAffordableRuntimeSeconds": COUNT,
            "requiredCredits": COUNT,
            "docsUrl": DOCS,
        },
        priorityFeeCredits=COUNT,
    ),
)
def shortage(context: CaseContext) -> Any:
    ledger.correct(context.account, 10 - ledger.available(context.account), reason="for the test")
    return context.submit()


@case(402, "inactive_entitlement")
def suspended(context: CaseContext) -> Any:
    Account.objects.update(suspended_at=timezone.now())
    return context.submit()


@case(
    409,
    "idempotency_key_reuse",
    an_object(reason("idempotency_key_reuse") | {"originalJobId": ID, "docsUrl": DOCS}),
)
def reused(context: CaseContext) -> Any:
    headers = {"idempotency-key": "k"}
    assert context.submit(headers=headers).status_code == 200
    return context.submit(body_with("priority", "background"), headers=headers)


@case(409, "job_not_cancellable", an_object({"id": ID, "status": one_of("completed", "failed", "timed_out")}))
def job_ended(context: CaseContext) -> Any:
    job = make_job(context.key.client)
    assert job_moves.finish(job, Outcome(status=Status.FAILED, error_code="queue_timeout"))
    return context.api.post(f"jobs/{job.pk}/cancel")


@case(
    409, "job_not_pausable", an_object({"id": ID, "status": one_of("running", "completed", "failed", "cancelled")})
)
def ended_job_paused(context: CaseContext) -> Any:
    job = make_job(context.key.client)
    assert job_moves.finish(job, Outcome(status=Status.FAILED, error_code="queue_timeout"))
    return context.api.post(f"jobs/{job.pk}/pause")


@case(409, "pause_limit_reached", an_object({"maxPauses": POSITIVE}))
def paused_too_often(context: CaseContext) -> Any:
    job = make_job(context.key.client)
    for _ in range(MAX_PAUSES):
        assert context.api.post(f"jobs/{job.pk}/pause").status_code == 200
        assert context.api.post(f"jobs/{job.pk}/resume").status_code == 200
    return context.api.post(f"jobs/{job.pk}/pause")


@case(410, "artifact_expired")
def expired_artifact(context: CaseContext) -> Any:
    job = make_running_job(client=context.key.client)
    stored = artifact_files.store(job, Artifact.Kind.INPUT, io.BytesIO(b"x"))
    stored.save(force_insert=True)
    Job.objects.update(created_at=timezone.now() - timedelta(days=31))
    return context.api.get(f"artifacts/{stored.pk}/url")


@case(
    422,
    "too_many_variants",
    an_object(
        reason("too_many_variants")
        | BLOCKED
        | {"totalVariants": COUNT, "maxVariants": COUNT, "upgradeUrl": or_null(TEXT)}
    ),
)
def variants(context: CaseContext) -> Any:
    context.plan(max_variants=1)
    sets = "".join(f"profileset.{name}+=level=80\n" for name in "ab")
    return context.submit(body_with("profile.text", PROFILE + sets))


@case(422, "build_pin_not_allowed", an_object(reason("build_pin_not_allowed") | PIN))
def pinned(context: CaseContext) -> Any:
    return context.submit(body_with("build.id", "6d6a3c5e-0a4f-4a50-8d6e-2f0c7b5f7a11"))


@case(422, "build_pin_unavailable", an_object(reason("build_pin_unavailable") | PIN))
def pinned_to_nothing(context: CaseContext) -> Any:
    context.plan(allows_build_pin=True)
    return pinned(context)


@case(422, "result_unavailable", an_object(reason("result_unavailable") | {"status": TERMINAL}))
def never_ran(context: CaseContext) -> Any:
    job = make_job(context.key.client)
    assert job_moves.finish(job, Outcome(status=Status.FAILED, error_code="queue_timeout"))
    return context.api.get(f"jobs/{job.pk}/result")


@case(
    429,
    "rate_limit_exceeded",
    an_object(
        {
            "scope": one_of("developer", "address"),
            "limit": one_of("submissions", "bytes", "checks", "checked_bytes", "reads", "public"),
        }
    ),
)
def too_fast(context: CaseContext) -> Any:
    context.plan(submissions_per_minute=1)
    assert context.submit().status_code == 200
    return context.submit()


ACTIVE_JOBS = reason("max_active_jobs_exceeded") | {"maxActiveJobs": COUNT, "activeJobs": COUNT}


@case(429, "max_active_jobs_exceeded", an_object(ACTIVE_JOBS))
def too_many(context: CaseContext) -> Any:
    context.plan(max_active_jobs=1)
    assert context.submit().status_code == 200
    return context.submit()


@case(500, "internal_error")
def broken(context: CaseContext) -> Any:
    # No known request causes one, so a bug is injected.
    context.monkeypatch.setattr(registry, "current", lambda: 1 / 0)
    return context.api.get("builds")


@case(503, "queue_unavailable", an_object({"reason": TEXT, "queueHealth": TEXT}))
def full(context: CaseContext) -> Any:
    context.settings.MAX_QUEUE_LENGTH = 1
    make_job()
    forecast.publish()
    return context.submit()


@case(503, "secret_store_unavailable", an_object({"reason": TEXT}))
def no_secret_store(context: CaseContext) -> Any:
    context.monkeypatch.setattr(credentials, "redis", lambda: UNREACHABLE)
    return context.submit(body_with("credentials", {"bnetClientId": "a" * 32, "bnetClientSecret": "b" * 32}))


@case(503, "api_maintenance", an_object({"retryAfterSeconds": COUNT}))
def maintained(context: CaseContext) -> Any:
    context.settings.MAINTENANCE_SECONDS = 60
    return context.submit()
