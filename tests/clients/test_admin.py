"""Accounts and their objects in the admin."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client as HttpClient
from django.test.utils import CaptureQueriesContext

from billing.models import Account
from clients.accounts import default_client
from clients.models import ApiKey
from jobs.models import Job
from simservice.admin.forms import STALE
from tests.admin_actions import opened_of
from tests.factories import PlanFactory, make_account, make_key, make_member, make_running_job

pytestmark = pytest.mark.django_db
NO_ROWS = {
    f"{inline}-{field}": "0" for inline in ("clients", "memberships") for field in ("TOTAL_FORMS", "INITIAL_FORMS")
}


def test_a_new_account_has_a_built_in_client(operator: HttpClient) -> None:
    form = {"name": "guild", "plan": PlanFactory.create().pk, **NO_ROWS}
    assert operator.post("/admin/billing/account/add/", form).status_code == 302
    assert default_client(Account.objects.get(name="guild")).name == "default"


def test_forms_of_accounts_cannot_suspend_them(operator: HttpClient) -> None:
    fields = operator.get("/admin/billing/account/add/").context["adminform"].form.fields
    assert {"name", "plan"} <= set(fields)
    assert "suspended_at" not in fields
    page = operator.get(f"/admin/billing/account/{make_account().pk}/change/")
    assert "suspended_at" not in page.context["adminform"].form.fields


def test_every_list_and_object_page_opens(operator: HttpClient) -> None:
    job = make_running_job()
    key = make_key(make_account())[0]
    rows = [job, job.build, job.account, job.account.plan, key]
    for row in rows:
        assert row is not None
        path = f"/admin/{row._meta.app_label}/{row._meta.model_name}/"
        assert operator.get(path).status_code == 200
        assert operator.get(f"{path}{row.pk}/change/").status_code == 200


def test_jobs_are_read_only(operator: HttpClient) -> None:
    job = make_running_job()
    assert operator.post(f"/admin/jobs/job/{job.pk}/change/", {"status": "completed"}).status_code == 403
    assert operator.post(f"/admin/jobs/job/{job.pk}/delete/", {"post": "yes"}).status_code == 403
    assert Job.objects.get(pk=job.pk).status == "running"


def test_a_stale_form_of_a_key_is_refused(operator: HttpClient) -> None:
    key, _ = make_key()
    page = f"/admin/clients/apikey/{key.pk}/change/"
    fields = {"name": "laptop", "opened": opened_of(operator, page)}
    ApiKey.objects.filter(pk=key.pk).update(expires_at="2030-01-02T10:00Z")
    assert STALE in operator.post(page, fields).content.decode()
    assert ApiKey.objects.get(pk=key.pk).expires_at is not None


def test_a_key_is_locked_while_its_form_is_saved(operator: HttpClient) -> None:
    key, _ = make_key()
    page = f"/admin/clients/apikey/{key.pk}/change/"
    fields = {"name": "laptop", "opened": opened_of(operator, page)}
    with CaptureQueriesContext(connection) as captured:
        operator.post(page, fields)
    locked, saved = (
        next(place for place, query in enumerate(captured) if text in query["sql"])
        for text in ("FOR NO KEY UPDATE", 'UPDATE "clients_apikey"')
    )
    assert locked < saved


def test_users_and_members_are_not_deleted_in_bulk(operator: HttpClient) -> None:
    member = make_member()
    for path in ("/admin/auth/user/", "/admin/clients/membership/"):
        assert "delete_selected" not in operator.get(path).content.decode()
    assert operator.post(f"/admin/auth/user/{member.user.pk}/delete/", {"post": "yes"}).status_code == 403
    assert User.objects.filter(pk=member.user.pk).exists()
