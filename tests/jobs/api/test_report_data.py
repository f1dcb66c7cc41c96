"""Report data under a share link: `/share/{token}/data.json` and the files beside it."""

import gzip
import io
import json
import secrets
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from jobs.artifacts import artifact_files
from jobs.artifacts.retention import GRACE
from jobs.enums import ErrorCode, Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Job
from jobs.results.report_data import TAIL_BYTES, DataFile
from simservice.storages.seekable_gzip import SEGMENT_BYTES
from tests.factories import PROFILE, make_job, make_running_job
from tests.jobs.api.bodies import only_in

pytestmark = [pytest.mark.django_db, only_in("C")]

Kind = Artifact.Kind
REPORT = b'{"version":"1200-01","git_revision":"abc","sim":{"players":[{"collected_data":{"dps":{"mean":1.5}}}]}}\n'
FILES = {
    Kind.JSON_REPORT: REPORT,
    Kind.CSV_REPORT: b"name,dps_mean\nFrosty,1.5\n",
    Kind.HTML_REPORT: b"<!doctype html><script>alert(1)</script>",
    Kind.INPUT: b"# as it ran\n",
    Kind.STDOUT_LOG: b"out\n",
    Kind.STDERR_LOG: b"err\n",
}
FIGURES = {"mean": 1.5, "mean_error": 0.1, "mean_stddev": 0.1, "stddev": 0.2, "min": 1.0, "max": 2.0}
SUMMARY = {"metric": "dps", "mainActor": {"name": "Frosty", **FIGURES}, "multiStage": {"enabled": False}}


def end(job: Job, files: Mapping[Kind, bytes] = FILES, *, stages: tuple[int | None, ...] = (None,)) -> Job:
    """Complete a running job with files of each stage."""
    for stage in stages:
        for kind, content in files.items():
            artifact_files.store(job, kind, io.BytesIO(content), stage=stage).save(force_insert=True)
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, sim_duration_ms=1, summary=SUMMARY))
    return Job.objects.select_related("account").get(pk=job.pk)


@pytest.fixture
def job() -> Job:
    """A completed job with one file of each kind."""
    return end(make_running_job())


def fetch(job: Job, file: str = "data.json", **headers: str) -> tuple[Any, bytes]:
    """Read a file under the job's share link, without credentials."""
    response: Any = HttpClient().get(f"/share/{job.share_token}/{file}", headers=headers)
    return response, b"".join(response.streaming_content) if response.streaming else response.content


def simbot(job: Job) -> Any:
    return json.loads(fetch(job)[1])["simbot"]


def test_data_json_is_the_report_with_a_block_about_it(job: Job) -> None:
    response, body = fetch(job)
    document = json.loads(body)
    about = document.pop("simbot")
    assert document == json.loads(REPORT)
    assert (about["simType"], about["title"], about["input"]) == ("quick", job.public_title, PROFILE)
    assert job.completed_at is not None
    assert about["date"] == int(job.completed_at.timestamp() * 1000)
    assert (about["hasFullJson"], about["meta"]["status"], about["meta"]["partial"]) == (False, "completed", False)
    assert response.headers["Content-Type"] == "application/json"
    assert int(response.headers["Content-Length"]) == len(body)
    assert fetch(job, "data.full.json")[1] == body


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("data.csv", FILES[Kind.CSV_REPORT]),
        ("input.txt", PROFILE.encode()),
        ("output.txt", FILES[Kind.STDOUT_LOG]),
        ("report.html", FILES[Kind.HTML_REPORT]),
    ],
)
def test_the_other_files_are_sent_as_they_are(job: Job, file: str, expected: bytes) -> None:
    response, body = fetch(job, file)
    assert body == expected
    assert f'filename="{file}"' in response.headers["Content-Disposition"]


def test_an_html_report_is_sandboxed_like_a_download(job: Job) -> None:
    downloaded = HttpClient().head(f"/artifacts/{Artifact.objects.get(job=job, kind=Kind.HTML_REPORT).token}")
    response = fetch(job, "report.html")[0]
    for name in ("Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy", "X-Frame-Options"):
        assert response.headers[name] == downloaded.headers[name]
    assert response.headers["Content-Security-Policy"].startswith("sandbox allow-scripts;")


