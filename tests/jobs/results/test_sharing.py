"""Replacement of a job's public links (docs/reference/api.md#replace-public-links)."""

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client as HttpClient
from pytest_django import DjangoAssertNumQueries

from clients.accounts import default_client
from clients.audit import SYSTEM
from clients.models import ApiKey, AuditEvent, Membership
from jobs.artifacts import artifact_files
from jobs.models import Artifact, Job
from jobs.results import edits
from simservice.ids import new_token
from tests.concurrency import at_once
from tests.conftest import Api
from tests.dashboard.browsing import browser_of, text_of
from tests.dashboard.summaries import make_completed_job
from tests.factories import make_job, make_member, make_running_job

# The last token of an address
TOKEN = r"[\w-]{22}(?!.*[\w-]{22})"
Replace = Callable[[Job], object]


def public_paths(job: Job) -> list[str]:
    """Return every public address of a job."""
    token = Job.objects.get(pk=job.pk).share_token
    downloads = Artifact.objects.filter(job=job).values_list("token", flat=True)
    return [
        f"/share/{token}",
        f"/share/{token}/card.png",
        f"/manifests/{token}",
        *(f"/artifacts/{each}" for each in downloads),
    ]


def get(path: str) -> Any:
    response: Any = HttpClient().get(path)
    if response.streaming:
        assert b"".join(response.streaming_content)
    return response


def make_shared_job(client: Any) -> Job:
    job = make_completed_job(client=client)
    for kind in (Artifact.Kind.JSON_REPORT, Artifact.Kind.INPUT):
        artifact_files.store(job, kind, io.BytesIO(b"{}")).save(force_insert=True)
    return job


def shown_by(refused: Any) -> str:
    """Return the code of an API error, or the text of an error page without the id of its request."""
    if refused["Content-Type"].startswith("application/json"):
        return str(refused.json()["code"])
    return text_of(refused).replace(refused["X-Request-ID"], "")


@pytest.fixture
def by_api(api: Api) -> Replace:
    return lambda job: api.post(f"jobs/{job.pk}/replace-links")


@pytest.fixture
def by_page(key: tuple[ApiKey, str]) -> Replace:
    browser = browser_of(make_member(key[0].client.account, role="member"))
    return lambda job: browser.post(f"/dashboard/{job.account.name}/jobs/{job.pk}/links")


@pytest.mark.django_db
@pytest.mark.parametrize("way", ["by_api", "by_page"])
def test_earlier_links_are_like_unknown_ones(
    way: str, key: tuple[ApiKey, str], request: pytest.FixtureRequest
) -> None:
    job, other = (make_shared_job(default_client(key[0].client.account)) for _ in range(2))
    comparison = f"/compare?share={other.share_token}&share={{}}"
    before, kept = [*public_paths(job), comparison.format(job.share_token)], public_paths(other)
    assert {get(path).status_code for path in before} == {200}
    request.getfixturevalue(way)(job)
    for path in before:
        refused, reference = get(path), get(re.sub(TOKEN, new_token(), path))
        assert refused.status_code == reference.status_code == 404
        assert shown_by(refused) == shown_by(reference)
    assert {get(path).status_code for path in public_paths(job)} == {200}
    assert not set(public_paths(job)) & set(before)
    assert public_paths(other) == kept
    event = AuditEvent.objects.get(action="job.links_replaced")
    assert (event.target, event.account_id) == (str(job.pk), job.account_id)


@pytest.mark.django_db
def test_the_response_has_the_new_links(api: Api, key: tuple[ApiKey, str]) -> None:
    job = make_shared_job(default_client(key[0].client.account))
    body = api.post(f"jobs/{job.pk}/replace-links").json()
    assert body["links"] == api.get(f"jobs/{job.pk}").json()["links"]
    for link in body["links"].values():
        assert get(link.removeprefix("http://testserver")).status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize("make", [make_job, make_running_job])
def test_links_of_an_unfinished_job_are_replaced_too(make: Callable[..., Job], key: tuple[ApiKey, str]) -> None:
    job = make(client=default_client(key[0].client.account))
    before = public_paths(job)[0]
    edits.replace_links(job, by=SYSTEM)
    assert (get(before).status_code, get(public_paths(job)[0]).status_code) == (404, 200)


@pytest.mark.django_db
def test_a_viewer_cannot_replace_links(key: tuple[ApiKey, str]) -> None:
    viewer: Membership = make_member(key[0].client.account, role="viewer")
    job = make_shared_job(default_client(viewer.account))
    before = public_paths(job)
    page = f"/dashboard/{viewer.account.name}/jobs/{job.pk}"
    assert "Replace links" not in text_of(browser_of(viewer).get(page))
    assert browser_of(viewer).post(f"{page}/links").status_code == 403
    assert public_paths(job) == before


@pytest.mark.django_db
def test_another_accounts_links_stay(by_api: Replace) -> None:
    job = make_shared_job(default_client(make_member().account))
    before = public_paths(job)
    response: Any = by_api(job)
    assert (response.status_code, public_paths(job)) == (404, before)


@pytest.mark.django_db
def test_queries_do_not_grow_with_the_files(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    job = make_shared_job(default_client(make_member().account))
    for stage in range(20):
        artifact_files.store(job, Artifact.Kind.CSV_REPORT, io.BytesIO(b"{}"), stage=stage).save(force_insert=True)
    with django_assert_num_queries(6):  # with the savepoints of two transactions
        edits.replace_links(job, by=SYSTEM)


@pytest.mark.django_db(transaction=True)
def test_two_replacements_at_once_leave_one_link(key: tuple[ApiKey, str]) -> None:
    job = make_shared_job(default_client(key[0].client.account))
    seen = []

    def replace() -> None:
        own = Job.objects.get(pk=job.pk)
        edits.replace_links(own, by=SYSTEM)
        seen.append(own.share_token)

    at_once(2, replace)
    assert Job.objects.get(pk=job.pk).share_token in seen
    assert len(set(seen)) == 2
    assert {get(path).status_code for path in public_paths(job)} == {200}
