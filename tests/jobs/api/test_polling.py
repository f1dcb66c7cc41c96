"""Polling: `ETag`, 304 and the suggested interval (docs/reference/api.md#job-status)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from clients.models import ApiKey, Client
from jobs.api import polling
from jobs.api.polling import poll_after_seconds
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.live.progress import Progress, Publisher, progress_of
from jobs.models import Job
from jobs.queue import forecast
from tests.conftest import Api
from tests.dashboard.summaries import make_completed_job
from tests.factories import make_job, make_running_job
from tests.jobs.api.job_states import STATES
from tests.jobs.api.response_checks import checked

PATHS = ("jobs/{}", "jobs/{}/status", "jobs/{}/result")


@pytest.fixture
def client(key: tuple[ApiKey, str]) -> Client:
    return key[0].client


def tag_of(api: Api, path: str) -> str:
    response = api.get(path)
    assert response.status_code == 200
    return str(response.headers["ETag"])


def again(api: Api, path: str, tag: str) -> Any:
    return api.get(path, headers={"if-none-match": tag})


@pytest.mark.parametrize("path", PATHS)
def test_an_unchanged_body_is_not_sent_again(api: Api, client: Client, path: str) -> None:
    path = path.format(make_completed_job(client=client).pk)
    tag = tag_of(api, path)
    response = again(api, path, tag)
    assert (response.status_code, response.content, response.headers["ETag"]) == (304, b"", tag)
    assert "Content-Type" not in response.headers
    assert response.headers["X-Active-Jobs"] == "0"
    assert response.headers["X-Request-Id"]


@pytest.mark.parametrize("form", ["W/{}", '"other", {}', "*"])
def test_other_forms_of_a_tag_match(api: Api, client: Client, form: str) -> None:
    path = f"jobs/{make_completed_job(client=client).pk}"
    assert again(api, path, form.format(tag_of(api, path))).status_code == 304


@pytest.mark.parametrize("sent", ["", '"other"', "unquoted", "W/", '"' + "x" * 5000 + '"', "\x00é"])
def test_an_unknown_tag_gets_the_body(api: Api, client: Client, sent: str) -> None:
    path = f"jobs/{make_completed_job(client=client).pk}"
    assert again(api, path, sent).status_code == 200


@pytest.mark.parametrize("path", PATHS[:2])
def test_a_changed_job_has_another_tag(api: Api, client: Client, path: str) -> None:
    job = make_job(client)
    path = path.format(job.pk)
    tag = tag_of(api, path)
    assert again(api, path, tag).status_code == 304
    assert job_moves.finish(job, Outcome(status=Status.FAILED, error_code="queue_timeout"))
    assert again(api, path, tag).status_code == 200


def test_progress_changes_the_tag(api: Api, client: Client) -> None:
    job = make_running_job(client=client)
    path = f"jobs/{job.pk}/status"
    tag = tag_of(api, path)
    Publisher(job).publish(Progress(percent=40, stage=None))
    assert again(api, path, tag).status_code == 200


def test_a_tag_shows_nothing_about_anothers_job(api: Api) -> None:
    path = f"jobs/{make_job().pk}"
    assert again(api, path, "*").status_code == 404


def test_a_tag_does_not_replace_the_key(client: Client) -> None:
    path = f"/v1/sim/jobs/{make_job(client).pk}"
    assert HttpClient().get(path, headers={"if-none-match": "*"}).status_code == 401


def waiting(client: Client) -> Job:
    return make_job(client)


def running(client: Client) -> Job:
    return make_running_job(client=client)


@pytest.mark.parametrize("make", [waiting, running])
def test_an_unknown_time_is_polled_every_two_seconds(
    api: Api, variant: str, client: Client, make: Callable[[Client], Job]
) -> None:
    job = make(client)
    assert checked(api.get(f"jobs/{job.pk}/status"), variant)["pollAfterSeconds"] == 2
    assert api.get(f"jobs/{job.pk}/result").headers["Retry-After"] == "2"


@pytest.mark.parametrize(("elapsed", "percent", "expected"), [(10, 50, 3), (1, 99, 1), (600, 10, 30)])
def test_a_running_job_is_polled_after_a_quarter_of_the_time_left(
    api: Api, client: Client, elapsed: int, percent: float, expected: int
) -> None:
    job = make_running_job(client=client)
    Job.objects.filter(pk=job.pk).update(started_at=timezone.now() - timedelta(seconds=elapsed))
    Publisher(job).publish(Progress(percent=percent, stage=None))
    assert api.get(f"jobs/{job.pk}/status").json()["pollAfterSeconds"] == expected
    assert api.get(f"jobs/{job.pk}/result").headers["Retry-After"] == str(expected)


@pytest.mark.parametrize(("seconds", "expected"), [(0, 1), (3, 1), (40, 10), (9_000, 30)])
def test_a_waiting_job_is_polled_after_a_quarter_of_its_wait(client: Client, seconds: int, expected: int) -> None:
    start = forecast.Estimate(seconds=seconds, updated_at=timezone.now())
    assert poll_after_seconds(make_job(client), Progress(percent=0, stage=None), start=start) == expected


def test_an_ended_job_is_not_polled(api: Api, variant: str, client: Client) -> None:
    job = make_completed_job(client=client)
    assert checked(api.get(f"jobs/{job.pk}/status"), variant)["pollAfterSeconds"] is None


@pytest.mark.parametrize("sent", ["26", "-1", "1.5", "", "x", "9" * 5000, "\u0663"])
def test_a_wait_is_a_number_up_to_25(api: Api, client: Client, sent: str) -> None:
    response = api.get(f"jobs/{make_job(client).pk}/status", data={"wait": sent})
    assert (response.status_code, response.json()["code"]) == (400, "validation_failed")
    assert response.json()["meta"]["issues"] == [{"path": "wait", "message": "Must be an integer from 0 to 25."}]


def test_another_web_server_answers_at_once(api: Api, variant: str, client: Client) -> None:
    assert checked(api.get(f"jobs/{make_job(client).pk}/status?wait=25"), variant)["status"] == "pending"


def test_states_are_read_at_once(client: Client, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    waiting, running, ended = make_job(client), make_running_job(client=client), make_completed_job(client=client)
    paused = STATES["paused"](client=client)
    Publisher(running).publish(Progress(percent=40.9, stage=None))
    with django_assert_num_queries(1):
        states = polling.states_of([waiting.pk, paused.pk, running.pk, ended.pk, 1])
    assert states == {
        waiting.pk: ("pending", 0, False),
        paused.pk: ("queued", 0, True),
        running.pk: ("running", 40, False),
        ended.pk: ("completed", 0, False),
    }
    for job in (waiting, paused, running):
        assert polling.state_of(job, progress_of(job)) == states[job.pk]