@pytest.mark.parametrize("file", list(DataFile))
def test_each_file_needs_two_queries(
    job: Job, file: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(2):
        assert fetch(job, file)[0].status_code == 200


@pytest.mark.usefixtures("each_storage")
@pytest.mark.parametrize("start", [0, 3, len(REPORT) - 5, len(REPORT), len(REPORT) + 9])
def test_ranges_are_parts_of_the_composed_document(job: Job, start: int) -> None:
    _, whole = fetch(job)
    response, body = fetch(job, range=f"bytes={start}-{start + 30}")
    assert (response.status_code, body) == (206, whole[start : start + 31])
    assert response.headers["Content-Range"] == f"bytes {start}-{start + 30}/{len(whole)}"
    assert fetch(job, range="bytes=-7")[1] == whole[-7:]
    assert fetch(job, range=f"bytes={len(whole)}-")[0].status_code == 416


def test_the_etag_changes_with_the_block(job: Job) -> None:
    tag = fetch(job)[0].headers["ETag"]
    assert fetch(job, if_none_match=tag)[0].status_code == 304
    Job.objects.filter(pk=job.pk).update(given_title="Raid")
    response, body = fetch(job, if_none_match=tag)
    assert (response.status_code, json.loads(body)["simbot"]["title"]) == (200, "Raid")
    assert fetch(job, range="bytes=0-3", if_range=tag)[0].status_code == 200
    assert fetch(job, range="bytes=0-3", if_range=response.headers["ETag"])[0].status_code == 206


def test_caches_ask_each_time(job: Job) -> None:
    assert fetch(job)[0].headers["Cache-Control"] == "private, no-cache"
    assert fetch(make_job())[0].headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("file", list(DataFile))
def test_files_are_compressed_for_clients_that_accept_it(job: Job, file: str) -> None:
    plain, body = fetch(job, file)
    packed, compressed = fetch(job, file, accept_encoding="gzip")
    assert (packed.headers["Content-Encoding"], gzip.decompress(compressed)) == ("gzip", body)
    assert packed.headers["ETag"] != plain.headers["ETag"]


@pytest.mark.parametrize("file", list(DataFile))
def test_a_head_request_has_the_headers_of_the_file(job: Job, file: str) -> None:
    head = HttpClient().head(f"/share/{job.share_token}/{file}")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Content-Length"] == str(len(fetch(job, file)[1]))


@pytest.mark.parametrize("file", list(DataFile))
def test_a_job_that_has_not_ended_has_no_files(file: str) -> None:
    response, body = fetch(make_job(), file)
    assert (response.status_code, json.loads(body)["code"]) == (404, "not_found")
    running = make_running_job()
    artifact_files.store(running, Kind.JSON_REPORT, io.BytesIO(REPORT)).save(force_insert=True)
    assert fetch(running, file)[0].status_code == 404


@pytest.mark.parametrize("file", list(DataFile))
def test_files_end_with_the_retention(job: Job, file: str) -> None:
    Job.objects.filter(pk=job.pk).update(created_at=timezone.now() - GRACE - timedelta(days=400))
    assert fetch(job, file)[0].status_code == 404


@pytest.mark.parametrize(
    "path",
    ["data.xml", "data.json.gz", "data.JSON", "input.simc", "datajson", "../data.json", "data.json%00", ".json"],
)
def test_other_names_do_not_exist(job: Job, path: str) -> None:
    assert HttpClient().get(f"/share/{job.share_token}/{path}").status_code == 404
    assert HttpClient().get(f"/share/{job.share_token}.json").status_code == 404
    assert HttpClient().get(f"/share/{job.share_token}x/data.json").status_code == 404
    assert HttpClient().get(f"/share/{'x' * 22}/data.json").status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_files_can_only_be_read(job: Job, method: str) -> None:
    response = HttpClient(enforce_csrf_checks=True).generic(method, f"/share/{job.share_token}/data.json")
    assert (response.status_code, response.headers["Allow"]) == (405, "GET, HEAD")


def test_scripts_of_every_site_can_read_the_files(job: Job) -> None:
    for response in (fetch(job)[0], fetch(make_job())[0], fetch(job, range="bytes=0-1")[0]):
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert {"ETag", "Content-Range"} <= set(response.headers["Access-Control-Expose-Headers"].split(", "))
        assert "Access-Control-Allow-Credentials" not in response.headers
    asked = {"origin": "https://example.org", "access-control-request-method": "GET"}
    preflight = HttpClient().options(f"/share/{job.share_token}/data.json", headers=asked)
    assert (preflight.status_code, preflight.headers["Access-Control-Allow-Methods"]) == (204, "GET, HEAD")
    assert "If-None-Match" in preflight.headers["Access-Control-Allow-Headers"]


@pytest.mark.parametrize("path", ["", "/card.png", "/ranking.csv"])
def test_scripts_cannot_read_the_pages(job: Job, path: str) -> None:
    response = HttpClient().get(f"/share/{job.share_token}{path}")
    assert response.status_code == 200
    assert "Access-Control-Allow-Origin" not in response.headers


def test_a_report_cannot_replace_the_block() -> None:
    """Parsers keep the last of two members with one name."""
    hostile = end(make_running_job(), {Kind.JSON_REPORT: b'{"simbot":{"simType":"evil"},"sim":{}}'})
    assert simbot(hostile)["simType"] == "quick"


@pytest.mark.parametrize("report", [b"{}", b"{ }\n", b'{"a":1 }  \n\n', b' {"a":{}}', '{"a":"ä"}'.encode()])
def test_every_object_gets_the_block(report: bytes) -> None:
    document = json.loads(fetch(end(make_running_job(), {Kind.JSON_REPORT: report}))[1])
    assert document.pop("simbot")["simType"] == "quick"
    assert document == json.loads(report)


@pytest.mark.parametrize("report", [b"", b"[]", b'{"a":', b"null", b"}", b'{"a":1' + b" " * TAIL_BYTES + b"}"])
def test_a_broken_report_does_not_exist(report: bytes) -> None:
    assert fetch(end(make_running_job(), {Kind.JSON_REPORT: report}))[0].status_code == 404


def test_a_title_cannot_break_the_document(job: Job) -> None:
    title = '"}],\\"</script>\u2028\U0001f600\x7f'
    Job.objects.filter(pk=job.pk).update(given_title=title)
    assert simbot(job)["title"] == title


def test_the_whole_jobs_report_comes_before_those_of_stages() -> None:
    staged = make_running_job()
    for stage in (1, 2, None, 3):
        content = json.dumps({"stage": stage}).encode()
        artifact_files.store(staged, Kind.JSON_REPORT, io.BytesIO(content), stage=stage).save(force_insert=True)
    artifact_files.store(staged, Kind.STDOUT_LOG, io.BytesIO(b"one"), stage=1).save(force_insert=True)
    artifact_files.store(staged, Kind.STDOUT_LOG, io.BytesIO(b"two"), stage=2).save(force_insert=True)
    staged = end(staged, {})
    document = json.loads(fetch(staged)[1])
    assert (document["stage"], document["simbot"]["simType"]) == (None, "multistage")
    assert fetch(staged, "output.txt")[1] == b"two"
    Artifact.objects.filter(job=staged, kind=Kind.JSON_REPORT, stage=None).delete()
    assert json.loads(fetch(staged)[1])["stage"] == 3


@pytest.mark.parametrize(
    ("summary", "others", "expected"),
    [
        ({}, 0, "quick"),
        ({}, 3, "advanced"),
        ({"actors": {"count": 2, "results": []}}, 0, "advanced"),
        ({"mainActor": {"profilesets": {"count": 1, "results": []}}}, 0, "advanced"),
        ({"not_reached": {"actors": 0, "profilesets": 4}}, 0, "advanced"),
    ],
)
def test_the_type_follows_from_what_ran(job: Job, summary: dict[str, Any], others: int, expected: str) -> None:
    Job.objects.filter(pk=job.pk).update(summary=SUMMARY | summary, other_characters=others)
    assert simbot(job)["simType"] == expected


def test_a_failed_job_has_the_files_that_it_left() -> None:
    job = make_running_job()
    artifact_files.store(job, Kind.STDOUT_LOG, io.BytesIO(b"out")).save(force_insert=True)
    failed = Outcome(status=Status.FAILED, error_code=ErrorCode.SIMULATION_ERROR, reason="x", sim_duration_ms=1)
    assert job_moves.finish(job, failed)
    assert fetch(job)[0].status_code == 404
    assert fetch(job, "output.txt")[1] == b"out"


def test_a_job_with_game_credentials_does_not_show_its_profile(job: Job) -> None:
    """Credentials are removed from files, but not from the submitted text."""
    Job.objects.filter(pk=job.pk).update(has_credentials=True)
    assert (simbot(job)["input"], fetch(job, "input.txt")[0].status_code) == (None, 404)


@pytest.mark.parametrize("whose", ["account", "job"])
def test_hidden_inputs_are_in_no_file(job: Job, whose: str) -> None:
    shared = job.account if whose == "account" else job
    type(shared).objects.filter(pk=shared.pk).update(shares_inputs=False)
    assert (simbot(job)["input"], fetch(job, "data.csv")[0].status_code) == (None, 200)
    assert [fetch(job, file)[0].status_code for file in ("input.txt", "output.txt")] == [404, 404]


def test_metadata_and_account_are_in_no_file() -> None:
    job = end(make_running_job(metadata={"note": "a secret", "title": "secret title"}))
    for file in DataFile:
        body = fetch(job, file)[1].decode()
        assert not any(secret in body for secret in ("secret", job.account.name))


def test_more_requests_than_the_limit_read_neither_database_nor_storage(
    job: Job, settings: Settings, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    settings.PUBLIC_REQUESTS_PER_MINUTE = 3
    assert [fetch(job)[0].status_code for _ in range(3)] == [200] * 3
    default_storage.delete(Artifact.objects.get(job=job, kind=Kind.JSON_REPORT).storage_name)
    with django_assert_num_queries(0):
        refused = [fetch(job)[0] for _ in range(50)]
    assert {response.status_code for response in refused} == {429}
    assert all(int(response.headers["Retry-After"]) > 0 for response in refused)
    assert all(response.headers["Access-Control-Allow-Origin"] == "*" for response in refused)
    # Programs that accept every type read the envelope.
    assert {response.json()["code"] for response in refused} == {"rate_limit_exceeded"}


def test_a_missing_file_is_an_error_without_a_name(job: Job) -> None:
    default_storage.delete(Artifact.objects.get(job=job, kind=Kind.JSON_REPORT).storage_name)
    response, body = fetch(job)
    assert (response.status_code, json.loads(body)["code"]) == (404, "not_found")
    assert "Content-Disposition" not in response.headers


class LargeReport(io.RawIOBase):
    """A JSON report of `size` bytes that is generated while it is read."""

    def __init__(self, size: int) -> None:
        self.left, self.place = size, 0
        self.block = secrets.token_hex(SEGMENT_BYTES // 2).encode()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the next part of `["…"]`."""
        if self.place == 0:
            data = b'{"sim":["'
        elif self.left > 0:
            data = self.block[: min(len(buffer), self.left)]
            self.left -= len(data)
        else:
            data, self.left = (b'"]}', self.left - 1) if self.left == 0 else (b"", self.left)
        buffer[: len(data)] = data
        self.place += len(data)
        return len(data)


def large_job(size: int) -> Job:
    """Complete a job with a report of about `size` bytes."""
    job = make_running_job()
    content = io.BufferedReader(LargeReport(size))
    artifact_files.store(job, Kind.JSON_REPORT, content).save(force_insert=True)
    return end(job, {})


def read_large(job: Job, size: int, **headers: str) -> tuple[int, int]:
    """Read the job's report; return its length, and the peak of memory in bytes."""
    tracemalloc.start()
    try:
        response: Any = HttpClient().get(f"/share/{job.share_token}/data.json", headers=headers)
        unpacked = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16) if "accept_encoding" in headers else None
        length, last = 0, b""
        for chunk in response.streaming_content:
            plain = unpacked.decompress(chunk) if unpacked else chunk
            length, last = length + len(plain), (last + plain)[-4096:]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert b'"simbot":{"simType":"quick"' in last
    assert length > size - SEGMENT_BYTES
    return length, peak


# Packing the larger one takes longer than a transaction may be idle.
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("size", [8 << 20, pytest.param(300 << 20, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("each_storage")
@pytest.mark.timeout(600)
def test_a_large_report_is_streamed(size: int) -> None:
    job = large_job(size)
    length, peak = read_large(job, size)
    assert peak < 4 << 20
    packed_length, peak = read_large(job, size, accept_encoding="gzip")
    assert (packed_length, peak < 4 << 20) == (length, True)
    response, tail = fetch(job, range=f"bytes={length - 40}-")
    assert (response.status_code, len(tail), tail[-2:]) == (206, 40, b"}}")
    assert fetch(job, range="bytes=0-8")[1] == b'{"sim":["'


# A refused request does not use the database, whose transactions may not be idle for so long.
@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_thousands_of_requests_for_one_report_are_mostly_refused(job: Job, settings: Settings) -> None:
    limit = settings.PUBLIC_REQUESTS_PER_MINUTE
    statuses = Counter(fetch(job, if_none_match="*")[0].status_code for _ in range(10 * limit))
    # A busy machine needs several minutes, each with a new limit.
    assert set(statuses) == {304, 429}
    assert limit <= statuses[304] < 5 * limit
