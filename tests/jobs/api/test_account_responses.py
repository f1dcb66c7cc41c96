"""Responses about builds, usage and credits match the handwritten contract and the OpenAPI document."""

from datetime import date, timedelta
from typing import Any

import pytest
from django.utils import timezone

from billing import ledger
from billing.models import GrantReason
from clients.accounts import default_client
from clients.models import ApiKey
from jobs.enums import Channel
from tests.conftest import Api
from tests.factories import BuildFactory, make_job
from tests.jobs.api.job_states import STATES
from tests.jobs.api.response_checks import checked


@pytest.fixture
def account(key: tuple[ApiKey, str]) -> Any:
    return key[0].client.account


CHECKED = "2026-11-20T04:02:00.000Z"
FAILURES = [{"name": "A.simc", "reason": "line 1: refused"}, {"name": "B.simc", "reason": ""}]


@pytest.mark.parametrize(
    ("total", "failures", "status"),
    [(3, [], "pass"), (3, FAILURES, "partial"), (2, FAILURES, "fail"), (0, [], "unknown")],
)
def test_builds_and_jobs_contain_the_checks_of_a_build(
    api: Api, account: Any, variant: str, total: int, failures: list[Any], status: str
) -> None:
    ci = {"total": total, "failures": failures, "checked_at": CHECKED}
    build = BuildFactory.create(ci=ci, profiles_path="/p", profiles=["C.simc"])
    checks = checked(api.get(f"builds/{build.pk}"), variant)["ci"]
    assert checks == {
        "status": status,
        "checks": {"total": total, "passed": total - len(failures), "failed": len(failures)},
        "failures": [failure["name"] for failure in failures],
        "gatedOn": [],
        "retrievedAt": CHECKED,
    }
    job = make_job(default_client(account), build=build, channel=Channel.WEEKLY)
    assert checked(api.get(f"jobs/{job.pk}"), variant)["build"] == {
        "id": str(build.pk),
        "channel": "weekly",
        "commit": build.commit,
        "ci": {"status": status, "failed": len(failures)},
    }


@pytest.mark.parametrize("version", ["", "12.0.0.64000"])
@pytest.mark.parametrize("hotfix", [None, date(2026, 11, 18)])
def test_game_data_needs_version_and_hotfix_date(api: Api, variant: str, version: str, hotfix: date | None) -> None:
    BuildFactory.create(wow_version=version, hotfix_date=hotfix, repo="https://example.org/simc")
    (latest, *_) = checked(api.get("builds"), variant)["builds"]
    expected = {"live": {"version": version, "hotfixDate": "2026-11-18"}, "ptr": None}
    assert latest["gameData"] == (expected if version and hotfix else None)


def test_a_build_without_optional_data(api: Api, variant: str) -> None:
    build = BuildFactory.create()
    body = checked(api.get(f"builds/{build.pk}"), variant)
    assert (body["repo"], body["ci"], body["profiles"]) == ("", None, None)


def test_usage_counts_unfinished_jobs(api: Api, account: Any, variant: str) -> None:
    for make in STATES.values():
        make(client=default_client(account))
    body = checked(api.get("usage"), variant)
    assert body["snapshot"] == {"activeJobs": 5, "queuedJobs": 4, "runningJobs": 1}


def test_credits_list_grants_of_every_reason(api: Api, account: Any, variant: str) -> None:
    checked(api.get("credits"), variant)
    for reason in GrantReason:
        ledger.grant(account, 5, reason=reason, note="" if reason == "allowance" else "<b>words</b>\nof two lines")
    ledger.grant(account, 5, reason=GrantReason.PROMO, expires_at=timezone.now() + timedelta(days=1))
    grants = checked(api.get("credits"), variant)["grants"]
    assert {grant["reason"] for grant in grants} == set(GrantReason.values)
