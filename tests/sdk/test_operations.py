"""The Python library covers every operation of the API, in both forms."""

import asyncio
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from simservice_client import AsyncClient, Client, JobNotCompleted, NoFigures, submission
from simservice_client.error_codes import JobNotCancellable, JobNotPausable, ResultNotReady, ValidationFailed
from simservice_client.models import JobStatus
from tests.stack import LONG, QUICK, Stack

pytestmark = [pytest.mark.xdist_group("api"), pytest.mark.timeout(240)]
VARIANTS = QUICK + "profileset.best+=head=,id=1,ilevel=700\nprofileset.worst+=head=,id=2,ilevel=1\n"
MANY = 30


@pytest.fixture
def seen() -> list[httpx.Request]:
    return []


@pytest.fixture
def client(stack: Stack, seen: list[httpx.Request]) -> Iterator[Client]:
    """A client that records its requests."""
    with httpx.Client(event_hooks={"request": [seen.append]}) as http:
        yield Client(stack.ready["url"], stack.ready["apiKey"], http=http)


def operations(client: Client, requests: list[httpx.Request]) -> tuple[set[str], set[str]]:
    """Return the ids of the operations that were requested, and of all in the service's document."""
    templates = {
        (method.upper(), re.sub(r"\{[^/]*\}", "[^/]+", path)): operation["operationId"]
        for path, methods in client.openapi()["paths"].items()
        for method, operation in methods.items()
        if method in {"get", "post", "put", "patch", "delete"}
    }
    exact = {(method, path): name for (method, path), name in templates.items() if "[" not in path}
    called = set()
    for request in requests:
        key = (request.method, request.url.path)
        matching = [
            name for (method, path), name in templates.items() if method == key[0] and re.fullmatch(path, key[1])
        ]
        called.add(exact.get(key) or matching[0])
    return called, set(templates.values())


def fits(request: tuple[str, str], method: str, path: str) -> bool:
    """Return whether a method and path are those of an operation."""
    return request[0] == method and re.fullmatch(path, request[1]) is not None


def assert_cannot_change(client: Client, job_id: str) -> None:
    """Assert that an ended job can be neither cancelled, paused nor resumed."""
    with pytest.raises(JobNotCancellable):
        client.jobs.cancel(job_id)
    for change in (client.jobs.pause, client.jobs.resume):
        with pytest.raises(JobNotPausable):
            change(job_id)


def test_every_operation_is_covered(client: Client, seen: list[httpx.Request], tmp_path: Path) -> None:
    progress: list[JobStatus] = []
    validation = client.jobs.validate(VARIANTS)
    assert (validation.valid, validation.variants) == (True, 2)
    result = client.jobs.run(VARIANTS, metadata={"kind": "test"}, html=True, on_status=progress.append)
    assert [row.name for row in result.ranking] == ["best", "worst"]
    assert result.ranking[0].mean > result.ranking[1].mean
    assert result.mean == result.main_actor.mean > 0
    assert (progress[-1].status, result.metadata) == ("completed", {"kind": "test"})
    assert client.jobs.results(result.id, details=True).result.details is not None
    assert client.jobs.get(result.id).runtime.credits_consumed is not None
    assert client.jobs.status(result.id).poll_after_seconds is None
    assert client.jobs.profile(result.id) == VARIANTS
    assert next(iter(client.jobs.list())).id == result.id
    tagged = client.jobs.list(metadata={"kind": "test"}, status=["completed"])
    assert [job.id for job in tagged] == [result.id]
    assert list(client.jobs.list(client="nobody")) == []
    assert set(client.jobs.by_ids([result.id, "176352841234500042"])) == {result.id}
    assert_cannot_change(client, result.id)
    accepted, refused = client.jobs.submit_batch([submission(QUICK), {"profile": 5}])
    assert (accepted.job is not None, accepted.refusal) == (True, None)
    assert refused.refusal is not None
    assert (refused.job, refused.refusal.code) == (None, "validation_failed")
    files = client.jobs.download(result.id, tmp_path / "new folder", kinds=["html_report", "json_report"])
    assert {path.stat().st_size > 100 for path in files.values()} == {True}
    assert set(files) == {"report.html", "report.json"}
    assert client.artifacts.url(result.result.artifacts[0].id).startswith(client.base_url)
    assert client.manifest(result.links.manifest or "").ranking == result.ranking
    assert client.report_data(result.links.share)["simbot"]["meta"]["status"] == "completed"
    assert client.jobs.replace_links(result.id).links.share != result.links.share
    build = client.builds.list()[0]
    assert client.builds.get(build.id).commit == build.commit
    assert client.credits().grants[0].remaining < client.credits().grants[0].original
    assert client.usage().period.sims_run > 0
    assert (client.alive().status, client.readiness().status) == ("ok", "ok")
    called, documented = operations(client, seen)
    assert called == documented


