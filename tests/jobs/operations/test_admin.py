"""Admin pages and actions for jobs and builds."""

import io
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin import autodiscover, site
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.db import connection
from django.db.models import Model
from django.test import Client as HttpClient
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from billing import ledger
from billing.models import GrantReason, Hold
from clients.audit import SYSTEM
from clients.models import ApiKey
from jobs.enums import MoveResult, Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Build, Job, JobEvent, Run
from jobs.operations import operator_actions
from privacy.models import AccountDeletion
from simservice.admin import actions as shared_actions
from simservice.admin import base as shared_admin
from tests import admin_actions
from tests.factories import BuildFactory, make_account, make_job, make_key, make_member, make_running_job
from tests.jobs.simulators import make_stand_in

pytestmark = pytest.mark.django_db
JOBS = "/admin/jobs/job/"


def staff(*permissions: str) -> HttpClient:
    """Return the browser of a staff user with these permissions."""
    user = User.objects.create_user(f"staff-{User.objects.count()}", is_staff=True)
    names = [name.split(".")[1] for name in permissions]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    http = HttpClient()
    http.force_login(user)
    return http


def act(http: HttpClient, action: str, *rows: Any) -> list[str]:
    """Run an admin action on rows and return its message."""
    path = f"/admin/{rows[0]._meta.app_label}/{rows[0]._meta.model_name}/"
    return admin_actions.act(http, path, action, [row.pk for row in rows])


def recorded(rows: Iterable[Any]) -> list[str]:
    """Return the admin log entries of rows."""
    entries = LogEntry.objects.filter(object_id__in=[str(row.pk) for row in rows])
    return sorted(entries.values_list("change_message", flat=True))


def make_ended_job() -> Job:
    job = make_running_job()
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, summary={}))
    return Job.objects.get(pk=job.pk)


def make_deletion() -> AccountDeletion:
    return AccountDeletion.objects.create(account=make_account(), due_at=timezone.now() + timedelta(days=1))


def test_cancel_ends_waiting_jobs_and_stops_running_ones(operator: HttpClient) -> None:
    waiting, running, ended = make_job(), make_running_job(), make_ended_job()
    messages = act(operator, "cancel", waiting, running, ended)
    assert messages == ["2 jobs cancelled."]
    assert Job.objects.get(pk=waiting.pk).status == "cancelled"
    assert Job.objects.get(pk=running.pk).cancel_requested_at is not None
    assert recorded([waiting, running, ended]) == ["Cancelled", "Cancelled"]


def test_requeue_takes_a_job_from_its_worker(operator: HttpClient) -> None:
    running, waiting = make_running_job(), make_job()
    assert act(operator, "requeue", running, waiting)[0] == "1 job requeued."
    requeued = Job.objects.get(pk=running.pk)
    assert (requeued.status, requeued.worker) == ("queued", "")
    assert not job_moves.finish(running, Outcome(status=Status.COMPLETED, summary={})), "the worker lost it"
    assert "operator" in JobEvent.objects.filter(job=running).latest("id").reason
    assert recorded([running, waiting]) == ["Requeued"]


def test_release_ends_a_job_and_returns_its_credits(operator: HttpClient) -> None:
    running, waiting, ended = make_running_job(), make_job(), make_ended_job()
    before = ledger.balances(running.account)
    assert act(operator, "release", running, waiting, ended)[0] == "2 jobs released."
    released = Job.objects.get(pk=running.pk)
    assert (released.status, released.error_code, released.credits_consumed) == (
        "failed",
        "execution_interrupted",
        0,
    )
    after = ledger.balances(running.account)
    assert (after.reserved, after.available) == (0, before.available + before.reserved)
    assert Hold.objects.get(pk=waiting.pk).resolved_at is not None
    assert not Run.objects.filter(job=running, ended_at=None).exists()


@pytest.mark.parametrize("action", [operator_actions.requeue, operator_actions.release])
def test_an_attempt_that_was_not_confirmed_is_not_stopped(action: Callable[..., MoveResult]) -> None:
    seen = make_running_job()
    assert job_moves.requeue(Job.objects.get(pk=seen.pk), reason="lost")
    assert job_moves.claim_job("another") is not None
    assert action(seen, by=SYSTEM) is MoveResult.TAKEN
    assert Job.objects.get(pk=seen.pk).worker == "another"


