"""Filters of the list of jobs by client and metadata, alone and combined with others."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clients.models import ApiKey
from jobs.models import Job
from jobs.results import listing
from simservice.ids import first_id_of
from tests.conftest import Api
from tests.factories import make_account, make_client, make_job
from tests.jobs.api.bodies import only_in

pytestmark = only_in("C")

METADATA = {"season": "3", "a.b": "x=y&z", "empty": "", "ü \n😀": 'é"\\\u2028', "metadata.season": "4"}


def found(api: Api, **query: Any) -> list[str]:
    """Return the ids of all jobs that match a query, read page by page."""
    return [job["id"] for page in pages(api, query) for job in page["jobs"]]


def pages(api: Api, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield all pages of a list."""
    cursor: dict[str, Any] = {}
    while True:
        response = api.get("jobs", data=query | cursor)
        assert response.status_code == 200, response.content
        yield response.json()
        page = response.json()["page"]
        if not page["hasMore"]:
            assert page["nextCursor"] is None
            return
        cursor = {"cursor": page["nextCursor"]}


def test_jobs_are_filtered_by_the_name_of_their_client(api: Api, key: tuple[ApiKey, str]) -> None:
    default = key[0].client
    other = make_client(default.account, "Bot 😀")
    mine, theirs = make_job(default), make_job(other)
    make_job(make_client(make_account(), "Bot 😀"))
    assert found(api, client="default") == [str(mine.pk)]
    assert found(api, client="Bot 😀") == [str(theirs.pk)]
    for unknown in ("bot 😀", "Default", str(default.pk), " default"):
        assert found(api, client=unknown) == []


@pytest.mark.parametrize(("name", "value"), METADATA.items())
def test_jobs_are_filtered_by_an_entry_of_their_metadata(
    api: Api, key: tuple[ApiKey, str], name: str, value: str
) -> None:
    job = make_job(key[0].client, metadata=METADATA)
    make_job(key[0].client, metadata={"season": "33", name: f"{value} "})
    make_job(metadata=METADATA)
    assert found(api, **{f"metadata.{name}": value}) == [str(job.pk)]
    for other in (value + "x", value.swapcase() + "\t", f"{value}%", "_"):
        assert found(api, **{f"metadata.{name}": other}) == []
    assert found(api, **{f"metadata.{name}x": value}) == []


def test_names_and_values_are_not_confused(api: Api, key: tuple[ApiKey, str]) -> None:
    """The digest of an entry depends on where its name ends."""
    make_job(key[0].client, metadata={"ab": "c"})
    assert found(api, **{"metadata.a": "bc"}) == []
    assert found(api, **{"metadata.abc": ""}) == []


def test_jobs_match_all_entries(api: Api, key: tuple[ApiKey, str]) -> None:
    make_job(key[0].client, metadata={"a": "1"})
    both = make_job(key[0].client, metadata={"b": "2", "a": "1"})
    make_job(key[0].client, metadata={"a": "1", "b": "1"})
    assert found(api, **{"metadata.a": "1", "metadata.b": "2"}) == [str(both.pk)]


def test_a_submitted_job_is_found_at_once(api: Api) -> None:
    body = {
        "build": {"channel": "latest"},
        "profile": {"text": "mage=x\n"},
        "metadata": METADATA | {"run": "nightly"},
    }
    submitted = api.post("jobs", body).json()["id"]
    assert found(api, **{"metadata.run": "nightly", "metadata.season": "3"}) == [submitted]