def test_a_list_pages_by_itself(client: Client, seen: list[httpx.Request]) -> None:
    jobs = [client.jobs.submit(QUICK, priority="background") for _ in range(5)]
    seen.clear()
    listed = [job.id for job, _ in zip(client.jobs.list(page_size=2), jobs, strict=False)]
    assert listed == [job.id for job in reversed(jobs)]
    assert len(seen) == 3


def test_what_a_job_that_fails_looks_like(client: Client) -> None:
    with pytest.raises(JobNotCompleted) as raised:
        client.jobs.run(QUICK + "max_time=abc\n", timeout=60)
    error = raised.value
    assert (error.status, error.error_code) == ("failed", "simulation_error")
    assert error.reason is not None
    assert error.reason in str(error)


def test_what_a_running_job_refuses(client: Client) -> None:
    job = client.jobs.submit(LONG)
    with pytest.raises(ResultNotReady) as raised:
        client.jobs.results(job.id)
    assert raised.value.retry_after is not None
    assert client.jobs.pause(job.id).id == job.id
    assert client.jobs.resume(job.id).status in ("pending", "queued", "running")
    assert client.jobs.cancel(job.id).id == job.id
    assert client.jobs.wait(job.id, timeout=60).status == "cancelled"


def test_what_a_refused_field_looks_like(client: Client) -> None:
    with pytest.raises(ValidationFailed) as raised:
        client.jobs.submit(QUICK, max_credits=-1)
    assert raised.value.status == 400
    assert "maxCredits" in str(raised.value.meta)


def test_many_jobs_at_once_in_one_process(stack: Stack) -> None:
    async def run_all() -> list[float]:
        async with AsyncClient(stack.ready["url"], stack.ready["apiKey"]) as client:
            results = await asyncio.gather(*[client.jobs.run(QUICK, metadata={"many": "1"}) for _ in range(MANY)])
            listed = [job.id async for job in client.jobs.list(metadata={"many": "1"}, page_size=25)]
            assert sorted(listed) == sorted(result.id for result in results)
            return [result.mean for result in results]

    assert len(asyncio.run(run_all())) == MANY


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: object) -> dict[str, list[str]]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(method).parameters) for name, method in found if name[0] != "_"}

    closing = {"aclose": "close"}
    for name in ("jobs", "artifacts", "builds"):
        one, other = Client("http://a", "b"), AsyncClient("http://a", "b")
        assert methods(type(getattr(one, name))) == methods(type(getattr(other, name)))
    renamed = {closing.get(name, name): parameters for name, parameters in methods(AsyncClient).items()}
    assert methods(Client) == renamed


def test_a_result_without_a_main_actor_has_no_figures(client: Client) -> None:
    result = client.jobs.run(QUICK)
    empty = type(result).from_json(
        result.to_json() | {"result": {"summary": None, "verdict": None, "artifacts": []}}
    )
    with pytest.raises(NoFigures):
        _ = empty.mean