@pytest.mark.parametrize("action", ["requeue", "release"])
def test_another_attempt_is_shown_before_it_is_stopped(operator: HttpClient, action: str) -> None:
    job = make_running_job()
    preview = admin_actions.choose(operator, JOBS, action, [job.pk])
    assert job_moves.requeue(Job.objects.get(pk=job.pk), reason="lost")
    assert job_moves.claim_job("another") is not None
    again = admin_actions.confirm(operator, JOBS, preview)
    assert "Attempt 2 stops" in again.content.decode()
    assert Job.objects.get(pk=job.pk).worker == "another"


def test_an_action_takes_a_limited_number_of_jobs(operator: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_actions, "MAX_SELECTED", 1)
    first, second = make_job(), make_job()
    assert act(operator, "cancel", first, second) == ["Select at most 1 jobs at a time."]
    assert Job.objects.filter(status="cancelled").count() == 0


def test_withdrawing_and_restoring_builds_is_recorded(operator: HttpClient, tmp_path: Path) -> None:
    build = make_stand_in(tmp_path, 'print("SimulationCraft 1120-01")')
    for action in ("withdraw", "withdraw", "restore"):
        act(operator, action, build)
    assert Build.objects.get(pk=build.pk).withdrawn_at is None
    assert recorded([build]) == ["Restored", "Withdrawn"]


def test_revoking_keys_is_recorded(operator: HttpClient) -> None:
    key, _ = make_key()
    for _ in range(2):
        act(operator, "revoke", key)
    assert ApiKey.objects.get(pk=key.pk).state == "revoked"
    assert recorded([key]) == ["Revoked"]


@pytest.mark.parametrize(
    ("model", "action", "view", "operate"),
    [
        ("job", "cancel", "jobs.view_job", "jobs.change_job"),
        ("job", "requeue", "jobs.view_job", "jobs.change_job"),
        ("job", "release", "jobs.view_job", "jobs.change_job"),
        ("build", "withdraw", "jobs.view_build", "jobs.change_build"),
        ("account", "grant_credits", "billing.view_account", "billing.add_entry"),
        ("account", "correct_credits", "billing.view_account", "billing.add_entry"),
        ("apikey", "revoke", "clients.view_apikey", "clients.change_apikey"),
        ("account", "request_deletion", "billing.view_account", "privacy.add_accountdeletion"),
        ("accountdeletion", "undo", "privacy.view_accountdeletion", "privacy.add_accountdeletion"),
        ("accountdeletion", "finish_now", "privacy.view_accountdeletion", "privacy.end_grace_period"),
    ],
)
def test_read_only_staff_see_no_actions(model: str, action: str, view: str, operate: str) -> None:
    job = make_running_job()
    rows: list[Any] = [job, job.build, job.account, make_key(job.account)[0], make_deletion()]
    row = next(each for each in rows if each._meta.model_name == model)
    path = f"/admin/{row._meta.app_label}/{model}/"
    offered = f'value="{action}"'
    assert offered not in staff(view).get(path).content.decode()
    assert offered in staff(view, operate).get(path).content.decode()
    act(staff(view), action, row)
    assert not LogEntry.objects.exists()
    assert Job.objects.get(pk=job.pk).cancel_requested_at is None


def test_staff_groups_have_their_permissions() -> None:
    for _ in range(2):
        call_command("makegroups", stdout=io.StringIO())
    support, operators = Group.objects.get(name="support"), Group.objects.get(name="operators")
    assert {permission.codename.split("_")[0] for permission in support.permissions.all()} == {"view"}
    acting = {permission.codename for permission in operators.permissions.all()} - {
        permission.codename for permission in support.permissions.all()
    }
    assert {"change_job", "add_entry", "change_account"} <= acting
    assert not {permission for permission in acting if permission.startswith("delete_")} - {"delete_membership"}
    assert not operators.permissions.filter(content_type__app_label="auth").exists()
    assert "add_accountdeletion" in acting
    assert "end_grace_period" not in acting


