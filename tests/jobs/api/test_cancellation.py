"""`POST jobs/{id}/cancel` (docs/reference/contract.md#cancel-a-job)."""

import json
from collections.abc import Callable

import pytest
from django.test import Client as HttpClient

from clients.accounts import default_client
from clients.models import ApiKey
from jobs.enums import Status
from jobs.models import Job, JobEvent
from tests.concurrency import at_once
from tests.conftest import Api
from tests.factories import make_job, make_running_job


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
    ("make", "answered"), [(make_job, ["cancelled"] * 2), (make_running_job, ["cancel_requested"] * 2)]
)
def test_each_response_contains_the_metadata(
    api: Api, key: tuple[ApiKey, str], make: Callable[..., Job], answered: list[str]
) -> None:
    job = make(client=key[0].client, metadata={"z": "1", "a": "2"})
    answers = [api.post(f"jobs/{job.pk}/cancel").json() for _ in answered]
    assert [answer["status"] for answer in answers] == answered
    assert all(list(answer["metadata"].items()) == [("z", "1"), ("a", "2")] for answer in answers)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("make", [make_job, make_running_job])
def test_concurrent_cancellations_get_the_same_response(key: tuple[ApiKey, str], make: Callable[..., Job]) -> None:
    job = make(client=default_client(key[0].client.account))
    answers: list[tuple[int, str]] = []

    def cancel() -> None:
        http = HttpClient(headers={"authorization": f"Bearer {key[1]}"})
        for _ in range(5):
            answer = http.post(f"/v1/sim/jobs/{job.pk}/cancel", content_type="application/json")
            answers.append((answer.status_code, json.dumps(answer.json())))

    at_once(20, cancel)
    assert len(answers) == 100
    assert len(set(answers)) == 1
    assert answers[0][0] == 200
    assert JobEvent.objects.filter(job=job, to_status=Status.CANCELLED).count() == (make is make_job)
