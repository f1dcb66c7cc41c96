"""The console's pages of jobs, accounts, builds, webhooks and records."""

from io import BytesIO
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext

from billing import ledger
from billing.models import Account
from clients.models import AuditEvent
from jobs.artifacts import artifact_files
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Job, JobProfile
from jobs.operations import last_hour
from simservice.postgresql.connections import StatementTimeout
from simservice.web.form_messages import FILL_IN
from tests import admin_actions
from tests.dashboard.console.conftest import Staff
from tests.factories import BuildFactory, make_account, make_job, make_member, make_running_job
from tests.webhooks.helpers import make_event_in
from webhooks.models import Delivery

pytestmark = pytest.mark.django_db
JOBS, ACCOUNTS = "/admin/jobs/job/", "/admin/billing/account/"
PAGES = {
    "/admin/console/accounts/": ("view_account", "view_job"),
    "/admin/console/builds/": ("view_build",),
    "/admin/console/webhooks/": ("view_endpoint",),
}


def text_of(browser: Browser, address: str) -> str:
    response = browser.get(address)
    assert response.status_code == 200
    return response.content.decode()


def end_job(code: str | None = "internal") -> Job:
    job = make_running_job()
    failed = Outcome(status=Status.FAILED, error_code=code, reason="x")
    assert job_moves.finish(job, failed if code else Outcome(status=Status.COMPLETED, summary={}))
    return Job.objects.get(pk=job.pk)


@pytest.mark.parametrize("address", PAGES)
def test_a_page_needs_its_permissions(staff: Staff, client: Browser, address: str) -> None:
    assert client.get(address).headers["Location"].startswith("/admin/login/")
    client.force_login(make_member().user)
    assert client.get(address).headers["Location"].startswith("/admin/login/")
    needed = PAGES[address]
    assert staff(*needed).get(address).status_code == 200
    assert staff(*needed[1:]).get(address).status_code == 403
    assert staff(*needed).post(address).status_code == 405


def test_the_admin_opens_with_the_live_overview(staff: Staff) -> None:
    assert staff("view_build").get("/admin/").context["title"] == "Live overview"


def test_records_are_grouped_by_task_and_limited_to_what_the_user_may_view(staff: Staff, operator: Browser) -> None:
    assert [task for task, _ in operator.get("/admin/records/").context["tasks"]][:3] == [
        "Jobs",
        "Accounts",
        "Credits",
    ]
    assert 'href="/admin/jobs/build/"' in text_of(operator, "/admin/records/")
    tasks = staff("view_build").get("/admin/records/").context["tasks"]
    assert [(task, [model["object_name"] for model in models]) for task, models in tasks] == [("Jobs", ["Build"])]


def test_the_list_of_jobs_shows_what_operators_look_for(operator: Browser) -> None:
    job = end_job()
    Job.objects.filter(pk=job.pk).update(given_title="<b>" + "x" * 80)
    text = text_of(operator, JOBS)
    assert f"&lt;b&gt;{'x' * 56}…" in text
    assert 'class="status status-failed">Failed' in text
    assert f'href="/admin/console/accounts/{job.account_id}/"' in text
    heads = ["State", "Age", "Title", "Account", "Worker or error", "Credits"]
    assert [text.index(f">{head}</th>") for head in heads] == sorted(text.index(f">{head}</th>") for head in heads)


def test_a_job_is_cancelled_on_its_page(operator: Browser) -> None:
    job = make_running_job()
    page = f"{JOBS}{job.pk}/change/"
    assert "the simulation stops, and the time used is billed" in text_of(operator, page)
    preview = admin_actions.choose(operator, JOBS, "cancel", [job.pk], next=page)
    assert f'<a href="{page}">Back</a>' in preview.content.decode()
    done = admin_actions.confirm(operator, JOBS, preview)
    assert done.headers["Location"] == page
    assert Job.objects.get(pk=job.pk).cancel_requested_at is not None


@pytest.mark.parametrize("address", ["https://elsewhere.example/", "//elsewhere.example/", "javascript:x"])
def test_an_action_never_leads_to_another_site(operator: Browser, address: str) -> None:
    preview = admin_actions.choose(operator, JOBS, "cancel", [make_job().pk], next=address)
    assert address not in preview.content.decode()
    assert admin_actions.confirm(operator, JOBS, preview).headers["Location"] == JOBS


def test_only_operators_see_actions_on_a_job(staff: Staff) -> None:
    page = f"{JOBS}{make_running_job().pk}/change/"
    assert 'value="release"' not in text_of(staff("view_job"), page)
    assert 'value="release"' in text_of(staff("view_job", "change_job"), page)


def test_an_ended_job_offers_no_actions(operator: Browser) -> None:
    assert 'name="action"' not in text_of(operator, f"{JOBS}{end_job().pk}/change/")


