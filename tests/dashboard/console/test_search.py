"""Search of the admin for an object by any of its identifiers."""

import logging
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Model
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from billing import ledger
from billing.models import Entry, Grant, GrantReason, Hold
from clients.models import ApiKey, AuditEvent
from dashboard.console.search import LOOKUPS, MAX_CHARACTERS, MAX_MATCHES
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Build, Job, Run
from privacy.models import AccountDeletion
from tests.dashboard.console.conftest import Staff
from tests.factories import (
    BuildFactory,
    make_account,
    make_invitation,
    make_job,
    make_key,
    make_member,
    make_running_job,
)
from tests.jobs.plans import plan_of
from tests.webhooks.helpers import make_event_in
from webhooks.models import Delivery, Event

pytestmark = pytest.mark.django_db
TOKEN = "abcdefghijklmnopqrst_-"


def page_of(found: Model) -> str:
    options = found._meta
    return reverse(f"admin:{options.app_label}_{options.model_name}_change", args=[found.pk])


def search(browser: Browser, term: object) -> Any:
    return browser.post("/admin/search/", {"q": term})


def found_by(browser: Browser, term: object) -> list[str]:
    """Return the pages that a search leads to."""
    response = search(browser, term)
    if response.status_code == 302:
        return [response.headers["Location"]]
    return [match.url for match in response.context["found"]]


def make_artifact() -> Artifact:
    job = make_running_job()
    return Artifact.objects.create(
        id=123456789012345678,
        job=job,
        attempt=1,
        kind="json_report",
        token=TOKEN,
        storage_name="x",
        bytes=1,
        created_at=job.created_at,
    )


def make_grant() -> Grant:
    return ledger.grant(make_account(credits=0), 5, reason=GrantReason.GRANT_BETA)


def make_event() -> Event:
    return make_event_in("failed", days_ago=0)


# An object, its identifier, and the object that is shown
SEARCHES: dict[str, Callable[[], tuple[object, Model]]] = {
    "job": lambda: (lambda job: (job.pk, job))(make_job()),
    "share link": lambda: (lambda job: (job.share_token, job))(make_job()),
    "run": lambda: (lambda job: (Run.objects.get(job=job).pk, job))(make_running_job()),
    "artifact": lambda: (lambda artifact: (artifact.pk, artifact.job))(make_artifact()),
    "artifact's token": lambda: (lambda artifact: (TOKEN, artifact.job))(make_artifact()),
    "build": lambda: (lambda build: (str(build.pk).upper(), build))(BuildFactory.create()),
    "commit": lambda: (lambda build: (build.commit[:12], build))(BuildFactory.create()),
    "event": lambda: (lambda event: (event.name, event))(make_event()),
    "delivery": lambda: (lambda event: (event.deliveries.get().name, event.deliveries.get()))(make_event()),
    "key": lambda: (lambda key: (key[1], key[0]))(make_key()),
    "key's end": lambda: (lambda key: (key[1][-4:], key[0]))(make_key()),
    "key as shown": lambda: (lambda key: (f" {key[0]} ", key[0]))(make_key()),
    "account": lambda: (lambda account: (account.name, account))(make_account()),
    "plan": lambda: (lambda plan: (plan.name, plan))(make_account().plan),
    "plan's number": lambda: (lambda plan: (plan.pk, plan))(make_account().plan),
    "endpoint": lambda: (lambda event: (event.client_id, event.client.webhook))(make_event()),
    "hold": lambda: (
        lambda: (987654321, Hold.objects.create(job_id=987654321, account=make_account(), credits=1))
    )(),
    "account deletion": lambda: (lambda deletion: (deletion.pk, deletion))(
        AccountDeletion.objects.create(account=make_account(), due_at="2030-01-01T00:00Z")
    ),
    "user": lambda: (lambda member: (member.user.username.upper(), member.user))(make_member()),
    "email address": lambda: (lambda member: (member.user.email.upper(), member.user))(make_member()),
    "grant": lambda: (lambda grant: (grant.pk, grant))(make_grant()),
    "entry": lambda: (lambda entry: (entry.pk, entry))(Entry.objects.filter(account=make_account()).latest("pk")),
    "invitation": lambda: (lambda invitation: (invitation[0].pk, invitation[0]))(make_invitation()),
    "audit event": lambda: (lambda event: (event.pk, event))(
        AuditEvent.objects.create(account=make_account(), action="account.resumed", actor="Robin")
    ),
}


# Objects of other kinds can have the same number.
SHARED_NUMBERS = {
    "plan's number",
    "endpoint",
    "hold",
    "account deletion",
    "run",
    "entry",
    "invitation",
    "audit event",
}


@pytest.mark.parametrize("kind", SEARCHES)
def test_every_identifier_leads_to_its_object(kind: str, operator: Browser) -> None:
    term, shown = SEARCHES[kind]()
    assert page_of(shown) in found_by(operator, term)
    if kind not in SHARED_NUMBERS | {"key's end", "account"}:
        assert search(operator, term).status_code == 302, "the only object is shown at once"


def test_keys_are_named_with_their_client_and_the_newest_are_shown(operator: Browser) -> None:
    made = [make_key()[0] for _ in range(MAX_MATCHES + 1)]
    ApiKey.objects.update(last4="zzzz")
    response = search(operator, "zzzz")
    assert [match.url for match in response.context["found"]] == [page_of(key) for key in reversed(made[1:])]
    assert f"sk_…zzzz of {made[-1].client}" in response.content.decode()
    assert f"Only the newest {MAX_MATCHES} objects" in response.content.decode()


