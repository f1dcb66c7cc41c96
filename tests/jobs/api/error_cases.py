"""Requests that cause each error code."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

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
from tests.conftest import Api
from tests.factories import PROFILE, make_job, make_key, make_member, make_running_job, unknown_key
from tests.jobs.api.bodies import BODY, body_with


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
CASES: dict[str, Callable[[CaseContext], Any]] = {}


def case(code: str) -> Callable[[Callable[[CaseContext], Any]], Callable[[CaseContext], Any]]:
    """Register a function as the case of an error code."""

    def add(produce: Callable[[CaseContext], Any]) -> Callable[[CaseContext], Any]:
        CASES[code] = produce
        return produce

    return add


CASES |= {
    "validation_failed": lambda context: context.submit({}),
    "invalid_json": lambda context: context.submit("{"),
    "invalid_cursor": lambda context: context.api.get("jobs?cursor=forged"),
    "webhook_not_configured": lambda context: context.submit(body_with("webhook.events", ["job.terminal"])),
    "missing_token": lambda _: HttpClient().get("/v1/sim/jobs"),
    "invalid_token": lambda _: Api(unknown_key()).get("jobs"),
    "not_found": lambda context: context.api.get("jobs/123456789012345678"),
    "method_not_allowed": lambda context: context.api.http.delete("/v1/sim/jobs"),
    "unsupported_media_type": lambda context: context.submit("x", content_type="text/csv"),
    "request_too_large": lambda context: context.submit(b" " * ((13 << 20) + 1)),
    "profile_too_large": lambda context: context.submit(body_with("profile.text", "#" * (2 * 1024 * 1024 + 1))),
    "input_sanitized_rejected": lambda context: context.submit(body_with("profile.text", "html=/tmp/x")),
    "result_not_ready": lambda context: context.api.get(f"jobs/{make_job(context.key.client).pk}/result"),
}


@case("revoked_token")
def revoked(context: CaseContext) -> Any:
    ApiKey.objects.update(revoked_at=timezone.now())
    return context.api.get("jobs")


@case("expired_token")
def expired(context: CaseContext) -> Any:
    return Api(make_key(expires_at=timezone.now() - timedelta(seconds=1))[1]).get("jobs")


@case("read_only_key")
def demoted(context: CaseContext) -> Any:
    viewer = make_member(context.account, role="viewer")
    ApiKey.objects.update(created_by=viewer.user)
    return context.submit()


@case("insufficient_credits_liability")
def shortage(context: CaseContext) -> Any:
    ledger.correct(context.account, 10 - ledger.available(context.account), reason="for the test")
    return context.submit()


@case("inactive_entitlement")
def suspended(context: CaseContext) -> Any:
    Account.objects.update(suspended_at=timezone.now())
    return context.submit()


@case("idempotency_key_reuse")
def reused(context: CaseContext) -> Any:
    headers = {"idempotency-key": "k"}
    assert context.submit(headers=headers).status_code == 200
    return context.submit(body_with("priority", "background"), headers=headers)


@case("job_not_cancellable")
def job_ended(context: CaseContext) -> Any:
    job = make_job(context.key.client)
    assert job_moves.finish(job, Outcome(status=Status.FAILED, error_code="queue_timeout"))
    return context.api.post(f"jobs/{job.pk}/cancel")


@case("artifact_expired")
def expired_artifact(context: CaseContext) -> Any:
    job = make_running_job(client=context.key.client)
    stored = artifact_files.store(job, Artifact.Kind.INPUT, io.BytesIO(b"x"))
    stored.save(force_insert=True)
    Job.objects.update(created_at=timezone.now() - timedelta(days=31))
    return context.api.get(f"artifacts/{stored.pk}/url")


@case("too_many_variants")
def variants(context: CaseContext) -> Any:
    context.plan(max_variants=1)
    sets = "".join(f"profileset.{name}+=level=80\n" for name in "ab")
    return context.submit(body_with("profile.text", PROFILE + sets))


@case("build_pin_not_allowed")
def pinned(context: CaseContext) -> Any:
    return context.submit(body_with("build.id", "6d6a3c5e-0a4f-4a50-8d6e-2f0c7b5f7a11"))


@case("build_pin_unavailable")
def pinned_to_nothing(context: CaseContext) -> Any:
    context.plan(allows_build_pin=True)
    return pinned(context)


@case("result_unavailable")
def never_ran(context: CaseContext) -> Any:
    job = make_job(context.key.client)
    assert job_moves.finish(job, Outcome(status=Status.FAILED, error_code="queue_timeout"))
    return context.api.get(f"jobs/{job.pk}/result")


@case("rate_limit_exceeded")
def too_fast(context: CaseContext) -> Any:
    context.plan(submissions_per_minute=1)
    assert context.submit().status_code == 200
    return context.submit()


@case("max_active_jobs_exceeded")
def too_many(context: CaseContext) -> Any:
    context.plan(max_active_jobs=1)
    assert context.submit().status_code == 200
    return context.submit()


@case("internal_error")
def broken(context: CaseContext) -> Any:
    # No known request causes one, so a bug is injected.
    context.monkeypatch.setattr(registry, "current", lambda: 1 / 0)
    return context.api.get("builds")


@case("queue_unavailable")
def full(context: CaseContext) -> Any:
    context.settings.MAX_QUEUE_LENGTH = 1
    make_job()
    forecast.publish()
    return context.submit()


@case("secret_store_unavailable")
def no_secret_store(context: CaseContext) -> Any:
    context.monkeypatch.setattr(credentials, "redis", lambda: UNREACHABLE)
    return context.submit(body_with("credentials", {"bnetClientId": "a" * 32, "bnetClientSecret": "b" * 32}))


@case("api_maintenance")
def maintained(context: CaseContext) -> Any:
    context.settings.MAINTENANCE_SECONDS = 60
    return context.submit()
