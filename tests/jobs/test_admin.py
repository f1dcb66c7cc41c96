"""What operators see of jobs and builds, and what they can do about them."""

import io
from collections.abc import Iterable
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin import site
from django.contrib.admin.models import LogEntry
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.management import create_contenttypes
from django.contrib.messages import get_messages
from django.core.management import call_command
from django.db import connection
from django.db.models import Model
from django.test import Client as HttpClient
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from billing import ledger
from billing.models import GrantReason, Hold
from clients.models import ApiKey
from dashboard.management.commands import makegroups
from jobs import admin, lifecycle
from jobs.enums import Status
from jobs.lifecycle import Outcome
from jobs.models import Build, Job, JobEvent, Run
from simservice import admin as shared_admin
from simservice.redis import worker_heartbeats
from tests.factories import BuildFactory, make_account, make_job, make_key, make_member, make_running_job

pytestmark = pytest.mark.django_db
JOBS = "/admin/jobs/job/"


@pytest.fixture
def _permissions() -> None:
    """Make sure that there are permissions: a test that empties the database empties it of them too."""
    for app in apps.get_app_configs():
        create_contenttypes(app, verbosity=0)
        create_permissions(app, verbosity=0)


def staff(*permissions: str) -> HttpClient:
    """Return the browser of somebody on the staff who has these permissions."""
    user = User.objects.create_user(f"staff-{User.objects.count()}", is_staff=True)
    names = [name.split(".")[1] for name in permissions]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    http = HttpClient()
    http.force_login(user)
    return http


@pytest.fixture
def operator() -> HttpClient:
    http = HttpClient()
    http.force_login(User.objects.create_superuser("operator"))
    return http


def act(http: HttpClient, action: str, *rows: Any) -> list[str]:
    """Do an action on rows of one kind, and return what the operator is told."""
    place = f"/admin/{rows[0]._meta.app_label}/{rows[0]._meta.model_name}/"
    answer = http.post(place, {"action": action, "_selected_action": [row.pk for row in rows]})
    return [str(message) for message in get_messages(answer.wsgi_request)]


def recorded(rows: Iterable[Any]) -> list[str]:
    """Return what the operators' record says of rows."""
    entries = LogEntry.objects.filter(object_id__in=[str(row.pk) for row in rows])
    return sorted(entries.values_list("change_message", flat=True))


def ended() -> Job:
    job = make_running_job()
    assert lifecycle.finish(job, Outcome(status=Status.COMPLETED, summary={}))
    return Job.objects.get(pk=job.pk)


def test_cancelling_ends_what_waits_and_stops_what_runs(operator: HttpClient) -> None:
    waiting, running, over = make_job(), make_running_job(), ended()
    told = act(operator, "cancel", waiting, running, over)
    assert told == ["2 jobs cancelled.", f"Skipped because they had already ended: {over.pk}."]
    assert Job.objects.get(pk=waiting.pk).status == "cancelled"
    assert Job.objects.get(pk=running.pk).cancel_requested_at is not None
    assert recorded([waiting, running, over]) == ["Cancelled", "Cancelled"]


def test_requeueing_takes_a_job_from_its_worker(operator: HttpClient) -> None:
    running, waiting = make_running_job(), make_job()
    assert act(operator, "requeue", running, waiting)[0] == "1 job requeued."
    found = Job.objects.get(pk=running.pk)
    assert (found.status, found.worker) == ("queued", "")
    assert not lifecycle.finish(running, Outcome(status=Status.COMPLETED, summary={})), "the worker lost it"
    assert "operator" in JobEvent.objects.filter(job=running).latest("id").reason
    assert recorded([running, waiting]) == ["Requeued"]


def test_releasing_ends_a_job_and_gives_its_credits_back(operator: HttpClient) -> None:
    running, waiting, over = make_running_job(), make_job(), ended()
    before = ledger.balances(running.account)
    assert act(operator, "release", running, waiting, over)[0] == "2 jobs released."
    found = Job.objects.get(pk=running.pk)
    assert (found.status, found.error_code, found.credits_consumed) == ("failed", "execution_interrupted", 0)
    after = ledger.balances(running.account)
    assert (after.reserved, after.available) == (0, before.available + before.reserved)
    assert Hold.objects.get(pk=waiting.pk).resolved_at is not None
    assert not Run.objects.filter(job=running, ended_at=None).exists()


def test_so_many_jobs_at_a_time(operator: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "MAX_SELECTED", 1)
    first, second = make_job(), make_job()
    assert act(operator, "cancel", first, second) == ["Select at most 1 jobs at a time."]
    assert Job.objects.filter(status="cancelled").count() == 0


def test_builds_are_withdrawn_and_restored_on_record(operator: HttpClient) -> None:
    build = BuildFactory.create()
    for action in ("withdraw", "withdraw", "restore"):
        act(operator, action, build)
    assert Build.objects.get(pk=build.pk).withdrawn_at is None
    assert recorded([build]) == ["Restored", "Withdrawn"]