def test_several_objects_are_listed_with_their_types(operator: Browser) -> None:
    account = make_account()
    User.objects.create_user(account.name)
    text = search(operator, account.name).content.decode()
    assert "<td>Account</td>" in text
    assert "<td>User</td>" in text


@pytest.mark.parametrize(
    "term",
    ["", " ", "0", "nothing here", "x\0y", "9" * 18, "9" * 400, "\u0661" * 4, "%", "sk_", "é", "' OR 1=1 --", "\n"],
)
def test_other_terms_find_nothing(term: str, operator: Browser) -> None:
    make_job()
    assert found_by(operator, term) == []


def test_a_request_id_is_explained(operator: Browser) -> None:
    assert "search the logs" in search(operator, f"req_{'0' * 32}").content.decode()


def test_only_permitted_objects_are_found(staff: Staff) -> None:
    artifact = make_artifact()
    for browser, pages in (
        (staff("view_job", "view_artifact"), [page_of(artifact.job)]),
        (staff("view_artifact"), []),
        (staff("view_job"), []),
    ):
        assert found_by(browser, artifact.pk) == pages


def test_strangers_are_sent_to_the_login(client: Browser) -> None:
    job, member = make_job(), make_member()
    assert search(client, job.pk).headers["Location"].startswith("/admin/login/")
    client.force_login(member.user)
    assert search(client, job.pk).headers["Location"].startswith("/admin/login/")


def test_terms_in_the_address_are_ignored(operator: Browser) -> None:
    response = operator.get("/admin/search/", {"q": make_job().pk})
    assert response.status_code == 200
    assert response.context["found"] == []


def test_a_key_is_neither_shown_nor_logged(operator: Browser, caplog: pytest.LogCaptureFixture) -> None:
    secret = f"sk_{'0' * 46}"
    caplog.set_level(logging.DEBUG)
    with CaptureQueriesContext(connection) as captured:
        assert secret not in search(operator, secret).content.decode()
    assert secret not in caplog.text
    assert not any(secret in query["sql"] for query in captured)


def test_names_are_escaped(operator: Browser) -> None:
    builds = [BuildFactory.create(git_branch=f"<b>{number}", commit="a" * 40) for number in range(2)]
    text = search(operator, builds[0].commit).content.decode()
    assert "&lt;b&gt;1@" in text
    assert "<b>1@" not in text


def test_the_number_of_queries_is_bounded(operator: Browser) -> None:
    for term in ("123456789012345678", "1234", "a" * 22, "a" * MAX_CHARACTERS):
        with CaptureQueriesContext(connection) as captured:
            search(operator, term)
        assert len(captured) <= len(LOOKUPS)


def test_each_lookup_uses_an_index() -> None:
    make_event()
    terms = {"pk": "1", "commit__startswith": "0"}
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    for lookup in LOOKUPS:
        (field,) = lookup.condition("x" * 50)
        # Builds are few, and `tests/jobs/test_plans.py` tests the search for titles.
        if lookup.model is Build or field == "pk__in":
            continue
        condition = lookup.condition(terms.get(field, "x" * 50))
        with CaptureQueriesContext(connection) as captured:
            list(lookup.model._default_manager.filter(**condition)[:1])
        plans = [plan_of(query["sql"]) for query in captured]
        assert set(chain.from_iterable(plan.scanned for plan in plans)) == set(), lookup
        assert all(plan.indexes for plan in plans), lookup


def test_every_page_of_the_admin_has_the_search(operator: Browser) -> None:
    for page in (
        "/admin/records/",
        "/admin/jobs/job/",
        "/admin/billing/plan/",
        "/admin/search/",
        f"/admin/jobs/job/{make_job().pk}/change/",
    ):
        assert 'action="/admin/search/"' in operator.get(page).content.decode(), page


def test_ended_and_claimed_jobs_are_found_by_the_start_of_their_title_or_character(operator: Browser) -> None:
    titled, named, running, waiting = make_ended_job(), make_ended_job(), make_running_job(), make_job()
    Job.objects.filter(pk=titled.pk).update(metadata={"title": "Raid % of the week"}, character="Somebody")
    Job.objects.filter(pk=named.pk).update(character="Ραιδ Raider")
    Job.objects.filter(pk__in=[running.pk, waiting.pk]).update(given_title="RAID tonight")
    assert found_by(operator, "raid") == [page_of(running), page_of(titled)]
    assert found_by(operator, "Ραιδ") == [page_of(named)]
    assert found_by(operator, "Raid %") == [page_of(titled)]
    assert found_by(operator, "Some") == [page_of(titled)]
    assert found_by(operator, "tonight") == []
    text = search(operator, "raid").content.decode()
    assert f"{titled.pk} Raid % of the week" in text
    listed = operator.get("/admin/jobs/job/", {"q": "raid"}).content.decode()
    assert [f'value="{job.pk}"' in listed for job in (titled, named, running, waiting)] == [
        True,
        False,
        True,
        False,
    ]


def test_titles_need_the_permission_to_view_jobs(staff: Staff) -> None:
    Job.objects.filter(pk=make_running_job().pk).update(given_title="Raid")
    assert found_by(staff("view_build"), "Raid") == []


def make_ended_job() -> Job:
    job = make_running_job()
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, summary={}))
    return job


def test_deliveries_are_found_by_number(operator: Browser) -> None:
    make_event()
    delivery = Delivery.objects.get()
    assert page_of(delivery) in found_by(operator, delivery.pk)
