"""Validation of profiles and pins, and the endpoints of builds."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from clients.models import ApiKey
from jobs.models import Job
from tests.conftest import Api
from tests.factories import PROFILE, BuildFactory

CHECKS = {"total": 1, "failures": [], "checked_at": "2026-11-01T00:00:00Z"}
BLOCKED_KEYS = {"blocked", "blockedCount", "blockedTruncated"}


def submit(api: Api, text: str = PROFILE, **build: Any) -> Any:
    """Submit a profile and return the response."""
    return api.post("jobs", {"build": {"channel": "latest", **build}, "profile": {"text": text}})


def change_plan(key: ApiKey, **fields: Any) -> None:
    """Change the plan of a key's account."""
    plan = key.client.account.plan
    for name, value in fields.items():
        setattr(plan, name, value)
    plan.save(update_fields=list(fields))


def test_rejected_directives_are_listed_with_their_lines(api: Api) -> None:
    response = submit(api, PROFILE + 'html=/tmp/x\n\tthreads=8 h"tm"l=y\n')
    assert (response.status_code, response.json()["code"]) == (422, "input_sanitized_rejected")
    meta = response.json()["meta"]
    assert set(meta) == {"reason", "message", "docsUrl"} | BLOCKED_KEYS
    assert meta["blocked"] == [
        {"line": 6, "text": "html=/tmp/x", "reason": "it writes a file"},
        {"line": 7, "text": "threads=8", "reason": "the service sets threads and priority itself"},
        {"line": 7, "text": "html=y", "reason": "it writes a file"},
    ]
    assert (meta["blockedCount"], meta["blockedTruncated"]) == (3, False)
    assert "it writes a file" in meta["message"]
    assert not Job.objects.exists()


def test_the_list_of_rejected_directives_is_limited(api: Api) -> None:
    meta = submit(api, PROFILE + f"html={'x' * 500}\n" * 25).json()["meta"]
    assert (len(meta["blocked"]), meta["blockedCount"], meta["blockedTruncated"]) == (20, 25, True)
    assert len(meta["blocked"][0]["text"]) == 200


@pytest.mark.parametrize("text", ["", " \n\t", "# only a remark\n", "iterations=100\nmax_time=300\n"])
def test_a_profile_without_an_actor_has_nothing_to_simulate(api: Api, text: str) -> None:
    response = submit(api, text)
    assert (response.status_code, response.json()["code"]) == (422, "input_sanitized_rejected")
    assert response.json()["meta"]["reason"] == "input_sanitized_rejected"
    assert "nothing to simulate" in response.json()["error"]
    assert set(response.json()["meta"]) >= BLOCKED_KEYS


def test_reduced_numbers_cause_warnings(api: Api) -> None:
    text = PROFILE + 'iterations=300000\nprofileset."A B"+=target_error=0.001\n'
    response = submit(api, text)
    assert response.status_code == 200
    warnings = {warning["kind"]: warning for warning in response.json()["warnings"]}
    assert set(warnings) == {"iterations_clamped", "target_error_floored"}
    clamped = warnings["iterations_clamped"]
    assert set(clamped) == {"kind", "line", "requested", "applied", "message"}
    assert (clamped["line"], clamped["requested"], clamped["applied"]) == (6, 300_000, 250_000)
    assert warnings["target_error_floored"]["line"] == 7


def test_a_valid_profile_has_no_warnings(api: Api) -> None:
    assert "warnings" not in submit(api, PROFILE + "iterations=250000\ntarget_error=0.01\n").json()


def test_variants_are_limited_by_the_plan(api: Api, key: tuple[ApiKey, str]) -> None:
    change_plan(key[0], max_variants=2)
    text = PROFILE + "copy=B\nprofileset.x+=level=80\n"
    assert submit(api, text).status_code == 200
    response = submit(api, text + "profileset.y+=level=80\n")
    assert (response.status_code, response.json()["code"]) == (422, "too_many_variants")
    meta = response.json()["meta"]
    assert (meta["totalVariants"], meta["maxVariants"], meta["blocked"]) == (3, 2, [])
    assert set(meta) == {
        "reason", "message", "docsUrl", "totalVariants", "maxVariants", "upgradeUrl", *BLOCKED_KEYS,
    }  # fmt: skip


