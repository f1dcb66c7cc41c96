"""Request id, error envelope and headers of all responses (docs/reference/api.md#requests-and-responses)."""

import hashlib
import re
from datetime import timedelta

import pytest
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import Settings

from clients.keys import checksum
from clients.models import ApiKey
from tests.conftest import Api
from tests.factories import make_job, make_key, unknown_key
from tests.jobs.api.bodies import only_in

pytestmark = only_in("C")

REQUEST_ID = re.compile(r"req_[0-9a-f]{32}")


@pytest.mark.parametrize("path", ["/v1", "/v1/sim/nowhere", "/v1/other/jobs", "/v1/sim/jobs/", "/v1/"])
def test_unknown_paths_return_the_error_envelope(api: Api, path: str) -> None:
    response = api.http.get(path, headers={"X-Request-Id": "req_mine"})
    assert response.status_code == 404
    assert set(response.json()) == {"error", "code", "meta", "requestId"}
    assert response.json()["code"] == "not_found"
    assert REQUEST_ID.fullmatch(response.json()["requestId"])
    assert response.headers["X-Request-Id"] == response.json()["requestId"]


def test_wrong_methods_return_the_error_envelope(api: Api) -> None:
    response = api.http.delete("/v1/sim/jobs")
    assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed")
    assert "POST" in response.headers["Allow"]


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (None, "missing_token"),
        ("Basic abc", "missing_token"),
        ("Bearer", "missing_token"),
        ("Bearer   ", "missing_token"),
        ("Bearer nonsense", "invalid_token"),
        ("Bearer sk_" + "x" * 46, "invalid_token"),
        ("Bearer " + unknown_key(), "invalid_token"),
        ("Bearer \u00e9", "invalid_token"),
    ],
)
@pytest.mark.django_db
def test_requests_without_a_valid_key_are_rejected(header: str | None, code: str) -> None:
    headers = {"Authorization": header} if header else {}
    response = HttpClient().get("/v1/sim/jobs/123456789012345678", headers=headers)
    assert (response.status_code, response.json()["code"]) == (401, code)
    assert response.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(("field", "code"), [("revoked_at", "revoked_token"), ("expires_at", "expired_token")])
def test_revoked_and_expired_keys_are_rejected(api: Api, key: tuple[ApiKey, str], field: str, code: str) -> None:
    ApiKey.objects.filter(pk=key[0].pk).update(**{field: timezone.now() - timedelta(seconds=1)})
    response = api.get("jobs/123456789012345678")
    assert (response.status_code, response.json()["code"]) == (401, code)


@pytest.mark.parametrize("key", ["sk_short", "sk_" + "x" * 46, unknown_key()[:-1] + "_"])
def test_a_malformed_key_takes_no_query(key: str) -> None:
    # Without a database fixture, a query raises.
    response = HttpClient(headers={"authorization": f"Bearer {key}"}).get("/v1/sim/jobs/1")
    assert response.json()["code"] == "invalid_token"


@pytest.mark.parametrize("tail", ["", "/status", "/result"])
def test_another_accounts_job_is_not_found(api: Api, tail: str) -> None:
    other_job = make_job()
    responses = [
        api.get(f"jobs/{job_id}{tail}") for job_id in (other_job.pk, "9" * 18, "x", "1" * 400, "-1", "\u0661" * 18)
    ]
    assert {response.status_code for response in responses} == {404}
    assert {response.json()["code"] for response in responses} == {"not_found"}


def test_responses_contain_the_number_of_unfinished_jobs(api: Api, key: tuple[ApiKey, str]) -> None:
    job = make_job(key[0].client)
    make_job(key[0].client)
    make_job()
    response = api.get(f"jobs/{job.pk}")
    assert (response.headers["X-Active-Jobs"], response.headers["X-Max-Active-Jobs"]) == ("2", "200")


def test_the_last_use_of_a_key_is_recorded_once_a_minute(api: Api, key: tuple[ApiKey, str]) -> None:
    job = make_job(key[0].client)
    api.get(f"jobs/{job.pk}")
    first = ApiKey.objects.get(pk=key[0].pk).last_used_at
    api.get(f"jobs/{job.pk}")
    assert first is not None
    assert ApiKey.objects.get(pk=key[0].pk).last_used_at == first


def test_only_the_hash_of_a_key_is_stored(key: tuple[ApiKey, str]) -> None:
    row = ApiKey.objects.filter(pk=key[0].pk).values().get()
    assert key[1][5:15] not in str(row)
    assert row["sha256"] == hashlib.sha256(key[1].encode()).hexdigest()


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "application/vnd.x+json", "nonsense"])
def test_responses_are_json_for_any_accept_header(api: Api, key: tuple[ApiKey, str], accept: str) -> None:
    job = make_job(key[0].client)
    response = api.http.get(f"/v1/sim/jobs/{job.pk}", headers={"accept": accept})
    assert (response.status_code, response.json()["id"]) == (200, str(job.pk))


def test_no_parameter_selects_another_format(api: Api) -> None:
    response = api.http.get("/v1/sim/jobs?format=xml")
    assert (response.status_code, response.json()["meta"]["issues"][0]["path"]) == (400, "format")


def test_options_is_not_a_supported_method(api: Api) -> None:
    assert api.http.options("/v1/sim/jobs").json()["code"] == "method_not_allowed"


def test_links_start_with_the_public_base_url(api: Api, key: tuple[ApiKey, str], settings: Settings) -> None:
    settings.PUBLIC_BASE_URL = "https://sims.example"
    job = make_job(key[0].client)
    share = api.get(f"jobs/{job.pk}").json()["links"]["share"]
    assert share == f"https://sims.example/share/{job.share_token}"


def test_a_key_has_a_checksum(key: tuple[ApiKey, str]) -> None:
    secret = key[1]
    assert re.fullmatch(r"sk_[0-9A-Za-z]{46}", secret)
    assert secret[-6:] == checksum(secret[:-6])
    assert key[0].last4 == secret[-4:]
    assert make_key()[1] != secret


def test_an_internal_error_returns_the_error_envelope(
    api: Api, key: tuple[ApiKey, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.live.progress.progress_of", lambda _: 1 / 0)
    job = make_job(key[0].client)
    response = api.get(f"jobs/{job.pk}/status")
    assert (response.status_code, response.json()["code"]) == (500, "internal_error")
    assert "division" not in response.content.decode()
