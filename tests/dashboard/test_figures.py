"""Figures on pages: full results, marked partial results, and none for failed jobs."""

import re

import pytest

from clients.models import ApiKey, Membership
from tests.conftest import Api
from tests.dashboard.browsing import text_of
from tests.dashboard.job_pages import open_page
from tests.dashboard.summaries import make_completed_job, make_stopped_job, summary
from tests.factories import make_member

pytestmark = pytest.mark.django_db
FAILED = [("failed", "simulation_error"), ("failed", "internal")]
STOPPED = [
    ("timed_out", "max_credits_reached"),
    ("timed_out", "execution_timeout"),
    ("cancelled", "user_cancelled"),
    ("failed", "insufficient_credits"),
    # Its simulator ended early by itself.
    ("failed", "execution_failed"),
]
PAGES = ["/dashboard/{account}/", "/dashboard/{account}/jobs", "/dashboard/{account}/jobs/{job}", "/share/{token}"]


@pytest.fixture
def owner(key: tuple[ApiKey, str]) -> Membership:
    return make_member(key[0].client.account)


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(("status", "code"), FAILED)
def test_a_failed_job_shows_no_figures(
    owner: Membership, key: tuple[ApiKey, str], status: str, code: str, path: str
) -> None:
    job = make_stopped_job(status, code, summary("Ring", mean=41734.0, talents="TALENTS"), client=key[0].client)
    response = open_page(owner, job, path)
    # Random values, such as nonces and CSRF tokens, can contain any short text.
    content = re.sub(r'"[\w+/=-]{16,}"', "", response.content.decode()).replace(str(job.pk), "")
    content = content.replace(job.share_token, "")
    for figure in ("41,734", "41734.0", "DPS", "iterations", "Ring", "TALENTS", "partial"):
        assert figure not in content, figure
    assert "Failed" in content


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(("status", "code"), STOPPED)
def test_a_job_stopped_early_shows_partial_figures(
    owner: Membership, key: tuple[ApiKey, str], status: str, code: str, path: str
) -> None:
    job = make_stopped_job(status, code, client=key[0].client)
    text = text_of(open_page(owner, job, path))
    assert "417" in text
    assert "(partial result)" in text or "cover what was simulated until then" in text


@pytest.mark.parametrize("path", PAGES)
def test_a_completed_jobs_figures_are_not_partial(owner: Membership, key: tuple[ApiKey, str], path: str) -> None:
    job = make_completed_job(summary(mean=417.0), client=key[0].client)
    text = text_of(open_page(owner, job, path))
    assert "417" in text
    assert "partial" not in text


def test_the_api_keeps_a_failed_jobs_summary(api: Api, key: tuple[ApiKey, str]) -> None:
    job = make_stopped_job("failed", "simulation_error", client=key[0].client)
    body = api.get(f"jobs/{job.pk}/result").json()
    assert body["result"]["summary"]["mainActor"]["mean"] == 417.0
