"""Every row of the tables of errors is produced here (specification, Errors; contract, section 1)."""

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

from billing import ledger
from billing.models import Account
from clients.models import ApiKey
from jobs import artifacts, credentials, lifecycle
from jobs.builds import registry
from jobs.enums import Status
from jobs.lifecycle import Outcome
from jobs.models import Artifact, Job
from jobs.queueing import forecast
from simservice.api.examples import family
from tests.conftest import Api
from tests.factories import PROFILE, make_job, make_key, make_running_job
from tests.jobs.api.bodies import BODY, body_with
from tests.jobs.api.test_envelope import unknown_key


@dataclass(frozen=True)
class Scene:
    """What a case can use: the caller's key, the API, and the test's tools."""

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


@pytest.fixture
def scene(key: tuple[ApiKey, str], api: Api, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(key=key[0], api=api, settings=settings, monkeypatch=monkeypatch)


CASES: dict[str, Callable[[Scene], Any]] = {}
META = {
    "validation_failed": {"issues"},
    "insufficient_credits_liability": {
        "reason", "ceilingMaxCredits", "maxAffordableCredits", "ceilingRuntimeSeconds",
        "maxAffordableRuntimeSeconds", "requiredCredits", "docsUrl",
    },
    "idempotency_key_reuse": {"reason", "originalJobId", "docsUrl"},
    "result_not_ready": {"status"},
    "result_unavailable": {"reason", "status"},
    "job_not_cancellable": {"id", "status"},
    "input_sanitized_rejected": {
        "reason", "message", "docsUrl", "blocked", "blockedCount", "blockedTruncated",
    },
    "too_many_variants": {
        "reason", "message", "docsUrl", "totalVariants", "maxVariants", "upgradeUrl", "blocked", "blockedCount",
        "blockedTruncated",
    },
    "build_pin_not_allowed": {
        "reason", "message", "docsUrl", "buildId", "maxPinAgeDays", "blocked", "blockedCount", "blockedTruncated",
    },
    "rate_limit_exceeded": {"scope", "limit"},
    "max_active_jobs_exceeded": {"reason", "maxActiveJobs", "activeJobs"},
    "queue_unavailable": {"reason", "queueHealth"},
    "secret_store_unavailable": {"reason"},
    "api_maintenance": {"retryAfterSeconds"},
}  # fmt: skip
META["build_pin_unavailable"] = META["build_pin_not_allowed"]


def case(code: str) -> Callable[[Callable[[Scene], Any]], Callable[[Scene], Any]]:
    """Name the code that a function's answer must have."""

    def add(produce: Callable[[Scene], Any]) -> Callable[[Scene], Any]:
        CASES[code] = produce
        return produce

    return add


CASES |= {
    "validation_failed": lambda scene: scene.submit({}),
    "invalid_json": lambda scene: scene.submit("{"),
    "invalid_cursor": lambda scene: scene.api.get("jobs?cursor=forged"),
    "webhook_not_configured": lambda scene: scene.submit(body_with("webhook.events", ["job.terminal"])),
    "missing_token": lambda _: HttpClient().get("/v1/sim/jobs"),
    "invalid_token": lambda _: Api(unknown_key()).get("jobs"),
    "not_found": lambda scene: scene.api.get("jobs/123456789012345678"),
    "method_not_allowed": lambda scene: scene.api.http.delete("/v1/sim/jobs"),
    "unsupported_media_type": lambda scene: scene.submit("x", content_type="text/csv"),
    "request_too_large": lambda scene: scene.submit(b" " * ((13 << 20) + 1)),
    "profile_too_large": lambda scene: scene.submit(body_with("profile.text", "#" * (2 * 1024 * 1024 + 1))),
    "input_sanitized_rejected": lambda scene: scene.submit(body_with("profile.text", "html=/tmp/x")),
    "result_not_ready": lambda scene: scene.api.get(f"jobs/{make_job(scene.key.client).pk}/result"),
}


@case("revoked_token")
def revoked(scene: Scene) -> Any:
    ApiKey.objects.update(revoked_at=timezone.now())
    return scene.api.get("jobs")


@case("expired_token")
def expired(scene: Scene) -> Any:
    return Api(make_key(expires_at=timezone.now() - timedelta(seconds=1))[1]).get("jobs")


@case("insufficient_credits_liability")
def shortage(scene: Scene) -> Any:
    ledger.correct(scene.account, 10 - ledger.available(scene.account), reason="for the test")
    return scene.submit()


@case("inactive_entitlement")
def suspended(scene: Scene) -> Any:
    Account.objects.update(suspended_at=timezone.now())
    return scene.submit()


@case("idempotency_key_reuse")
def reused(scene: Scene) -> Any:
    headers = {"idempotency-key": "k"}
    assert scene.submit(headers=headers).status_code == 200
    return scene.submit(body_with("priority", "background"), headers=headers)


@case("job_not_cancellable")
def ended(scene: Scene) -> Any:
    job = make_job(scene.key.client)
    assert lifecycle.finish(job, Outcome(status=Status.FAILED, error_code="queue_timeout"))
    return scene.api.post(f"jobs/{job.pk}/cancel")


@case("artifact_expired")
def expired_artifact(scene: Scene) -> Any:
    job = make_running_job(client=scene.key.client)
    stored = artifacts.store(job, Artifact.Kind.INPUT, io.BytesIO(b"x"))
    stored.save(force_insert=True)
    Job.objects.update(created_at=timezone.now() - timedelta(days=31))
    return scene.api.get(f"artifacts/{stored.pk}/url")


@case("too_many_variants")
def variants(scene: Scene) -> Any:
    scene.plan(max_variants=1)
    sets = "".join(f"profileset.{name}+=level=80\n" for name in "ab")
    return scene.submit(body_with("profile.text", PROFILE + sets))


@case("build_pin_not_allowed")
def pinned(scene: Scene) -> Any:
    return scene.submit(body_with("build.id", "6d6a3c5e-0a4f-4a50-8d6e-2f0c7b5f7a11"))


@case("build_pin_unavailable")
def pinned_to_nothing(scene: Scene) -> Any:
    scene.plan(allows_build_pin=True)
    return pinned(scene)


@case("result_unavailable")
def never_ran(scene: Scene) -> Any:
    job = make_job(scene.key.client)
    assert lifecycle.finish(job, Outcome(status=Status.FAILED, error_code="queue_timeout"))
    return scene.api.get(f"jobs/{job.pk}/result")


@case("rate_limit_exceeded")
def too_fast(scene: Scene) -> Any:
    scene.plan(submissions_per_minute=1)
    assert scene.submit().status_code == 200
    return scene.submit()


@case("max_active_jobs_exceeded")
def too_many(scene: Scene) -> Any:
    scene.plan(max_active_jobs=1)
    assert scene.submit().status_code == 200
    return scene.submit()


@case("internal_error")
def broken(scene: Scene) -> Any:
    # No request is known to bring one about, so a bug is put in.
    scene.monkeypatch.setattr(registry, "current", lambda: 1 / 0)
    return scene.api.get("builds")


@case("queue_unavailable")
def full(scene: Scene) -> Any:
    scene.settings.MAX_QUEUE_LENGTH = 1
    make_job()
    forecast.publish()
    return scene.submit()


@case("secret_store_unavailable")
def no_secret_store(scene: Scene) -> Any:
    scene.monkeypatch.setattr(credentials, "redis", lambda: Redis.from_url("redis://127.0.0.1:1"))
    return scene.submit(body_with("credentials", {"bnetClientId": "a", "bnetClientSecret": "b"}))


@case("api_maintenance")
def maintained(scene: Scene) -> Any:
    scene.settings.MAINTENANCE_SECONDS = 60
    return scene.submit()


def test_every_error_of_the_family_has_a_case() -> None:
    assert set(CASES) == {error.code for error in family()}


@pytest.mark.parametrize("code", sorted(error.code for error in family()))
def test_an_error_is_produced_as_its_table_says(scene: Scene, code: str) -> None:
    answer = CASES[code](scene)
    (error,) = [error for error in family() if error.code == code]
    body = answer.json()
    assert (answer.status_code, body["code"]) == (error.status, code)
    assert set(body) == {"error", "code", "meta", "requestId"}
    assert body["error"]
    assert set(body["meta"] or ()) == META.get(code, set())
    assert answer.status_code != 422 or body["meta"]["reason"] == code
    assert body["requestId"] == answer.headers["X-Request-Id"]
    assert ("WWW-Authenticate" in answer.headers) == (error.status == 401)
    assert ("Retry-After" in answer.headers) == (error.status in (429, 503))
