"""Each loop of the library pauses, whatever the service answers: at most one request a second on average."""

import asyncio
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simservice_client import AsyncClient, Client, SimserviceError, _pace
from simservice_client._async import artifacts as async_artifacts
from simservice_client._async import jobs as async_jobs
from simservice_client._async import transport as async_transport
from simservice_client._sync import artifacts, jobs, transport
from simservice_client.cli import logs
from simservice_client.cli.console import Console
from tests.sdk.fake_service import KEY, Answer, Service, example, refusal

STATUS = "GET /v1/sim/jobs/{job_id}/status"
LIST = "GET /v1/sim/jobs"
SECONDS = 60.0
WAITS = [{}, *({"Retry-After": text} for text in ("0", "-1", "Thu, 01 Jan 2026 00:00:00 GMT", "1"))]


class Ended(Exception):
    """A minute has passed."""


class Clock:
    """A clock that only sleeps and slow responses advance."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.end_if_over()

    def end_if_over(self) -> None:
        if self.now > SECONDS:
            raise Ended

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (_pace, jobs, artifacts, transport, async_jobs):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep))
    for module in (async_jobs, async_artifacts, async_transport, logs):
        monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=clock.sleep_async, run=asyncio.run))
    return clock


def is_slow_enough(service: Service, clock: Clock) -> bool:
    return 2 <= len(service.requests) <= clock.now + _pace.BURST + 1


def running_status() -> Any:
    return example(STATUS) | {"status": "running"}


@pytest.mark.parametrize("answer_seconds", [0.0, 0.3, 5.0])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_waiting_for_a_job(service: Service, clock: Clock, answer_seconds: float, *, is_async: bool) -> None:
    service.answers[STATUS] = [Answer(running_status())]

    def take_time(_: object) -> None:
        clock.now += answer_seconds

    async def wait_async() -> None:
        async with AsyncClient(service.url, KEY) as client:
            await client.jobs.wait("1", on_status=take_time)

    def wait() -> None:
        Client(service.url, KEY).jobs.wait("1", on_status=take_time)

    with pytest.raises(Ended):
        asyncio.run(wait_async()) if is_async else wait()
    assert is_slow_enough(service, clock)


@pytest.mark.parametrize("headers", WAITS, ids=str)
def test_waiting_while_there_are_too_many_requests(service: Service, clock: Clock, headers: dict[str, str]) -> None:
    service.answers[STATUS] = [refusal(429, "rate_limit_exceeded", **headers)]
    client = Client(service.url, KEY, retries=1000)
    with pytest.raises((Ended, SimserviceError)):
        client.jobs.wait("1")
    assert is_slow_enough(service, clock)


def test_following_the_log_of_a_job(service: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    service.answers[STATUS] = [Answer(running_status())]
    monkeypatch.setenv("SIMSERVICE_API_KEY", KEY)
    with pytest.raises(Ended):
        logs.logs(Namespace(url=service.url, job="1", follow=True), Console(as_json=True))
    assert is_slow_enough(service, clock)


def test_listing_empty_pages(service: Service, clock: Clock) -> None:
    page = example(LIST) | {"jobs": []}
    page["page"] = page["page"] | {"nextCursor": "again"}
    service.answers[LIST] = [Answer(page)]
    with pytest.raises(Ended):
        list(Client(service.url, KEY).jobs.list())
    assert is_slow_enough(service, clock)


def test_downloading_byte_by_byte(clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = []

    def fetch_one_byte(_self: object, _url: str, part: Any) -> None:
        requests.append(clock.now)

    monkeypatch.setattr(artifacts.Artifacts, "_fetch_rest", fetch_one_byte)
    client = Client("http://127.0.0.1:1", KEY)
    with pytest.raises(Ended):
        client.artifacts.download(SimpleNamespace(url="http://a", bytes=10, sha256="", name="a"), tmp_path / "a")
    assert 2 <= len(requests) <= clock.now + _pace.BURST + 1