def test_keys_are_revoked_on_record(operator: HttpClient) -> None:
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
    ],
)
@pytest.mark.usefixtures("_permissions")
def test_who_may_only_look_is_offered_no_action(model: str, action: str, view: str, operate: str) -> None:
    job = make_running_job()
    row = {"job": job, "build": job.build, "account": job.account, "apikey": make_key(job.account)[0]}[model]
    place = f"/admin/{row._meta.app_label}/{model}/"  # type: ignore[union-attr]
    offered = f'value="{action}"'
    assert offered not in staff(view).get(place).content.decode()
    assert offered in staff(view, operate).get(place).content.decode()
    act(staff(view), action, row)
    assert not LogEntry.objects.exists()
    assert Job.objects.get(pk=job.pk).cancel_requested_at is None


@pytest.mark.usefixtures("_permissions")
def test_the_groups_of_the_staff() -> None:
    for _ in range(2):
        call_command("makegroups", stdout=io.StringIO())
    support, operators = Group.objects.get(name="support"), Group.objects.get(name="operators")
    assert {one.codename.split("_")[0] for one in support.permissions.all()} == {"view"}
    acting = {one.codename for one in operators.permissions.all()} - {
        one.codename for one in support.permissions.all()
    }
    assert {"change_job", "add_entry", "change_account"} <= acting
    assert not {one for one in acting if one.startswith("delete_")} - {"delete_membership"}
    assert not operators.permissions.filter(content_type__app_label="auth").exists()


def queries_of(http: HttpClient, path: str) -> int:
    """Return how many queries an admin page takes."""
    with CaptureQueriesContext(connection) as seen:
        assert http.get(path).status_code == 200
    return len(seen)


@pytest.mark.parametrize(
    "place",
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
def test_a_list_takes_as_many_queries_however_long_it_is(operator: HttpClient, place: str) -> None:
    def fill() -> None:
        account = make_member(make_running_job().account).account
        make_key(account)
        ledger.grant(account, 5, reason=GrantReason.GRANT_PROMO, note="Welcome")

    fill()
    queries_of(operator, f"/admin/{place}/")
    before = queries_of(operator, f"/admin/{place}/")
    for _ in range(3):
        fill()
    assert queries_of(operator, f"/admin/{place}/") == before <= 12


def test_a_job_with_many_runs_takes_as_many_queries(operator: HttpClient) -> None:
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
def test_jobs_are_found_by_number_and_account(operator: HttpClient, searched: str) -> None:
    job = make_job()
    make_job()
    term = {"id": str(job.pk), "account": job.account.name}.get(searched, searched)
    text = operator.get(JOBS, {"q": term}).content.decode()
    assert text.count('class="field-id"') == (1 if searched in ("id", "account") else 0)


@pytest.mark.parametrize("query", ["submitted=1", "submitted=x", "error_code=internal", "status__exact=queued"])
def test_jobs_are_filtered(operator: HttpClient, query: str) -> None:
    make_job()
    assert operator.get(f"{JOBS}?{query}").status_code == 200


def test_a_list_is_counted_to_a_bound(operator: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_admin, "MOST_COUNTED", 2)
    account = make_account()
    for _ in range(3):
        make_key(account)
    assert "2 api keys" in operator.get("/admin/clients/apikey/").content.decode()


OURS = [model for model in site._registry if model._meta.app_label in makegroups.APPS]


@pytest.mark.parametrize("model", OURS, ids=lambda model: model._meta.label_lower)
@pytest.mark.usefixtures("_permissions")
def test_no_admin_offers_an_action_to_who_may_only_look(model: type[Model], rf: RequestFactory) -> None:
    request = rf.get("/")
    request.user = User.objects.create_user("support", is_staff=True)
    call_command("makegroups", stdout=io.StringIO())
    request.user.groups.add(Group.objects.get(name="support"))
    found = site._registry[model]
    assert found.has_view_permission(request)
    assert list(found.get_actions(request)) == []
    assert not found.has_add_permission(request)
    assert not found.has_delete_permission(request)


def test_the_index_shows_the_workers_weakest_first(operator: HttpClient) -> None:
    worker_heartbeats.report(
        "sim@strong", layers=["bubblewrap", "own_uid", "network_namespace", "seccomp", "rlimits"]
    )
    worker_heartbeats.report("sim@weak", slots=2, layers=["own_uid", "seccomp", "rlimits"])
    page = operator.get("/admin/").content.decode()
    assert page.index("sim@weak") < page.index("sim@strong")
    assert "Missing sandbox layers: file system view, network namespace" in page
    assert "All sandbox layers active" in page


def test_the_index_says_that_no_worker_lives(operator: HttpClient) -> None:
    assert "No active workers." in operator.get("/admin/").content.decode()
