"""`GET jobs` (docs/reference/api.md#list-jobs)."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clients.models import ApiKey
from simservice.api.pagination import make_cursor
from simservice.ids import first_id_of
from tests.conftest import Api
from tests.factories import make_job, make_running_job, start_attempt
from tests.jobs.api.bodies import only_in

pytestmark = only_in("C")


@pytest.fixture
def jobs(key: tuple[ApiKey, str]) -> list[str]:
    """Return the ids of seven jobs, newest first."""
    return [str(make_job(key[0].client, metadata={"n": str(n)}).pk) for n in range(7)][::-1]


def ids(body: dict[str, Any]) -> list[str]:
    return [job["id"] for job in body["jobs"]]


def test_the_fields_of_a_listed_job(api: Api, key: tuple[ApiKey, str]) -> None:
    job = make_running_job(client=key[0].client, metadata={"a": "b"})
    (listed,) = api.get("jobs").json()["jobs"]
    assert set(listed) == {
        "id", "status", "createdAt", "completedAt", "errorCode", "metadata", "title", "buildId", "links",
    }  # fmt: skip
    assert (listed["id"], listed["status"], listed["metadata"]) == (str(job.pk), "running", {"a": "b"})
    assert listed["buildId"] == str(job.build_id)


def test_pages_have_no_gaps_or_duplicates(api: Api, jobs: list[str]) -> None:
    first = api.get("jobs?limit=3").json()
    assert first["page"].keys() == {"limit", "hasMore", "nextCursor", "since"}
    assert (first["page"]["limit"], first["page"]["hasMore"]) == (3, True)
    second = api.get("jobs", data={"limit": 3, "cursor": first["page"]["nextCursor"]}).json()
    third = api.get("jobs", data={"limit": 3, "cursor": second["page"]["nextCursor"]}).json()
    assert ids(first) + ids(second) + ids(third) == jobs
    assert (third["page"]["hasMore"], third["page"]["nextCursor"]) == (False, None)


def test_a_full_last_page_has_no_next_page(api: Api, jobs: list[str]) -> None:
    assert api.get("jobs?limit=7").json()["page"]["hasMore"] is False


def test_new_jobs_do_not_shift_the_pages(api: Api, key: tuple[ApiKey, str], jobs: list[str]) -> None:
    cursor = api.get("jobs?limit=3").json()["page"]["nextCursor"]
    make_job(key[0].client)
    assert ids(api.get("jobs", data={"limit": 3, "cursor": cursor}).json()) == jobs[3:6]


def test_only_the_accounts_jobs_are_listed(api: Api, jobs: list[str]) -> None:
    make_job()
    assert ids(api.get("jobs").json()) == jobs


def test_jobs_past_their_retention_are_not_listed(api: Api, key: tuple[ApiKey, str], jobs: list[str]) -> None:
    for days in (31, 29):
        make_job(key[0].client, id=first_id_of(timezone.now() - timedelta(days=days)))
    body = api.get("jobs").json()
    assert ids(body)[:-1] == jobs
    assert body["page"]["since"].startswith((timezone.now() - timedelta(days=30)).date().isoformat())


@pytest.mark.parametrize("limit", ["0", "101", "-1", "ten", "", "1.0", "٣", "9999"])
def test_an_invalid_limit_is_rejected(api: Api, limit: str) -> None:
    response = api.get("jobs", data={"limit": limit})
    assert (response.status_code, response.json()["meta"]["issues"][0]["path"]) == (400, "limit")


@pytest.mark.parametrize("query", ["page=2", "limit=1&limit=2", "Cursor=x"])
def test_unknown_and_repeated_parameters_are_rejected(api: Api, query: str) -> None:
    assert api.get(f"jobs?{query}").json()["code"] == "validation_failed"


def forged(cursor: str) -> list[str]:
    """Return cursors that the service did not issue."""
    body, signature = cursor.split(".")
    return [
        "",
        "x",
        "x.y",
        f"{body}.",
        f".{signature}",
        f"{body}A.{signature}",
        f"{body}.{signature[:-1]}",
        "é",
        "\0",
    ]


def test_a_cursor_cannot_be_forged(api: Api, key: tuple[ApiKey, str]) -> None:
    own = make_cursor(account_id=key[0].client.account_id, last_id=10**17)
    other = make_cursor(account_id=key[0].client.account_id + 1, last_id=10**17)
    assert api.get("jobs", data={"cursor": own}).status_code == 200
    for cursor in [*forged(own), other]:
        response = api.get("jobs", data={"cursor": cursor})
        assert (response.status_code, response.json()["code"]) == (400, "invalid_cursor"), cursor


def test_a_page_of_any_length_takes_two_queries(api: Api, jobs: list[str]) -> None:
    api.get("jobs")
    with CaptureQueriesContext(connection) as queries:
        api.get("jobs?limit=7")
    assert len(queries) == 2


def test_jobs_are_filtered_by_status(api: Api, key: tuple[ApiKey, str], jobs: list[str]) -> None:
    running = str(make_running_job(client=key[0].client).pk)
    claimed = make_job(key[0].client)
    assert start_attempt(claimed, worker="worker-2")
    starting = str(claimed.pk)
    assert ids(api.get("jobs?status=running").json()) == [running]
    assert ids(api.get("jobs?status=queued").json()) == [starting]
    assert ids(api.get("jobs?status=pending,queued,running").json()) == [starting, running, *jobs]
    assert ids(api.get("jobs?status=failed,timed_out").json()) == []


def test_filters_hold_on_every_page(api: Api, key: tuple[ApiKey, str], jobs: list[str]) -> None:
    make_running_job(client=key[0].client)
    query = {"status": "pending,failed", "createdAfter": "2020-01-01T00:00:00Z", "limit": 4}
    first = api.get("jobs", data=query).json()
    second = api.get("jobs", data={**query, "cursor": first["page"]["nextCursor"]}).json()
    assert ids(first) + ids(second) == jobs
    assert second["page"]["hasMore"] is False


def test_jobs_are_filtered_by_time(api: Api, jobs: list[str]) -> None:
    created = [job["createdAt"] for job in api.get("jobs").json()["jobs"]]
    found = ids(api.get("jobs", data={"createdAfter": created[2]}).json())
    assert found == [job for job, at in zip(jobs, created, strict=True) if at >= created[2]]
    for moment in ("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"):
        expected = [] if moment.startswith("9") else jobs
        assert ids(api.get("jobs", data={"createdAfter": moment}).json()) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("status", value) for value in ("", ",", "failed,", "starting", "Failed", "failed\0", "x" * 5_000)),
        *(("createdAfter", value) for value in ("", "2026-11-20", "2026-11-20T08:00:00", "2026-13-01T00:00:00Z")),
        *(("createdAfter", value) for value in ("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59")),
        *(("createdAfter", value) for value in ("2026-11-20T08:00:00Z\0", "٢026-11-20T08:00:00Z")),
        *(("ids", value) for value in ("", ",", "1", "x" * 18, f"{10**17},", "٣" * 18, f"{10**17}\0")),
        ("ids", ",".join(str(10**17 + n) for n in range(101))),
        ("ids", ",".join([str(10**17)] * 101)),
    ],
)
def test_an_invalid_filter_is_rejected(api: Api, name: str, value: str) -> None:
    response = api.get("jobs", data={name: value})
    assert (response.status_code, response.json()["meta"]["issues"][0]["path"]) == (400, name)


def test_jobs_are_found_by_id(api: Api, jobs: list[str]) -> None:
    other, unknown = str(make_job().pk), str(10**17)
    body = api.get("jobs", data={"ids": ",".join([jobs[4], other, jobs[1], unknown, jobs[4]])}).json()
    assert ids(body) == [jobs[1], jobs[4]]
    assert (body["page"]["hasMore"], body["page"]["nextCursor"]) == (False, None)


def test_jobs_past_their_retention_are_not_found_by_id(api: Api, key: tuple[ApiKey, str]) -> None:
    old = make_job(key[0].client, id=first_id_of(timezone.now() - timedelta(days=31)))
    assert ids(api.get("jobs", data={"ids": str(old.pk)}).json()) == []


@pytest.mark.parametrize("other", ["status=failed", "limit=1", "cursor=x", "createdAfter=2026-11-20T08:00:00Z"])
def test_ids_cannot_be_combined(api: Api, other: str) -> None:
    issues = api.get(f"jobs?ids={10**17}&{other}").json()["meta"]["issues"]
    assert [issue["path"] for issue in issues] == [other.split("=")[0]]


@pytest.mark.parametrize("query", ["status=pending,running", f"ids={10**17}", "createdAfter=2020-01-01T00:00:00Z"])
def test_a_filtered_page_takes_two_queries(api: Api, jobs: list[str], query: str) -> None:
    api.get("jobs")
    with CaptureQueriesContext(connection) as queries:
        api.get(f"jobs?{query}")
    assert len(queries) == 2
