"""Callers never see the status `starting`: every API response and page shows such a job as queued.

The routes come from `tests/routes.py`, so tests cover a new one as soon as it exists. Operators see the internal
status in the admin.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client as HttpClient

from clients.accounts import default_client
from jobs.enums import ACTIVE, PublicStatus, Status
from jobs.lifecycle import job_moves
from jobs.models import Build, Job
from jobs.queue import forecast
from jobs.results import labels
from tests.conftest import Api
from tests.dashboard.browsing import browser_of, text_of
from tests.factories import BuildFactory, make_account, make_job, make_key, make_member, start_attempt
from tests.jobs.api.bodies import BODY
from tests.routes import OBJECTS, OPEN, PAGES, PARAMETER, RESOURCE, WITH_KEY

pytestmark = pytest.mark.django_db
INTERNAL = re.compile(r"\bstarting\b|getting ready", re.IGNORECASE)


@pytest.fixture
def job() -> Job:
    """A job in the status `starting`."""
    BuildFactory.create()
    created = make_job(metadata={"a": "b"}, wants_webhook=True)
    assert start_attempt(created, worker="worker-1")
    forecast.publish()
    return Job.objects.get(pk=created.pk)


def address(route: str, job: Job) -> str:
    """Return the address of a route for a job or another object of its account."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        own = {
            "account": job.account.name,
            "job_id": job.pk,
            "token": job.share_token,
            "artifact_id": 1,
            "guide": "tutorial",
            "page": "errors",
            "resource": "jobs",
            "file": "data.json",
        }
        if name == "build_id":
            return str(Build.objects.latest("created_at").pk)
        return str(own[name] if name in own else OBJECTS[name](job.account))

    return "/" + PARAMETER.sub(value, route)


def statuses(value: Any) -> Iterator[Any]:
    """Yield every job status in a body."""
    for member in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from statuses(member)
    if isinstance(value, dict) and "status" in value:
        yield value["status"]


def assert_public(response: Any) -> None:
    """Assert that a response contains only public statuses."""
    assert response.status_code < 500, response.content
    content = b"".join(response.streaming_content) if response.streaming else response.content
    # A picture is not text, but its words would be.
    text = content.decode(errors="replace")
    assert not INTERNAL.search(text)
    body = json.loads(text) if response.headers.get("Content-Type") == "application/json" else {}
    # The OpenAPI document has other fields of that name.
    if "openapi" not in body:
        assert set(statuses(body)) <= {*PublicStatus.values, "ok", "cancel_requested"}


@pytest.mark.parametrize("route", WITH_KEY)
def test_no_api_response_contains_it(route: str, job: Job) -> None:
    assert_public(
        HttpClient(headers={"authorization": f"Bearer {make_key(job.account)[1]}"}).get(
            address(RESOURCE + route, job)
        )
    )


@pytest.mark.parametrize("route", PAGES)
def test_no_account_page_contains_it(route: str, job: Job) -> None:
    assert_public(browser_of(make_member(job.account)).get(address(route, job)))


@pytest.mark.parametrize("route", [route for route in OPEN if route not in ("metrics", "readyz")])
def test_no_public_page_contains_it(route: str, job: Job) -> None:
    assert_public(HttpClient().get(address(route, job)))


def test_the_api_shows_it_as_queued(job: Job) -> None:
    api = Api(make_key(job.account)[1])
    status = api.get(f"jobs/{job.pk}/status").json()
    assert (api.get(f"jobs/{job.pk}").json()["status"], status["status"]) == ("queued", "queued")
    assert (status["queue"]["estimatedStartSeconds"], status["startedAt"]) == (0, None)
    assert [listed["status"] for listed in api.get("jobs").json()["jobs"]] == ["queued"]
    assert api.get(f"jobs/{job.pk}/result").json()["meta"] == {"status": "queued"}
    assert api.get("usage").json()["snapshot"] == {"activeJobs": 1, "queuedJobs": 1, "runningJobs": 0}


def test_cancel_and_replay_do_not_contain_it(job: Job) -> None:
    api = Api(make_key(job.account)[1])
    for _ in range(2):
        assert_public(api.post(f"jobs/{job.pk}/cancel"))
    replayed = Api(make_key(make_account())[1])
    first = replayed.post("jobs", BODY, headers={"idempotency-key": "k"})
    assert start_attempt(Job.objects.get(pk=first.json()["id"]), worker="worker-1")
    assert replayed.post("jobs", BODY, headers={"idempotency-key": "k"}).content == first.content


def test_the_pages_show_it_as_waiting(job: Job) -> None:
    http = browser_of(make_member(job.account))
    for path in (f"jobs/{job.pk}", "jobs", "jobs?status=active"):
        content = http.get(f"/dashboard/{job.account}/{path}").content.decode()
        assert ('status-queued">Waiting<' if str(job.pk) in path else 'class="muted">Waiting<') in content, path
    shared = HttpClient().get(f"/share/{job.share_token}")
    assert "This job is next in the queue" in text_of(shared)
    assert 'status-queued">Waiting<' in shared.content.decode()
    assert "Running and waiting" in text_of(http.get(f"/dashboard/{job.account}/"))


def test_the_history_shows_the_claim_without_a_status(job: Job) -> None:
    text = text_of(browser_of(make_member(job.account)).get(f"/dashboard/{job.account}/jobs/{job.pk}/log"))
    assert "Assigned to a worker" in text


def test_operators_can_see_it(job: Job) -> None:
    http = HttpClient()
    http.force_login(User.objects.create_superuser("operator"))
    assert "Starting" in http.get(f"/admin/jobs/job/{job.pk}/change/").content.decode()


@pytest.mark.parametrize("status", Status)
def test_every_status_has_a_public_status_and_a_label(status: Status) -> None:
    job = Job(status=status)
    assert job.public_status == ("queued" if status == "starting" else status)
    assert job.is_waiting == (status in ("pending", "queued", "starting"))
    assert labels.status_of(job) == labels.STATUSES[job.public_status]


def test_an_account_counts_each_unfinished_job_once(job: Job) -> None:
    client = default_client(job.account)
    make_job(client)
    assert job_moves.mark_queued(make_job(client))
    snapshot = Api(make_key(job.account)[1]).get("usage").json()["snapshot"]
    assert snapshot == {"activeJobs": 3, "queuedJobs": 3, "runningJobs": 0}
    assert Job.objects.filter(account=job.account, status__in=ACTIVE).count() == 3
