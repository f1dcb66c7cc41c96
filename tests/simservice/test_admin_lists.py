"""Lists of large tables in the admin: no click reads a whole table."""

from datetime import timedelta
from itertools import chain
from typing import Any

import pytest
from django.contrib.admin import autodiscover, site
from django.db import connection
from django.db.models import Model
from django.test import Client as Browser
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from billing import ledger
from billing.models import Account, Entry, Grant, GrantReason, Hold
from clients.models import ApiKey, AuditEvent, Client, Invitation, Membership
from jobs.admin import JobAdmin
from jobs.models import Job
from privacy import accounts, exports
from privacy.models import AccountDeletion, Export
from simservice.admin import base as shared_admin
from simservice.admin.base import LargeTableMixin
from simservice.ids import first_id_of
from tests.factories import actor_of, make_account, make_job
from tests.jobs.plans import plan_of
from tests.privacy.data import make_full_account
from webhooks.models import Delivery, Event

pytestmark = pytest.mark.django_db
JOBS = "/admin/jobs/job/"
autodiscover()
LARGE: dict[type[Model], Any] = {
    model: admin for model, admin in site._registry.items() if issubclass(type(admin), LargeTableMixin)
}
SEARCHED = [(model, name) for model, admin in LARGE.items() for name in (*admin.exact_numbers, *admin.exact_texts)]


@pytest.fixture(scope="module")
def _rows(shared_rows: None) -> None:
    """Rows of every kind."""
    owner = make_full_account()
    ledger.grant(owner.account, 5, reason=GrantReason.GRANT_BETA)
    exports.request_account_export(owner.account, by=actor_of(owner))
    accounts.request(owner.account, by=actor_of(owner))
    Event.objects.update(job_id=1)


def test_the_large_tables_are_known() -> None:
    tables = {Job, Event, Delivery, Entry, Grant, Hold, AuditEvent, Export, AccountDeletion}
    assert LARGE.keys() == tables | {Account, Client, ApiKey, Membership, Invitation}


@pytest.mark.usefixtures("_rows")
@pytest.mark.parametrize(("model", "name"), SEARCHED, ids=lambda value: getattr(value, "__name__", value))
def test_every_search_uses_an_index(model: type[Model], name: str, rf: RequestFactory) -> None:
    path = name.removesuffix("__iexact")
    row, term = model._default_manager.exclude(**{path: None}).values_list("pk", path).latest("pk")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    with CaptureQueriesContext(connection) as captured:
        found, _ = LARGE[model].get_search_results(rf.get("/"), model._default_manager.order_by(), str(term))
        assert row in {each.pk for each in found}
    plans = [plan_of(query["sql"]) for query in captured]
    assert set(chain.from_iterable(plan.scanned for plan in plans)) == set()
    assert "JOIN" not in captured[-1]["sql"], "other tables are read first"


@pytest.mark.parametrize("model", LARGE, ids=lambda model: model.__name__)
def test_rows_stay_in_the_order_of_an_index(model: type[Model], operator: Browser) -> None:
    options = model._meta
    with CaptureQueriesContext(connection) as captured:
        page = operator.get(reverse(f"admin:{options.app_label}_{options.model_name}_changelist"))
    assert "sortable" not in page.content.decode()
    counts = [query["sql"] for query in captured if "COUNT(*)" in query["sql"]]
    assert counts
    assert not any("ORDER BY" in sql for sql in counts)


def test_account_names_of_digits_are_found(operator: Browser) -> None:
    account = make_account()
    Account.objects.filter(pk=account.pk).update(name="2026")
    job = make_job(account.clients.get())
    for path, shown in ((JOBS, job.pk), ("/admin/billing/account/", "2026")):
        assert f">{shown}<" in operator.get(path, {"q": "2026"}).content.decode()


@pytest.mark.parametrize(
    ("query", "is_shown"),
    [
        ("", True),
        ("priority__exact=1", False),
        ("channel__exact=latest&submitted=1", False),
        ("status__exact=pending", True),
        ("priority__exact=1&q={account}", True),
    ],
)
def test_filters_of_jobs_select_the_past_seven_days(operator: Browser, query: str, is_shown: bool) -> None:  # noqa: FBT001
    job = make_job()
    old = Job.objects.get(pk=job.pk)
    old.pk, old.share_token = first_id_of(timezone.now() - timedelta(days=8)), "old"
    old.save(force_insert=True)
    text = operator.get(f"{JOBS}?{query.format(account=job.account)}").content.decode()
    assert f'value="{job.pk}"' in text
    assert (f'value="{old.pk}"' in text) == is_shown


def test_a_list_that_takes_too_long_says_what_to_do(operator: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_admin, "LIST_TIMEOUT_MS", 20)
    slow = Job.objects.extra(where=["pg_sleep(5) IS NOT NULL"])
    monkeypatch.setattr(JobAdmin, "get_queryset", lambda *_: slow)
    make_job()
    page = operator.get(JOBS)
    assert "This list takes too long" in page.content.decode()
    assert Job.objects.exists(), "the connection can still be used"
