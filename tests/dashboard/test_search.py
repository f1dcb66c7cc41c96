"""The search in the bar."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clients.accounts import default_client
from clients.models import Membership
from dashboard.jobs.job_list import MAX_TEXT
from tests.dashboard.browsing import browser_of
from tests.dashboard.job_pages import listed_ids
from tests.dashboard.summaries import make_completed_job
from tests.factories import make_client, make_event, make_job, make_key, make_member

pytestmark = pytest.mark.django_db


def found(member: Membership, term: str) -> str:
    """Return where a search leads to, below the account."""
    response = browser_of(member).get(f"/dashboard/{member.account}/search", {"q": term})
    assert response.status_code == 302
    return str(response.headers["Location"]).removeprefix(f"/dashboard/{member.account}/")


def test_an_id_or_a_name_opens_its_object(owner: Membership) -> None:
    job, client = make_completed_job(account=owner.account), make_client(owner.account, "guild-bot")
    key, event = make_key(owner.account)[0], make_event(client)
    for term, address in {
        str(job.pk): f"jobs/{job.pk}",
        f" {job.share_token} ": f"jobs/{job.pk}",
        f"https://sim.example/share/{job.share_token}": f"jobs/{job.pk}",
        str(client.pk): f"clients/{client.pk}",
        "guild-bot": f"clients/{client.pk}",
        str(key.pk): f"keys/{key.pk}",
        event.name: f"events/{event.name}",
    }.items():
        assert found(owner, term) == address


def test_objects_of_other_accounts_are_not_found(owner: Membership) -> None:
    other = make_member().account
    job, client = make_completed_job(account=other), make_client(other, "their-bot")
    key, event = make_key(other)[0], make_event(client)
    for term in (str(job.pk), job.share_token, str(client.pk), "their-bot", str(key.pk), event.name):
        assert found(owner, term) == f"jobs?text={term}"


def test_other_text_lists_jobs_by_title_and_character(owner: Membership) -> None:
    titled = make_completed_job(account=owner.account, given_title="Vault of Tuesday")
    character = make_job(default_client(owner.account), character="Walker")
    assert found(owner, "of tues") == "jobs?text=of+tues"
    assert listed_ids(owner, "text=of+tues") == [titled.pk]
    assert listed_ids(owner, "text=walk") == [character.pk]


@pytest.mark.parametrize("term", ["", "  ", "\0"])
def test_an_empty_search_lists_all_jobs(owner: Membership, term: str) -> None:
    assert found(owner, term) == "jobs"


def test_a_key_is_not_repeated_in_an_address(owner: Membership) -> None:
    _, secret = make_key(owner.account)
    assert found(owner, secret) == "clients"


@pytest.mark.parametrize(
    "term", ["x" * 100_000, "9" * 18, "\N{ARABIC-INDIC DIGIT ONE}" * 18, "a\0b", "%", "/share/" * 20], ids=range(6)
)
def test_a_search_is_bounded(owner: Membership, term: str) -> None:
    assert found(owner, term).startswith("jobs?text=")
    assert len(found(owner, "x" * 100_000)) == len("jobs?text=") + MAX_TEXT


def test_a_search_makes_few_queries(owner: Membership) -> None:
    make_completed_job(account=owner.account)
    http = browser_of(owner)
    for term in ("9" * 18, "evt_" + "0" * 32, "x" * 22):
        with CaptureQueriesContext(connection) as queries:
            http.get(f"/dashboard/{owner.account}/search", {"q": term})
        assert len(queries) <= 7
