"""Metadata keeps the order in which it was sent."""

from typing import Any

import pytest
from django.test import Client as HttpClient

from clients.accounts import default_client
from clients.models import ApiKey
from tests.conftest import Api
from tests.factories import make_job, make_member
from tests.jobs.api.bodies import BODY

# Not sorted by name or length, the order of jsonb; some names need escapes.
METADATA = {"zeta": "1", "b": "é 😀", "items": "<b>", "a": "", "10": "x", "9": "y", 'a "b"\\n': "\n"}
ENTRIES = list(METADATA.items())


def entries(response: Any) -> list[tuple[str, str]]:
    """Return the entries of a response's metadata in order."""
    assert response.status_code == 200
    return list(response.json()["metadata"].items())


@pytest.mark.django_db
def test_every_response_keeps_the_order_of_the_request(api: Api) -> None:
    first = api.post("jobs", BODY | {"metadata": METADATA}, headers={"idempotency-key": "k"})
    path = f"jobs/{first.json()['id']}"
    assert entries(first) == entries(api.get(path)) == entries(api.get(f"{path}/status")) == ENTRIES
    assert list(api.get("jobs").json()["jobs"][0]["metadata"].items()) == ENTRIES
    assert entries(api.post(f"{path}/cancel")) == ENTRIES
    again = api.post("jobs", BODY | {"metadata": METADATA}, headers={"idempotency-key": "k"})
    assert again.content == first.content


@pytest.mark.django_db
def test_pages_keep_the_order_of_the_request(key: tuple[ApiKey, str]) -> None:
    member = make_member(key[0].client.account)
    job = make_job(default_client(member.account), metadata={"zeta": "last-in-order", "beta": "first-in-order"})
    http = HttpClient()
    http.force_login(member.user)
    for path in (f"jobs/{job.pk}/log", f"jobs/new?again={job.pk}"):
        page = http.get(f"/dashboard/{member.account.name}/{path}").content.decode()
        assert 0 < page.index("last-in-order") < page.index("first-in-order"), path


@pytest.mark.django_db
def test_the_admin_keeps_the_order_of_the_request(admin_client: HttpClient) -> None:
    job = make_job(metadata={"zeta": "é", "beta": "2"})
    page = admin_client.get(f"/admin/jobs/job/{job.pk}/change/").content.decode()
    assert "{&quot;zeta&quot;: &quot;é&quot;, &quot;beta&quot;: &quot;2&quot;}" in page
