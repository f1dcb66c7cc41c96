"""The hosted page of a job, in each of its states (specification, `links.share`)."""

import pytest
from django.contrib.auth.models import User
from django.test import Client as HttpClient

from jobs import lifecycle
from jobs.lifecycle import Outcome
from jobs.models import Job, Status
from tests.factories import make_job, make_running_job

pytestmark = pytest.mark.django_db
EVIL = "<img src=x onerror=alert(1)>"


def page(job: Job) -> str:
    """Return a job's page as a stranger sees it."""
    answer = HttpClient().get(f"/share/{job.share_token}")
    assert answer.status_code == 200
    assert answer.headers["X-Robots-Tag"] == "noindex"
    return answer.content.decode()


def test_a_waiting_job() -> None:
    assert "Waiting for its turn" in page(make_job())


def test_a_running_job_shows_its_progress() -> None:
    assert "<progress" in page(make_running_job())


def test_a_failed_job_says_why() -> None:
    job = make_running_job()
    reason = f"Unknown thing {EVIL}"
    lifecycle.finish(job, Outcome(status=Status.FAILED, error_code="simulation_error", reason=reason))
    text = page(job)
    assert "Failed" in text
    assert "Unknown thing &lt;img" in text


def test_a_completed_job_shows_its_ranking_and_escapes_every_name() -> None:
    job = make_running_job()
    row = {"name": EVIL, "mean": 110.0, "mean_error": 1.0, "min": 1, "max": 2, "stage": 1}
    actor = {"name": EVIL, "mean": 100.0, "mean_error": 0.5, "profilesets": {"count": 1, "results": [row]}}
    lifecycle.finish(job, Outcome(status=Status.COMPLETED, summary={"metric": "dps", "mainActor": actor}))
    text = page(job)
    assert "+10.00 %" in text
    assert "<img" not in text


def test_a_baseline_of_zero_breaks_nothing() -> None:
    job = make_running_job()
    row = {"name": "x", "mean": 0.0, "mean_error": 0.0}
    actor = {"name": "A", "mean": 0.0, "mean_error": 0.0, "profilesets": {"count": 1, "results": [row]}}
    lifecycle.finish(job, Outcome(status=Status.COMPLETED, summary={"metric": "dps", "mainActor": actor}))
    assert "Completed" in page(job)


@pytest.mark.parametrize("token", ["unknown", "%00", "x" * 22, "x" * 5000])
def test_an_unknown_link_is_a_page_that_says_so(token: str) -> None:
    answer = HttpClient().get(f"/share/{token}")
    assert answer.status_code == 404
    assert "text/html" in answer.headers["Content-Type"]


def test_pages_are_only_to_be_read() -> None:
    job = make_job()
    assert HttpClient(enforce_csrf_checks=True).post(f"/share/{job.share_token}").status_code == 405


def test_a_browser_can_log_in_to_the_admin() -> None:
    User.objects.create_superuser("operator", password="right")
    browser = HttpClient(enforce_csrf_checks=True)
    form = browser.get("/admin/", follow=True)
    # A browser told to send no referrer says its origin is null, and is refused.
    assert form.headers["Referrer-Policy"] == "same-origin"
    fields = {"login": "operator", "password": "right", "csrfmiddlewaretoken": browser.cookies["csrftoken"].value}
    answer = browser.post("/accounts/login/?next=/admin/", fields, headers={"origin": "http://testserver"})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/admin/")


def test_the_front_page() -> None:
    assert HttpClient().get("/").status_code == 200
