"""The Python library against a real stack, with faults on the way."""

import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import httpx
import psutil
import pytest

from simservice_client import (
    ApiError,
    Client,
    DownloadFailed,
    NotConfigured,
    ServiceUnreachable,
    UnexpectedResponse,
    WaitTimedOut,
)
from simservice_client.error_codes import InvalidToken, NotFound
from simservice_client.models import ResultArtifact
from tests.sdk.fault_proxy import FaultProxy, damage, hang, lose_answer, page, refuse, truncate
from tests.stack import LONG, QUICK, Stack, below

pytestmark = [pytest.mark.xdist_group("api"), pytest.mark.timeout(240)]
SUBMIT = "POST /v1/sim/jobs"


@pytest.fixture(scope="module")
def artifact(stack: Stack) -> ResultArtifact:
    """A JSON report."""
    with Client(stack.ready["url"], stack.ready["apiKey"]) as client:
        artifacts = client.jobs.run(QUICK, timeout=60).result.artifacts
    return next(each for each in artifacts if each.kind == "json_report")


def through(proxy: FaultProxy, artifact: ResultArtifact) -> ResultArtifact:
    """Return an artifact whose URL leads through the proxy."""
    return ResultArtifact.from_json(artifact.to_json() | {"url": proxy.url + artifact.url[len(proxy.upstream) :]})


def test_a_lost_answer_is_one_job(disturbed: Client, proxy: FaultProxy) -> None:
    before = {job.id for job in disturbed.jobs.list()}
    proxy.disturb("/jobs", lose_answer, lose_answer)
    accepted = disturbed.jobs.submit(QUICK)
    assert proxy.count(SUBMIT) == 3
    assert {job.id for job in disturbed.jobs.list()} - before == {accepted.id}


def test_two_calls_are_two_jobs_and_a_key_of_ones_own_is_one(client: Client) -> None:
    assert client.jobs.submit(QUICK).id != client.jobs.submit(QUICK).id
    key = f"test-{time.time_ns()}"
    assert len({client.jobs.submit(QUICK, idempotency_key=key).id for _ in range(3)}) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_failure_that_passes_is_repeated(disturbed: Client, proxy: FaultProxy, status: int) -> None:
    proxy.disturb("/credits", refuse(status))
    assert disturbed.credits().purchased == 0
    assert proxy.count("/credits") == 2


def test_a_page_of_a_proxy_is_repeated(disturbed: Client, proxy: FaultProxy) -> None:
    proxy.disturb("/credits", page(502))
    assert disturbed.credits().reserved >= 0


def test_retry_after_is_waited_for(disturbed: Client, proxy: FaultProxy) -> None:
    proxy.disturb("/credits", refuse(429, Retry_After="2"))
    started = time.monotonic()
    disturbed.credits()
    assert time.monotonic() - started >= 2


@pytest.mark.parametrize("skew", [timedelta(hours=-7), timedelta(hours=7)])
def test_a_date_in_retry_after_belongs_to_the_clock_of_the_service(
    disturbed: Client, proxy: FaultProxy, skew: timedelta
) -> None:
    now = datetime.now(UTC) + skew
    dates = {"Date": format_datetime(now), "Retry_After": format_datetime(now + timedelta(seconds=2))}
    proxy.disturb("/credits", refuse(503, **dates))
    started = time.monotonic()
    disturbed.credits()
    assert 1 <= time.monotonic() - started < 60


def test_a_long_retry_after_ends_the_attempts(stack: Stack, proxy: FaultProxy) -> None:
    proxy.disturb("/credits", refuse(503, Retry_After="3600"))
    with Client(proxy.url, stack.ready["apiKey"]) as client, pytest.raises(ApiError) as raised:
        client.credits()
    assert (raised.value.retry_after, proxy.count("/credits")) == (3600, 1)


def test_attempts_end(stack: Stack, proxy: FaultProxy) -> None:
    proxy.disturb("/credits", *[refuse(503)] * 9)
    with Client(proxy.url, stack.ready["apiKey"], retries=2) as client, pytest.raises(ApiError):
        client.credits()
    assert proxy.count("/credits") == 3


def test_a_timeout_is_repeated(stack: Stack, proxy: FaultProxy) -> None:
    proxy.disturb("/credits", hang(3))
    with Client(proxy.url, stack.ready["apiKey"], timeout=1) as client:
        client.credits()
    assert proxy.count("/credits") == 2


def test_a_refusal_is_not_repeated(disturbed: Client, proxy: FaultProxy) -> None:
    with pytest.raises(NotFound, match=r"not found|does not exist|no such") as raised:
        disturbed.jobs.get("176352841234500042")
    assert (raised.value.status, proxy.count("/jobs/")) == (404, 1)
    assert raised.value.request_id


def test_a_wait_survives_a_killed_web_server(stack: Stack, client: Client) -> None:
    job = client.jobs.submit(LONG)
    ended = []
    waiting = threading.Thread(target=lambda: ended.append(client.jobs.wait(job.id)))
    waiting.start()
    for process in below(psutil.Process(stack.process.pid), "gunicorn"):
        process.kill()
    until_up(client)
    client.jobs.cancel(job.id)
    waiting.join(120)
    assert [status.status for status in ended] == ["cancelled"]