def test_jobs_past_their_retention_are_not_found(api: Api, key: tuple[ApiKey, str]) -> None:
    for days in (31, 29):
        old = first_id_of(timezone.now() - timedelta(days=days))
        make_job(key[0].client, id=old, metadata={"a": "1"})
    assert found(api, **{"metadata.a": "1"}) == [str(old)]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("metadata.=x", "metadata."),
        (f"metadata.{'k' * 65}=x", f"metadata.{'k' * 65}"),
        (f"metadata.a={'v' * 501}", "metadata.a"),
        ("metadata.a=%00", "metadata.a"),
        ("metadata.a%00=x", "metadata.a\0"),
        ("metadata.a=1&metadata.a=1", "metadata.a"),
        ("metadata=x", "metadata"),
        ("Metadata.a=x", "Metadata.a"),
        ("metadata[a]=x", "metadata[a]"),
        (urlencode({f"metadata.{n}": "" for n in range(21)}), "metadata"),
        ("client=", "client"),
        (f"client={'c' * 65}", "client"),
        ("client=%00", "client"),
        ("client=a&client=b", "client"),
        (f"ids={10**17}&client=default", "client"),
        (f"ids={10**17}&metadata.a=1", "metadata.a"),
    ],
)
def test_an_invalid_filter_is_rejected(api: Api, query: str, path: str) -> None:
    response = api.get(f"jobs?{query}")
    assert (response.status_code, response.json()["code"]) == (400, "validation_failed")
    assert [issue["path"] for issue in response.json()["meta"]["issues"]] == [path]


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00%2B14:00"])
def test_a_time_beyond_the_calendar_has_its_own_error(api: Api, moment: str) -> None:
    (issue,) = api.get(f"jobs?createdAfter={moment}").json()["meta"]["issues"]
    assert issue == {"path": "createdAfter", "message": "Must be between the years 1 and 9999 in UTC."}


def test_all_invalid_entries_are_reported(api: Api) -> None:
    issues = api.get(f"jobs?metadata.=x&metadata.a=1&metadata.b={'v' * 501}").json()["meta"]["issues"]
    assert [(issue["path"], issue["message"]) for issue in issues] == [
        ("metadata.", "Names must have 1 to 64 characters."),
        ("metadata.b", "Must have at most 500 characters."),
    ]


LONGEST = {f"metadata.{'k' * 62}{number:02}": "v" * 500 for number in range(20)}


@pytest.mark.parametrize("query", [LONGEST, {"client": "c" * 64}])
def test_the_longest_filters_are_accepted(api: Api, query: dict[str, str]) -> None:
    assert found(api, **query) == []


@pytest.mark.parametrize("text", ["\ud800", "%ED%A0%80", "%ff"])
def test_text_that_is_not_unicode_matches_nothing(api: Api, key: tuple[ApiKey, str], text: str) -> None:
    make_job(key[0].client, metadata={"a": "b"})
    query = f"metadata.a={text}".encode("utf-8", "surrogatepass").decode("latin-1")
    assert api.get(f"jobs?{query}").json()["jobs"] == []


@pytest.mark.parametrize("searched", [1, 1_000])
@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"client": "default"}, 3),
        ({"client": "nobody"}, 3),
        ({"client": "default", "status": "pending,failed"}, 3),
        ({"metadata.n": "1"}, 2),
        ({"metadata.n": "1", "metadata.m": "2", "createdAfter": "2020-01-01T00:00:00Z"}, 2),
    ],
)
def test_the_number_of_queries_is_constant(
    api: Api,
    key: tuple[ApiKey, str],
    query: dict[str, str],
    count: int,
    searched: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Queries: the API key, the client if it is a filter, and the page."""
    monkeypatch.setattr(listing, "SEARCHED_JOBS", searched)
    for _ in range(3):
        make_job(key[0].client, metadata={"n": "1", "m": "2"})
    api.get("jobs")
    with CaptureQueriesContext(connection) as queries:
        assert api.get("jobs", data=query).status_code == 200
    assert len(queries) == count


def test_a_page_is_short_if_the_search_ends_before_it_is_full(
    api: Api, key: tuple[ApiKey, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "SEARCHED_JOBS", 4)
    jobs = [make_job(key[0].client, metadata={"a": "1", "b": str(number % 5)}) for number in range(10)]
    matching = {"metadata.a": "1", "metadata.b": "0"}
    # Only two jobs have the second entry, so these are searched and all are on one page.
    assert [len(page["jobs"]) for page in pages(api, matching)] == [2]
    # Among ten jobs of the client and ten with the entry, four are searched for each page.
    query = {"metadata.a": "1", "client": "default"}
    assert [len(page["jobs"]) for page in pages(api, query)] == [4, 4, 2]
    assert found(api, **matching) == [str(jobs[5].pk), str(jobs[0].pk)]
    monkeypatch.setattr(listing, "SEARCHED_JOBS", 2)
    Job.objects.update(created_at=timezone.now() - timedelta(minutes=1))
    late = {"metadata.a": "1", "createdAfter": timezone.now().isoformat().replace("+00:00", "Z")}
    assert [len(page["jobs"]) for page in pages(api, late)] == [0] * 6