def test_previews_show_what_the_jobs_are(operator: Browser) -> None:
    waiting, ended = make_job(), end_job()
    Job.objects.filter(pk=waiting.pk).update(given_title="Raid night")
    text = admin_actions.choose(operator, JOBS, "cancel", [waiting.pk, ended.pk]).content.decode()
    assert "<bdi>Raid night</bdi>" in text
    assert f"<bdi>{waiting.account}</bdi>" in text
    assert f"<bdi>{waiting.ceiling_credits + waiting.priority_fee_credits:,}</bdi>" in text
    assert "<bdi>0</bdi>" in text, "an ended job costs nothing more"


def store_log(job: Job, content: bytes) -> None:
    artifact_files.store(job, Artifact.Kind.STDERR_LOG, BytesIO(content)).save()


def test_the_page_shows_the_last_lines_of_a_stored_log(staff: Staff) -> None:
    job = make_running_job()
    store_log(job, b"".join(b"line %d <b>\x07\n" % number for number in range(80)))
    assert job_moves.finish(job, Outcome(status=Status.FAILED, error_code="internal", reason="x"))
    page = f"{JOBS}{job.pk}/change/"
    text = text_of(staff("view_job", "view_artifact"), page)
    assert ("line 29 &lt;b&gt;\n" in text, "line 30 &lt;b&gt;\n" in text, "\x07" in text) == (False, True, False)
    assert "line 30" not in text_of(staff("view_job"), page)


