"""The share page of a job in each state (docs/reference/api.md#share-page)."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from clients.audit import SYSTEM
from jobs.enums import Status
from jobs.lifecycle import cancellation, job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job
from jobs.queue import forecast
from tests.dashboard.browsing import text_of
from tests.dashboard.job_pages import make_html_report, open_share_page, share_html
from tests.dashboard.summaries import EVIL, NAMES, make_completed_job, make_failed_job, make_stopped_job, summary
from tests.factories import make_job, make_running_job

pytestmark = pytest.mark.django_db


def test_a_waiting_job_shows_its_queue_position() -> None:
    job = make_job()
    assert "Waiting" in share_html(job)
    assert "The job is in the queue." in share_html(job)
    forecast.publish()
    assert "This job is next in the queue" in share_html(job)


def test_a_running_job_shows_its_progress() -> None:
    assert "<progress" in share_html(make_running_job())


@pytest.mark.parametrize("make", [make_job, make_running_job, make_completed_job], ids=["waits", "runs", "ended"])
def test_the_page_does_not_refresh_itself(make: Any) -> None:
    content = share_html(make())
    for way in ("http-equiv", "hx-get"):
        assert way not in content
    assert re.findall("<script[^>]*>", content) == ['<script src="/static/js/copy.js" defer>']


def test_a_failed_job_shows_the_reason() -> None:
    text = share_html(make_failed_job(f"Unknown thing {EVIL}"))
    assert "Failed" in text
    assert "Unknown thing &lt;img" in text


def test_a_cancelled_job_shows_the_reason() -> None:
    job = make_job()
    cancellation.cancel(job, by=SYSTEM)
    assert "The job was cancelled before it ran" in share_html(job)


def test_a_stopped_job_shows_its_progress() -> None:
    job = make_running_job()
    cancelled = Outcome(status=Status.CANCELLED, error_code="user_cancelled", reason="Cancelled.", percent=43.9)
    assert job_moves.finish(job, cancelled)
    assert "Stopped at 43%." in share_html(job)


@pytest.mark.parametrize(("percent", "message"), [(100.0, "Failed at 100%."), (0.4, None)])
def test_a_failed_job_shows_its_progress(percent: float, message: str | None) -> None:
    job = make_running_job()
    failed = Outcome(status=Status.FAILED, error_code="execution_failed", reason="It ended.", percent=percent)
    assert job_moves.finish(job, failed)
    text = share_html(job)
    assert "Stopped at" not in text
    assert message in text if message else "Failed at" not in text


def test_a_timed_out_job_shows_partial_results() -> None:
    job = make_running_job()
    results = summary("a") | {"partial": True}
    outcome = Outcome(
        status=Status.TIMED_OUT, error_code="max_credits_reached", reason="The cap of 1 credits.", summary=results
    )
    assert job_moves.finish(job, outcome)
    for text in ("Timed out", "The cap of 1 credits.", "The run ended early", "+5 % ± 1", "(partial result)"):
        assert text in share_html(job)


def test_a_running_job_shows_no_warnings() -> None:
    job = make_running_job()
    Job.objects.filter(pk=job.pk).update(warnings=["A warning of an earlier try."])
    assert "A warning of an earlier try." not in share_html(job)


def test_partial_results_of_a_failed_job_have_no_percentage() -> None:
    job = make_running_job()
    results = summary("a") | {"partial": True}
    failed = Outcome(
        status=Status.FAILED, error_code="execution_failed", reason="It ended.", percent=99.0, summary=results
    )
    assert job_moves.finish(job, failed)
    text = share_html(job)
    assert ("It ended." in text, "Failed at" in text) == (True, False)


def test_a_completed_job_shows_an_escaped_ranking() -> None:
    text = share_html(make_completed_job(summary(*NAMES, name=EVIL)))
    assert "+30 % ± 2" in text
    assert "<img" not in text
    assert "<script>" not in text


def test_a_search_without_matches_says_so() -> None:
    text = share_html(make_completed_job(summary("Ring", "Trinket")), "?q=%3Cimg%20ring")
    assert "&lt;img ring" in text
    assert "No names match your search" in text


def test_the_page_reveals_nothing_about_the_account() -> None:
    job = make_completed_job(metadata={"note": "a secret", "title": "an own title"})
    text = share_html(job)
    for secret in ("a secret", "an own title", job.account.name, job.client.name):
        assert secret not in text


def test_the_page_shows_gear_and_talents() -> None:
    gear = [{"slot": "head", "name": EVIL, "ilevel": 658}]
    text = share_html(make_completed_job(summary(gear=gear, talents="ABC")))
    for expected in ("Gear", "&lt;img src=x", "658", "ABC"):
        assert expected in text, expected


def test_a_preview_marks_partial_figures() -> None:
    job = make_stopped_job("timed_out", "max_credits_reached")
    assert 'content="Timed out · 417 ± 1 DPS (partial result)"' in share_html(job)


def test_the_page_has_safe_headers_and_a_preview(settings: Settings) -> None:
    settings.PUBLIC_BASE_URL = "https://sims.example.org"
    job = make_completed_job(summary(name=EVIL, mean=1234567.0))
    response = open_share_page(job)
    assert response.headers["X-Robots-Tag"] == "noindex"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
    content = response.content.decode()
    assert f'property="og:url" content="https://sims.example.org/share/{job.share_token}"' in content
    assert 'property="og:description" content="1,234,567 ± 1 DPS"' in content
    assert 'property="og:title" content="&lt;img src=x onerror=alert(1)&gt;"' in content
    assert 'name="robots" content="noindex"' in content


def test_a_report_is_shown_in_a_sandboxed_frame() -> None:
    job = make_running_job()
    report = make_html_report(job)
    job_moves.finish(job, Outcome(status=Status.COMPLETED, summary=summary()))
    frame = share_html(job).partition("<iframe")[2].partition(">")[0]
    assert f'src="/artifacts/{report.token}"' in frame
    assert 'sandbox="allow-scripts"' in frame
    own = HttpClient().head(f"/artifacts/{report.token}")
    assert own.headers["Content-Security-Policy"].startswith("sandbox allow-scripts; default-src 'none'; ")
    assert own.headers["X-Frame-Options"] == "SAMEORIGIN"
    assert own.headers["X-Content-Type-Options"] == "nosniff"


def test_a_frame_uses_a_path_without_a_host(settings: Settings) -> None:
    settings.PUBLIC_BASE_URL = "https://sims.example.org"
    job = make_running_job()
    make_html_report(job)
    job_moves.finish(job, Outcome(status=Status.COMPLETED, summary=summary()))
    assert 'src="/artifacts/' in share_html(job)


def test_a_link_expires_with_the_retention_period(settings: Settings) -> None:
    job = make_completed_job()
    old = timezone.now() - timedelta(days=settings.RETENTION_DAYS, seconds=1)
    Job.objects.filter(pk=job.pk).update(created_at=old)
    response = HttpClient().get(f"/share/{job.share_token}")
    assert response.status_code == 404
    assert "Frosty" not in text_of(response)


@pytest.mark.parametrize("make", [make_job, make_completed_job], ids=["waits", "ended"])
def test_the_page_needs_few_queries(make: Any, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    job = make()
    # Three reads, between the two ends of a savepoint.
    with django_assert_max_num_queries(5):
        share_html(job)


def test_a_baseline_of_zero_is_accepted() -> None:
    assert "Completed" in share_html(make_completed_job(summary("x", mean=0.0)))


@pytest.mark.parametrize("token", ["unknown", "%00", "x" * 22, "x" * 5000])
def test_an_unknown_link_shows_a_not_found_page(token: str) -> None:
    response = HttpClient().get(f"/share/{token}")
    assert response.status_code == 404
    assert "text/html" in response.headers["Content-Type"]


def test_the_share_page_is_read_only() -> None:
    job = make_job()
    assert HttpClient(enforce_csrf_checks=True).post(f"/share/{job.share_token}").status_code == 405


def test_a_browser_can_log_in_to_the_admin() -> None:
    User.objects.create_superuser("operator", password="right")
    browser = HttpClient(enforce_csrf_checks=True)
    form = browser.get("/admin/", follow=True)
    # Without a referrer, a browser sends `Origin: null`, which the CSRF check rejects.
    assert form.headers["Referrer-Policy"] == "same-origin"
    fields = {"login": "operator", "password": "right", "csrfmiddlewaretoken": browser.cookies["csrftoken"].value}
    entered = browser.post("/accounts/login/?next=/admin/", fields, headers={"origin": "http://testserver"})
    assert (entered.status_code, entered.headers["Location"]) == (302, "/admin/")


def test_the_home_page_opens() -> None:
    assert HttpClient().get("/").status_code == 200