def test_only_bundled_profiles_can_be_included(api: Api) -> None:
    BuildFactory.create(profiles=["T26_Mage_Frost.simc"], profiles_path="/somewhere")
    assert submit(api, "T26_Mage_Frost.simc\n").status_code == 200
    assert submit(api, "input=T26_Mage_Frost.simc\n").status_code == 200
    assert submit(api, PROFILE + "input=/etc/passwd\n").json()["code"] == "input_sanitized_rejected"
    assert submit(api, PROFILE + "../T26_Mage_Frost.simc\n").json()["code"] == "input_sanitized_rejected"


def test_only_profiles_of_the_pinned_build_can_be_included(api: Api, key: tuple[ApiKey, str]) -> None:
    change_plan(key[0], allows_build_pin=True)
    BuildFactory.create(profiles=["A.simc"])
    pinned = BuildFactory.create(profiles=["B.simc"])
    assert submit(api, "B.simc\n", id=str(pinned.pk)).status_code == 200
    assert submit(api, "A.simc\n", id=str(pinned.pk)).json()["code"] == "input_sanitized_rejected"


def test_armory_imports_need_credentials(api: Api) -> None:
    response = submit(api, "armory=eu,area52,somebody\n")
    assert response.json()["code"] == "input_sanitized_rejected"
    assert "bnetClientId" in response.json()["meta"]["message"]


def test_pins_need_a_plan_that_allows_them(api: Api) -> None:
    build = BuildFactory.create()
    response = submit(api, id=str(build.pk))
    assert (response.status_code, response.json()["code"]) == (422, "build_pin_not_allowed")
    assert response.json()["meta"]["buildId"] == str(build.pk)
    assert set(response.json()["meta"]) == {
        "reason",
        "message",
        "docsUrl",
        "buildId",
        "maxPinAgeDays",
        *BLOCKED_KEYS,
    }


def test_a_build_can_be_pinned(api: Api, key: tuple[ApiKey, str]) -> None:
    change_plan(key[0], allows_build_pin=True)
    build = BuildFactory.create()
    job = Job.objects.get(pk=submit(api, id=str(build.pk)).json()["id"])
    assert job.pinned_build == build


@pytest.mark.parametrize(
    "fields",
    [
        {"git_branch": "other"},
        {"created_at": timezone.now() - timedelta(days=31)},
        {"withdrawn_at": timezone.now()},
    ],
    ids=["another branch", "too old", "withdrawn"],
)
def test_a_pin_must_name_an_available_build(api: Api, key: tuple[ApiKey, str], fields: dict[str, Any]) -> None:
    change_plan(key[0], allows_build_pin=True)
    build = BuildFactory.create(**fields)
    for build_id in (build.pk, uuid4()):
        response = submit(api, id=str(build_id))
        assert (response.status_code, response.json()["code"]) == (422, "build_pin_unavailable")
        assert response.json()["meta"]["maxPinAgeDays"] == 30


@pytest.mark.parametrize("build_id", ["x", 5, "0" * 32, "urn:uuid:" + "0" * 27])
def test_a_pin_must_be_a_uuid(api: Api, build_id: Any) -> None:
    assert submit(api, id=build_id).json()["code"] == "validation_failed"


def test_the_current_builds_of_the_channels(api: Api) -> None:
    old = BuildFactory.create(created_at=timezone.now() - timedelta(days=40), wow_version="11.2.0.63003")
    new = BuildFactory.create(profiles_path="/p", profiles=["A.simc"], ci=CHECKS)
    body = api.get("builds").json()
    assert {listed["channel"]: listed["id"] for listed in body["builds"]} == {
        "latest": str(new.pk),
        "nightly": str(old.pk),
        "weekly": str(new.pk),
    }
    assert set(body["builds"][0]) == {
        "channel", "gitBranch", "repo", "commit", "simcVersion", "gameData", "id", "createdAt", "ci", "profiles",
    }  # fmt: skip


def test_the_fields_of_a_build(api: Api) -> None:
    build = BuildFactory.create(
        wow_version="11.2.0.63003", profiles_path="/p", profiles=["A.simc"], includable=["A.simc", "apls/a.simc"]
    )
    body = api.get(f"builds/{build.pk}").json()
    assert "channel" not in body
    assert body["gameData"] is None
    assert body["profiles"] == {"manifest": ["A.simc"], "includable": ["A.simc", "apls/a.simc"]}


@pytest.mark.parametrize("build_id", ["x", "497f20e4-272e-4973-ac85-62e1afe6d9bb", "0" * 500])
def test_an_unknown_build_is_not_found(api: Api, build_id: str) -> None:
    response = api.get(f"builds/{build_id}")
    assert (response.status_code, response.json()["code"]) == (404, "not_found")
