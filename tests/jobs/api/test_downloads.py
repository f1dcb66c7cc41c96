"""Downloads of artifacts, from each storage."""

import gzip
import io
import secrets
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.test import Client as HttpClient

from jobs.artifacts import artifact_files
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact
from simservice.storages import seekable_gzip
from simservice.storages.seekable_gzip import SEGMENT_BYTES
from tests.factories import make_running_job
from tests.jobs.api.bodies import only_in

pytestmark = [pytest.mark.usefixtures("each_storage"), only_in("C")]

HTML = b"<!doctype html><script>alert(1)</script>" + b"x" * 5000


@pytest.fixture
def artifact(db: None) -> Artifact:
    """The only artifact of a completed job."""
    job = make_running_job()
    stored = artifact_files.store(job, Artifact.Kind.HTML_REPORT, io.BytesIO(HTML))
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, sim_duration_ms=1, summary={"mainActor": None}))
    stored.save(force_insert=True)
    return stored


def fetch(artifact: Artifact, **headers: str) -> tuple[Any, bytes]:
    """Download an artifact without credentials."""
    response: Any = HttpClient().get(f"/artifacts/{artifact.token}", headers=headers)
    return response, b"".join(response.streaming_content) if response.streaming else response.content


def test_an_html_report_is_sandboxed_from_our_origin(artifact: Artifact) -> None:
    response, body = fetch(artifact)
    assert body == HTML
    policy = response.headers["Content-Security-Policy"].split("; ")
    assert {"sandbox allow-scripts", "default-src 'none'", "script-src 'unsafe-inline'"} <= set(policy)
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "no-referrer"


def test_an_html_report_can_load_nothing_from_any_host(artifact: Artifact) -> None:
    """Its scripts and styles are inline, and its pictures are data URLs."""
    policy = fetch(artifact)[0].headers["Content-Security-Policy"]
    _, *directives = [directive.split() for directive in policy.split("; ")]
    allowed = {name: set(sources) for name, *sources in directives}
    assert allowed["default-src"] == {"'none'"}
    assert set().union(*allowed.values()) == {"'none'", "'unsafe-inline'", "data:"}


NAMES = {
    Artifact.Kind.JSON_REPORT: "report.json",
    Artifact.Kind.HTML_REPORT: "report.html",
    Artifact.Kind.CSV_REPORT: "result.csv",
    Artifact.Kind.INPUT: "input.simc",
    Artifact.Kind.STDOUT_LOG: "stdout.log",
    Artifact.Kind.STDERR_LOG: "stderr.log",
}


@pytest.mark.parametrize(("stage", "before"), [(None, ""), (2, "stage-2-")])
@pytest.mark.parametrize("headers", [{}, {"accept_encoding": "gzip"}, {"range": "bytes=0-0"}], ids=str)
@pytest.mark.django_db
def test_a_download_has_the_file_name_of_its_artifact(
    stage: int | None, before: str, headers: dict[str, str]
) -> None:
    job = make_running_job()
    for kind, name in NAMES.items():
        stored = artifact_files.store(job, kind, io.BytesIO(b"xy"), stage=stage)
        stored.save(force_insert=True)
        response, _ = fetch(stored, **headers)
        shown = "inline" if kind == Artifact.Kind.HTML_REPORT else "attachment"
        assert response.headers["Content-Disposition"] == f'{shown}; filename="{before}{name}"'
        assert response.headers["Content-Type"] == stored.mime_type


def test_an_html_report_is_shown_inline(artifact: Artifact) -> None:
    response, _ = fetch(artifact)
    assert response.headers["Content-Disposition"] == 'inline; filename="report.html"'
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"


def test_an_error_has_no_file_name(artifact: Artifact) -> None:
    default_storage.delete(artifact.storage_name)
    assert "Content-Disposition" not in fetch(artifact)[0].headers


def test_the_compressed_file_is_sent_unchanged(artifact: Artifact) -> None:
    response, body = fetch(artifact, accept_encoding="gzip, br")
    assert response.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in response.headers["Vary"]
    assert gzip.decompress(body) == HTML


@pytest.mark.parametrize(
    ("requested", "status", "expected"),
    [
        ("bytes=0-9", 206, HTML[:10]),
        ("bytes=10-", 206, HTML[10:]),
        ("bytes=-7", 206, HTML[-7:]),
        ("bytes=5-999999", 206, HTML[5:]),
        ("bytes=0-1,5-6", 200, HTML),
        ("bytes=-", 200, HTML),
        ("bytes=5-2", 200, HTML),
        ("nonsense", 200, HTML),
    ],
)
def test_range_requests_return_parts_of_an_artifact(
    artifact: Artifact, requested: str, status: int, expected: bytes
) -> None:
    response, body = fetch(artifact, range=requested)
    assert (response.status_code, body) == (status, expected)


def test_an_unchanged_artifact_returns_304(artifact: Artifact) -> None:
    tag = fetch(artifact)[0].headers["ETag"]
    response, body = fetch(artifact, if_none_match=tag)
    assert (response.status_code, body) == (304, b"")