def until_up(client: Client) -> None:
    """Wait until the web server answers again."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            client.alive()
        except ServiceUnreachable:
            time.sleep(0.2)
        else:
            return


def test_a_wait_ends_in_time(client: Client) -> None:
    job = client.jobs.submit(LONG)
    with pytest.raises(WaitTimedOut, match="It goes on"):
        client.jobs.wait(job.id, timeout=1)
    assert client.jobs.cancel(job.id).status in {"cancelled", "cancel_requested"}


def test_a_truncated_download_goes_on_where_it_stopped(
    disturbed: Client, proxy: FaultProxy, artifact: ResultArtifact, tmp_path: Path
) -> None:
    proxy.disturb("/artifacts/", truncate(1000), truncate(500), lose_answer)
    path = disturbed.artifacts.download(through(proxy, artifact), tmp_path / "report.json")
    assert path.stat().st_size == artifact.bytes > 1500
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]
    assert path.read_bytes().rstrip().endswith(b"}")


def test_a_download_goes_on_as_long_as_bytes_come(
    stack: Stack, proxy: FaultProxy, artifact: ResultArtifact, tmp_path: Path
) -> None:
    proxy.disturb("/artifacts/", *[truncate(100)] * 4)
    with Client(proxy.url, stack.ready["apiKey"], retries=0) as client:
        path = client.artifacts.download(through(proxy, artifact), tmp_path / "report.json")
    assert (path.stat().st_size, proxy.count("/artifacts/")) == (artifact.bytes, 5)


def test_a_damaged_download_leaves_no_file(
    disturbed: Client, proxy: FaultProxy, artifact: ResultArtifact, tmp_path: Path
) -> None:
    (tmp_path / "report.json").write_text("older")
    proxy.disturb("/artifacts/", damage)
    with pytest.raises(DownloadFailed, match="differs"):
        disturbed.artifacts.download(through(proxy, artifact), tmp_path / "report.json")
    assert [file.read_text() for file in tmp_path.iterdir()] == ["older"]


def test_a_download_that_never_gets_a_byte_ends(
    stack: Stack, proxy: FaultProxy, artifact: ResultArtifact, tmp_path: Path
) -> None:
    proxy.disturb("/artifacts/", *[truncate(0)] * 9)
    with Client(proxy.url, stack.ready["apiKey"], retries=2) as client, pytest.raises(ServiceUnreachable):
        client.artifacts.download(through(proxy, artifact), tmp_path / "report.json")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_a_clear_error(
    client: Client, artifact: ResultArtifact, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DownloadFailed, match="cannot be written"):
        client.artifacts.download(artifact, tmp_path / "file" / "report.json")


def test_a_wrong_key_is_a_clear_error(stack: Stack) -> None:
    with Client(stack.ready["url"], "sk_wrong") as client, pytest.raises(InvalidToken) as raised:
        client.credits()
    assert raised.value.status == 401


@pytest.mark.parametrize(
    ("url", "text"),
    [("sims.example", "must begin with"), ("ftp://sims.example", "must begin with"), ("http://", "must begin")],
)
def test_an_address_of_another_form_is_refused(url: str, text: str) -> None:
    with pytest.raises(NotConfigured, match=text):
        Client(url, "sk_any")


def test_a_wrong_address_is_reported_soon() -> None:
    started = time.monotonic()
    with (
        Client("http://127.0.0.1:9", "sk_any") as client,
        pytest.raises(ServiceUnreachable, match=r"127\.0\.0\.1:9"),
    ):
        client.credits()
    assert time.monotonic() - started < 20


def test_a_page_instead_of_the_api_is_a_clear_error(disturbed: Client, proxy: FaultProxy) -> None:
    proxy.disturb("/credits", page(200, text="<html>Sign in to the hotel's network"))
    with pytest.raises(UnexpectedResponse, match=r"check the address.*Sign in") as raised:
        disturbed.credits()
    assert raised.value.status == 200


def test_json_of_another_service_is_a_clear_error(disturbed: Client, proxy: FaultProxy) -> None:
    for text in ("[]", '"text"', "{}", '{"purchased": 1, "reserved": 1, "grants": 5}', "[" * 9999):
        proxy.disturb("/credits", page(200, text=text))
        with pytest.raises(UnexpectedResponse):
            disturbed.credits()


def test_public_addresses_get_no_key(stack: Stack, artifact: ResultArtifact, tmp_path: Path) -> None:
    seen: list[httpx.Headers] = []
    http = httpx.Client(event_hooks={"request": [lambda request: seen.append(request.headers)]})
    with http, Client(stack.ready["url"], stack.ready["apiKey"], http=http) as client:
        client.artifacts.download(artifact, tmp_path / "report.json")
        client.alive()
        client.openapi()
        client.credits()
    assert [("authorization" in headers) for headers in seen] == [False, False, False, True]