def test_a_lost_log_leaves_the_rest_of_the_page(operator: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_running_job()
    store_log(job, b"line\n")
    job_moves.finish(job, Outcome(status=Status.FAILED, error_code="internal", reason="x"))
    monkeypatch.setattr(artifact_files, "open_part", _unavailable)
    assert "End of the output" not in text_of(operator, f"{JOBS}{job.pk}/change/")


def _unavailable(*_: Any, **__: Any) -> None:
    raise OSError


def test_the_profile_needs_its_permission(staff: Staff) -> None:
    job = make_job()
    JobProfile.objects.filter(pk=job.pk).update(text="mage=<script>")
    address = f"/admin/console/jobs/{job.pk}/profile/"
    assert "mage=&lt;script&gt;" in text_of(staff("view_job", "view_jobprofile"), address)
    assert staff("view_job").get(address).status_code == 403
    assert staff("view_job", "view_jobprofile").get("/admin/console/jobs/5/profile/").status_code == 404
    assert address not in text_of(staff("view_job"), f"{JOBS}{job.pk}/change/")


def test_the_customers_page_needs_the_permission_to_view_all_its_parts(staff: Staff) -> None:
    job = end_job()
    needed = ["view_job", "view_jobdetails", "view_jobprofile", "view_artifact"]
    address = f"/admin/console/jobs/{job.pk}/page/"
    assert staff(*needed).get(address).headers["Location"] == f"/share/{job.share_token}"
    for missing in needed:
        assert staff(*{*needed} - {missing}).get(address).status_code == 403
    text = text_of(staff(*needed), f"{JOBS}{job.pk}/change/")
    assert address in text
    assert job.share_token not in text


def test_accounts_are_listed_with_their_errors(operator: Browser) -> None:
    job = end_job("execution_failed")
    text = text_of(operator, "/admin/console/accounts/")
    assert f'href="/admin/console/accounts/{job.account_id}/"' in text
    (load,) = operator.get("/admin/console/accounts/").context["loads"]
    assert (load.ended, load.errors["simulator"]) == (1, 1)


def test_a_busy_hour_leaves_the_page(operator: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_hour, "accounts", _too_slow)
    assert "Too many jobs ended in the last hour" in text_of(operator, "/admin/console/accounts/")


def _too_slow(**_: Any) -> None:
    raise StatementTimeout


def test_credits_are_granted_on_the_page_of_an_account(operator: Browser) -> None:
    account = make_account(credits=0)
    page = f"/admin/console/accounts/{account.pk}/"
    assert 'value="grant_credits"' in text_of(operator, page)
    fields = {"credits": 500, "reason": "grant_beta", "note": "Thanks", "next": page}
    preview = admin_actions.choose(operator, ACCOUNTS, "grant_credits", [account.pk], **fields)
    assert "+500 credits." in preview.content.decode()
    assert admin_actions.confirm(operator, ACCOUNTS, preview).headers["Location"] == page
    assert ledger.available(account) == 500


def test_an_account_is_suspended_with_a_reason_and_resumed(operator: Browser) -> None:
    account = make_account()
    page = f"/admin/console/accounts/{account.pk}/"
    asked = admin_actions.choose(operator, ACCOUNTS, "suspend", [account.pk], suspension_reason="", next=page)
    assert FILL_IN in asked.content.decode()
    assert f'name="next" value="{page}"' in asked.content.decode()
    shown = admin_actions.act(operator, ACCOUNTS, "suspend", [account.pk], suspension_reason="<b>Unpaid")
    assert shown == ["1 account suspended."]
    event = AuditEvent.objects.get(action="account.suspended")
    assert event.details == {"reason": "<b>Unpaid"}
    account.refresh_from_db()
    assert account.suspended_at is not None
    text = text_of(operator, page)
    assert 'value="resume"' in text
    again = admin_actions.choose(operator, ACCOUNTS, "suspend", [account.pk], suspension_reason="x")
    assert "Skipped: it is suspended." in again.content.decode()
    assert admin_actions.act(operator, ACCOUNTS, "resume", [account.pk]) == ["1 account resumed."]
    account.refresh_from_db()
    assert account.suspended_at is None


@pytest.mark.parametrize("action", ["suspend", "resume"])
def test_suspensions_need_the_permission_to_change_accounts(staff: Staff, action: str) -> None:
    account = make_account()
    page = f"/admin/console/accounts/{account.pk}/"
    assert 'value="suspend"' not in text_of(staff("view_account"), page)
    assert 'value="grant_credits"' not in text_of(staff("view_account"), page)
    if action == "resume":
        Account.objects.filter(pk=account.pk).update(suspended_at="2026-01-01T00:00Z")
    before = Account.objects.values_list("suspended_at", flat=True).get(pk=account.pk)
    admin_actions.act(staff("view_account"), ACCOUNTS, action, [account.pk], suspension_reason="x")
    assert Account.objects.values_list("suspended_at", flat=True).get(pk=account.pk) == before
    assert not AuditEvent.objects.filter(account=account).exists()


def test_owners_read_why_their_account_was_suspended(operator: Browser, client: Browser) -> None:
    owner = make_member()
    admin_actions.act(operator, ACCOUNTS, "suspend", [owner.account_id], suspension_reason="<b>Unpaid")
    client.force_login(owner.user)
    text = text_of(client, f"/dashboard/{owner.account.name}/audit")
    assert "Suspended the account: <bdi>&lt;b&gt;Unpaid</bdi>" in text


def test_a_page_of_an_account_shows_only_what_the_user_may_view(staff: Staff) -> None:
    job = end_job()
    member = make_member(job.account)
    page = f"/admin/console/accounts/{job.account_id}/"
    text = text_of(staff("view_account"), page)
    assert (member.user.email in text, "Latest jobs" in text, "Latest changes" in text) == (False, False, False)
    text = text_of(staff("view_account", "view_membership", "view_job", "view_auditevent"), page)
    assert (member.user.email in text, "Latest jobs" in text, "Latest changes" in text) == (True, True, True)
    assert staff("view_account").get("/admin/console/accounts/5/").status_code == 404


def test_builds_are_listed_with_their_jobs_and_actions(staff: Staff, operator: Browser) -> None:
    job, broken = end_job("execution_failed"), BuildFactory.create(withdrawn_at="2026-01-01T00:00Z")
    text = text_of(operator, "/admin/console/builds/")
    assert f'name="_selected_action" value="{job.build_id}"' in text
    assert 'value="restore"' in text
    assert str(broken) in text
    rows = {row["build"].pk: row["share"] for row in operator.get("/admin/console/builds/").context["rows"]}
    assert (rows[job.build_id].ended, rows[job.build_id].simulator_errors) == (1, 1)
    text = text_of(staff("view_build"), "/admin/console/builds/")
    assert 'name="action"' not in text
    assert "100 %" not in text, "jobs need their own permission"


@pytest.mark.parametrize("outcome", ["failed", "rejected", "lost"])
def test_failed_deliveries_are_listed_with_a_button(staff: Staff, operator: Browser, outcome: str) -> None:
    event = make_event_in("failed", days_ago=0)
    Delivery.objects.update(outcome=outcome, detail="<b>refused", status=None)
    text = text_of(operator, "/admin/console/webhooks/")
    assert "&lt;b&gt;refused" in text
    assert f'name="_selected_action" value="{event.pk}"' in text
    assert "refused" not in text_of(staff("view_endpoint"), "/admin/console/webhooks/")
    assert 'name="action"' not in text_of(staff("view_endpoint", "view_delivery"), "/admin/console/webhooks/")


@pytest.mark.parametrize("address", ["accounts/", "builds/", "webhooks/"])
def test_queries_do_not_grow_with_the_rows(operator: Browser, address: str) -> None:
    def fill() -> None:
        end_job("execution_failed")
        BuildFactory.create()
        make_event_in("failed", days_ago=0)
        Delivery.objects.update(outcome="failed")

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            text_of(operator, f"/admin/console/{address}")
        return len(captured)

    fill()
    queries()
    before = queries()
    for _ in range(3):
        fill()
    assert queries() == before <= 16


def test_queries_of_an_account_do_not_grow_with_its_jobs(operator: Browser) -> None:
    job = make_job()
    page = f"/admin/console/accounts/{job.account_id}/"

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            text_of(operator, page)
        return len(captured)

    queries()
    before = queries()
    for _ in range(3):
        make_job(job.client)
        make_member(job.account)
    assert queries() == before <= 16


def test_staff_without_a_second_factor_see_no_page(settings: Any, client: Browser) -> None:
    settings.ADMIN_REQUIRES_MFA = True
    user = User.objects.create_user("staff", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client.force_login(user)
    for address in ("/admin/", "/admin/records/", *PAGES, "/admin/console/jobs/1/profile/"):
        assert client.get(address).headers["Location"].startswith("/admin/login/"), address