def test_each_representation_has_its_own_etag(artifact: Artifact) -> None:
    plain, packed = fetch(artifact)[0], fetch(artifact, accept_encoding="gzip")[0]
    assert plain.headers["ETag"] != packed.headers["ETag"]
    assert plain.headers["Accept-Ranges"] == "bytes"
    assert "Accept-Ranges" not in packed.headers
    assert fetch(artifact, accept_encoding="gzip", if_none_match=plain.headers["ETag"])[0].status_code == 200
    assert fetch(artifact, accept_encoding="gzip, br", if_none_match=packed.headers["ETag"])[0].status_code == 304
    assert fetch(artifact, if_none_match="*")[0].status_code == 304


@pytest.mark.parametrize("accepted", ["gzip;q=0", "gzip; q=0.0", "br", "xgzip", "identity"])
def test_a_compressed_file_is_sent_only_if_accepted(artifact: Artifact, accepted: str) -> None:
    response, body = fetch(artifact, accept_encoding=accepted)
    assert body == HTML
    assert "Content-Encoding" not in response.headers


def test_a_range_of_changed_content_returns_the_whole_file(artifact: Artifact) -> None:
    assert fetch(artifact, range="bytes=0-1", if_range='"other"')[0].status_code == 200
    assert fetch(artifact, range="bytes=0-1", if_range=f'"{artifact.sha256}"')[0].status_code == 206


def test_a_head_request_reads_nothing(artifact: Artifact) -> None:
    response: Any = HttpClient().head(f"/artifacts/{artifact.token}")
    assert (response.status_code, response.streaming, response.headers["Content-Length"]) == (
        200,
        False,
        str(len(HTML)),
    )


@pytest.mark.parametrize(
    "headers",
    [{}, {"accept-encoding": "gzip"}, {"accept-encoding": "gzip", "range": "bytes=5-9"}],
    ids=["plain", "gzip", "part"],
)
def test_a_head_request_has_the_headers_of_get(artifact: Artifact, headers: dict[str, str]) -> None:
    path = f"/artifacts/{artifact.token}"
    get_response: Any = HttpClient().get(path, headers=headers)
    head = HttpClient().head(path, headers=headers)
    assert len(b"".join(get_response.streaming_content)) == int(get_response.headers["Content-Length"])
    counted = {"X-Request-Id", "RateLimit", "X-RateLimit-Remaining", "X-RateLimit-Reset"}
    assert {(name, value) for name, value in head.items() if name not in counted} == {
        (name, value) for name, value in get_response.items() if name not in counted
    }
    assert (head.status_code, head.content) == (get_response.status_code, b"")


def test_a_missing_file_returns_404(artifact: Artifact) -> None:
    default_storage.delete(artifact.storage_name)
    response, _ = fetch(artifact)
    assert (response.status_code, response.json()["code"]) == (404, "not_found")
    assert response.headers["Cache-Control"] == "no-store"


def test_a_download_survives_the_removal_of_its_file(artifact: Artifact) -> None:
    response: Any = HttpClient().get(f"/artifacts/{artifact.token}")
    default_storage.delete(artifact.storage_name)
    assert b"".join(response.streaming_content) == HTML


def test_a_range_near_the_end_reads_little(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the segments that overlap the range are read; random bytes do not compress."""
    content = secrets.token_bytes(8 * SEGMENT_BYTES)
    stored = artifact_files.store(artifact.job, Artifact.Kind.JSON_REPORT, io.BytesIO(content))
    stored.save(force_insert=True)
    ranges = record_ranges(monkeypatch)
    assert fetch(stored, range="bytes=-100")[1] == content[-100:]
    assert ranges == [
        (0, seekable_gzip.header_size(stored.bytes)),
        (pytest.approx(7 * SEGMENT_BYTES, rel=0.01), None),
    ]
    start = 3 * SEGMENT_BYTES + 5
    assert fetch(stored, range=f"bytes={start}-{start + 9}")[1] == content[start : start + 10]
    assert ranges[-1] == pytest.approx((3 * SEGMENT_BYTES, 4 * SEGMENT_BYTES), rel=0.01)


def record_ranges(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int | None]]:
    """Return a list that records the ranges read from the storage."""
    ranges: list[tuple[int, int | None]] = []
    storage: Any = type(default_storage._wrapped)  # type: ignore[attr-defined]
    open_range = storage.open_range

    def recording(self: Any, name: str, start: int, stop: int | None) -> Any:
        ranges.append((start, stop))
        return open_range(self, name, start, stop)

    monkeypatch.setattr(storage, "open_range", recording)
    return ranges


@contextmanager
def peak() -> Iterator[list[int]]:
    """Measure the peak memory, in bytes, that a block allocates."""
    measured: list[int] = []
    tracemalloc.start()
    try:
        yield measured
        measured.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_files_are_streamed_in_both_directions(artifact: Artifact) -> None:
    content = io.BytesIO(secrets.token_bytes(24 << 20))
    with peak() as uploading:
        stored = artifact_files.store(artifact.job, Artifact.Kind.JSON_REPORT, content)
    stored.save(force_insert=True)
    with peak() as downloading:
        response: Any = HttpClient().get(f"/artifacts/{stored.token}")
        assert sum(map(len, response.streaming_content)) == stored.bytes
    assert uploading[0] < 12 << 20
    assert downloading[0] < 4 << 20