def queries_of(http: HttpClient, path: str) -> int:
    """Return the number of queries of an admin page."""
    with CaptureQueriesContext(connection) as captured:
        assert http.get(path).status_code == 200
    return len(captured)


@pytest.mark.parametrize(
    "path",
    [
        "jobs/job",
        "jobs/build",
        "billing/account",
        "billing/plan",
        "billing/entry",
        "billing/grant",
        "billing/hold",
        "clients/client",
        "clients/apikey",
        "clients/membership",
        "clients/invitation",
    ],
)
def test_list_queries_do_not_grow_with_the_list(operator: HttpClient, path: str) -> None:
    def fill() -> None:
        account = make_member(make_running_job().account).account
        make_key(account)
        ledger.grant(account, 5, reason=GrantReason.GRANT_PROMO, note="Welcome")

    fill()
    queries_of(operator, f"/admin/{path}/")
    before = queries_of(operator, f"/admin/{path}/")
    for _ in range(3):
        fill()
    assert queries_of(operator, f"/admin/{path}/") == before <= 12


def test_a_job_page_shows_slots_and_shards(operator: HttpClient) -> None:
    job = make_running_job(parallel_slots=77)
    Run.objects.filter(job=job).update(shard=78, try_number=79, seat=76)
    text = operator.get(f"{JOBS}{job.pk}/change/").content.decode()
    for part in (">77<", "shard 78, try 79: simulator started", ", slot 76<"):
        assert part in text
    assert "Slots used" in text


def test_job_page_queries_do_not_grow_with_the_runs(operator: HttpClient) -> None:
    job = make_running_job()
    page = f"{JOBS}{job.pk}/change/"
    queries_of(operator, page)
    before = queries_of(operator, page)
    run = Run.objects.get(job=job)
    for stage in (2, 3):
        run.pk, run.stage = None, stage
        run.build = BuildFactory.create()
        run.save(force_insert=True)
    assert queries_of(operator, page) == before <= 12
    text = operator.get(page).content.decode()
    assert job.share_token not in text


@pytest.mark.parametrize("searched", ["id", "account", "nobody", "1" * 19])
def test_search_finds_jobs_by_id_and_account(operator: HttpClient, searched: str) -> None:
    job = make_job()
    make_job()
    term = {"id": str(job.pk), "account": job.account.name}.get(searched, searched)
    text = operator.get(JOBS, {"q": term}).content.decode()
    assert text.count('name="_selected_action"') == (1 if searched in ("id", "account") else 0)


@pytest.mark.parametrize("query", ["submitted=1", "submitted=x", "error_code=internal", "status__exact=queued"])
def test_filters_select_jobs(operator: HttpClient, query: str) -> None:
    make_job()
    assert operator.get(f"{JOBS}?{query}").status_code == 200


def test_lists_are_counted_up_to_a_limit(operator: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_admin, "MAX_COUNT", 2)
    account = make_account()
    for _ in range(3):
        make_key(account)
    assert "2 api keys" in operator.get("/admin/clients/apikey/").content.decode()


autodiscover()
# Superusers manage these.
OTHER_APPS = {"auth", "account", "mfa", "usersessions"}
OWN_MODELS = [model for model in site._registry if model._meta.app_label not in OTHER_APPS]


@pytest.mark.parametrize("model", OWN_MODELS, ids=lambda model: model._meta.label_lower)
def test_no_admin_page_shows_actions_to_read_only_staff(model: type[Model], rf: RequestFactory) -> None:
    request = rf.get("/")
    request.user = User.objects.create_user("support", is_staff=True)
    call_command("makegroups", stdout=io.StringIO())
    request.user.groups.add(Group.objects.get(name="support"))
    model_admin = site._registry[model]
    assert model_admin.has_view_permission(request)
    assert list(model_admin.get_actions(request)) == []
    assert not model_admin.has_add_permission(request)
    assert not model_admin.has_delete_permission(request)
