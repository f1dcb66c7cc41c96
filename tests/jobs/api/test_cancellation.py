"""`POST jobs/{id}/cancel` (docs/reference/api.md#cancel-a-job)."""

import json
from collections.abc import Callable

import pytest
from django.test import Client as HttpClient

from clients import audit
from clients.accounts import default_client
from clients.models import ApiKey
from jobs.enums import Status
from jobs.lifecycle import cancellation, job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job, JobEvent
from tests.concurrency import at_once
from tests.conftest import Api
from tests.factories import make_job, make_running_job
from tests.jobs.api.bodies import only_in

pytestmark = only_in("C")


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["100000000000000000", "0", "x", "-1", "9" * 40], ids=str)
def test_an_unknown_job_is_not_found(api: Api, path: str) -> None:
    assert api.post(f"jobs/{path}/cancel").status_code == 404


@pytest.mark.django_db
@pytest.mark.parametrize("make", [make_job, make_running_job])
def test_another_accounts_job_cannot_be_cancelled(api: Api, make: Callable[..., Job]) -> None:
    job = make()
    status = job.status
    assert api.post(f"jobs/{job.pk}/cancel").status_code == 404
    job.refresh_from_db()
    assert (job.status, job.cancel_requested_at) == (status, None)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("make", "statuses"), [(make_job, ["cancelled"] * 2), (make_running_job, ["cancel_requested"] * 2)]
)
def test_each_response_contains_the_metadata(
    api: Api, key: tuple[ApiKey, str], make: Callable[..., Job], statuses: list[str]
) -> None:
    job = make(client=key[0].client, metadata={"z": "1", "a": "2"})
    responses = [api.post(f"jobs/{job.pk}/cancel").json() for _ in statuses]
    assert [response["status"] for response in responses] == statuses
    assert all(list(response["metadata"].items()) == [("z", "1"), ("a", "2")] for response in responses)


@pytest.mark.django_db
def test_a_repeated_cancellation_follows_the_job(api: Api, key: tuple[ApiKey, str]) -> None:
    job = make_running_job(client=key[0].client, metadata={"a": "2"})
    first, second = (api.post(f"jobs/{job.pk}/cancel").json() for _ in range(2))
    assert first == second
    assert first["status"] == "cancel_requested"
    assert job_moves.finish(job, job_moves.CANCELLED)
    ended = {"success": True, "id": str(job.pk), "status": "cancelled", "metadata": {"a": "2"}}
    assert [api.post(f"jobs/{job.pk}/cancel").json() for _ in range(2)] == [ended] * 2


@pytest.mark.django_db
@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED, Status.TIMED_OUT])
def test_a_job_that_ended_before_it_was_stopped_conflicts(
    api: Api, key: tuple[ApiKey, str], status: Status
) -> None:
    job = make_running_job(client=key[0].client)
    assert api.post(f"jobs/{job.pk}/cancel").status_code == 200
    code = None if status == Status.COMPLETED else "execution_failed"
    assert job_moves.finish(job, Outcome(status=status, error_code=code, sim_duration_ms=1, summary={}))
    response = api.post(f"jobs/{job.pk}/cancel")
    assert (response.status_code, response.json()["code"]) == (409, "job_not_cancellable")
    assert response.json()["meta"] == {"id": str(job.pk), "status": status}


@pytest.mark.django_db
def test_a_job_that_ends_during_the_request_is_cancelled(api: Api, key: tuple[ApiKey, str]) -> None:
    """The request has read the job before it ended."""
    job = make_running_job(client=key[0].client)
    job_moves.request_cancel(job)
    before = Job.objects.get(pk=job.pk)
    assert job_moves.finish(job, job_moves.CANCELLED)
    assert cancellation.cancel(before, by=audit.SYSTEM).requested_at is None


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("make", [make_job, make_running_job])
def test_concurrent_cancellations_get_the_same_response(key: tuple[ApiKey, str], make: Callable[..., Job]) -> None:
    job = make(client=default_client(key[0].client.account))
    responses: list[tuple[int, str]] = []

    def cancel() -> None:
        http = HttpClient(headers={"authorization": f"Bearer {key[1]}"})
        for _ in range(5):
            response = http.post(f"/v1/sim/jobs/{job.pk}/cancel", content_type="application/json")
            responses.append((response.status_code, json.dumps(response.json())))

    at_once(20, cancel)
    assert len(responses) == 100
    assert len(set(responses)) == 1
    assert responses[0][0] == 200
    assert JobEvent.objects.filter(job=job, to_status=Status.CANCELLED).count() == (make is make_job)
