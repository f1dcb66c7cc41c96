"""Previews of the admin's actions on several objects."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext

from billing import ledger
from billing.models import Account, GrantReason
from jobs.lifecycle import job_moves
from jobs.models import Build, Job
from simservice.admin import actions
from simservice.admin.actions import CHANGED
from tests.admin_actions import act, choose, confirm
from tests.billing import door
from tests.factories import BuildFactory, make_account, make_job, make_key, make_running_job
from tests.webhooks.helpers import make_event_in
from webhooks.models import Event

pytestmark = pytest.mark.django_db
JOBS, BUILDS, ACCOUNTS = "/admin/jobs/job/", "/admin/jobs/build/", "/admin/billing/account/"


def ids_of(*rows: Any) -> list[object]:
    return [row.pk for row in rows]


def messages_of(response: Any) -> list[str]:
    return [str(message) for message in get_messages(response.wsgi_request)]


def make_ended_job() -> Job:
    job = make_job()
    job_moves.finish(job, job_moves.CANCELLED)
    return Job.objects.get(pk=job.pk)


def test_choosing_an_action_changes_nothing(operator: Browser) -> None:
    job, build, account = make_running_job(), BuildFactory.create(), make_account(credits=5)
    choose(operator, JOBS, "cancel", [job.pk])
    choose(operator, BUILDS, "withdraw", [build.pk])
    choose(operator, ACCOUNTS, "grant_credits", [account.pk], credits=5, reason="grant_beta", note="x")
    assert Job.objects.get(pk=job.pk).cancel_requested_at is None
    assert Build.objects.get(pk=build.pk).withdrawn_at is None
    assert ledger.available(account) == 5
    assert not LogEntry.objects.exists()


def test_the_preview_tells_the_effect_on_each_job(operator: Browser) -> None:
    waiting, running, ended = make_job(), make_running_job(), make_ended_job()
    cancelling, requeueing, releasing = (
        choose(operator, JOBS, action, ids_of(waiting, running, ended)).content.decode()
        for action in ("cancel", "requeue", "release")
    )
    assert "It is waiting: it ends at once, and only its finished shards, if any, are billed." in cancelling
    assert "It is running: the simulation stops, and the time used is billed." in cancelling
    assert "Skipped: it has ended." in cancelling
    assert "2 of 3 will be changed; 1 will be skipped." in cancelling
    assert 'value="Cancel 2 jobs"' in cancelling
    assert "Attempt 1 stops, and the job returns to its place in the queue." in requeueing
    assert "Skipped: it is waiting." in requeueing
    assert 'value="Requeue 1 job"' in requeueing
    assert "It fails with the code execution_interrupted and is not billed." in releasing
    assert 'value="Release 2 jobs"' in releasing


def test_the_preview_tells_the_effect_on_builds_keys_and_events(operator: Browser) -> None:
    build, key, event = BuildFactory.create(), make_key()[0], make_event_in("failed", days_ago=0)
    assert "Running ones continue." in choose(operator, BUILDS, "withdraw", [build.pk]).content.decode()
    assert "Skipped: it is available." in choose(operator, BUILDS, "restore", [build.pk]).content.decode()
    Build.objects.filter(pk=build.pk).update(withdrawn_at="2026-01-01T00:00Z")
    assert (
        "It is tested, and becomes available again if it works."
        in choose(operator, BUILDS, "restore", [build.pk]).content.decode()
    )
    assert "Skipped: it was already" in choose(operator, BUILDS, "withdraw", [build.pk]).content.decode()
    Build.objects.filter(pk=build.pk).update(broken_reason="x")
    assert "It is tested" in choose(operator, BUILDS, "restore", [build.pk]).content.decode()
    keys, events = "/admin/clients/apikey/", "/admin/webhooks/event/"
    assert "This cannot be undone." in choose(operator, keys, "revoke", [key.pk]).content.decode()
    act(operator, keys, "revoke", [key.pk])
    assert "Skipped: it was already revoked." in choose(operator, keys, "revoke", [key.pk]).content.decode()
    assert "It was failed: it is sent again" in choose(operator, events, "redeliver", [event.pk]).content.decode()
    Event.objects.update(state="sending", failure="", ended_at=None, lease_expires_at="2026-01-01T00:00Z")
    assert "Skipped: it is being sent." in choose(operator, events, "redeliver", [event.pk]).content.decode()


def test_withdrawing_all_builds_of_a_branch_warns(operator: Browser) -> None:
    one, two = BuildFactory.create(), BuildFactory.create()
    other = BuildFactory.create(git_branch="other")
    warning = f"Branch {one.git_branch} then has no build: new jobs are refused, and waiting ones fail."
    for builds, warnings in (([one], 0), ([one, two], 2), ([one, other], 0)):
        page = choose(operator, BUILDS, "withdraw", [build.pk for build in builds]).content.decode()
        assert page.count(warning) == warnings
    act(operator, BUILDS, "withdraw", [two.pk])
    assert warning in choose(operator, BUILDS, "withdraw", [one.pk]).content.decode()


def test_the_preview_shows_balances(operator: Browser) -> None:
    rich, poor = make_account(credits=100), make_account(credits=5)
    ledger.grant(rich, 1000, reason=GrantReason.GRANT_BETA)
    page = choose(operator, ACCOUNTS, "correct_credits", ids_of(rich, poor), credits=-30, note="x").content.decode()
    assert "-30 credits. Available: 1,100 → 1,070." in page
    assert "Skipped: the account has too few credits. Available: 5." in page
    assert ledger.available_of(Account.objects.all()) == {rich.pk: 1100, poor.pk: 5}


def test_credits_can_be_changed_while_jobs_run(operator: Browser) -> None:
    account = make_account(credits=100)
    for action, reason, size in (("grant_credits", "grant_beta", 5), ("correct_credits", "", -5)):
        page = choose(operator, ACCOUNTS, action, [account.pk], credits=size, reason=reason, note="x")
        door.hold(account, 10, job_id=size + 10)
        assert messages_of(confirm(operator, ACCOUNTS, page)) == [f"{account}: balance changed by {size} credits."]


def test_credits_spent_since_the_preview_are_not_removed(operator: Browser) -> None:
    account = make_account(credits=100)
    page = choose(operator, ACCOUNTS, "correct_credits", [account.pk], credits=-50, note="x")
    door.hold(account, 60, job_id=1)
    assert CHANGED in messages_of(confirm(operator, ACCOUNTS, page))
    assert ledger.available(account) == 40


def test_a_preview_changes_credits_only_once(operator: Browser) -> None:
    account = make_account(credits=100)
    page = choose(operator, ACCOUNTS, "grant_credits", [account.pk], credits=5, reason="grant_beta", note="x")
    assert messages_of(confirm(operator, ACCOUNTS, page)) == [f"{account}: balance changed by 5 credits."]
    act(operator, ACCOUNTS, "correct_credits", [account.pk], credits=-5, note="x")
    *_, message = messages_of(confirm(operator, ACCOUNTS, page))
    assert message.startswith("This preview was already confirmed.")
    assert ledger.available(account) == 100


def test_a_preview_of_another_operator_changes_no_credits(operator: Browser) -> None:
    account, other = make_account(credits=100), Browser()
    other.force_login(User.objects.create_superuser("other"))
    page = choose(operator, ACCOUNTS, "grant_credits", [account.pk], credits=5, reason="grant_beta", note="x")
    assert messages_of(confirm(other, ACCOUNTS, page)) == ["The preview has expired. Choose the action again."]
    assert ledger.available(account) == 100


def test_skipped_objects_stay_as_they_are(operator: Browser) -> None:
    waiting, running = make_job(), make_running_job()
    assert act(operator, JOBS, "requeue", ids_of(waiting, running)) == ["1 job requeued."]
    assert Job.objects.get(pk=waiting.pk).status == "pending"


def test_a_changed_effect_is_shown_again(operator: Browser) -> None:
    job = make_job()
    page = choose(operator, JOBS, "cancel", [job.pk])
    assert job_moves.claim_job("worker-1") is not None
    second = confirm(operator, JOBS, page)
    assert messages_of(second) == [CHANGED]
    assert "It is running" in second.content.decode()
    assert Job.objects.get(pk=job.pk).cancel_requested_at is None
    assert messages_of(confirm(operator, JOBS, second)) == ["1 job cancelled."]


def test_an_object_that_left_the_list_is_not_changed(operator: Browser) -> None:
    job, gone = make_job(), make_job()
    pages = f"{JOBS}?status__exact=pending"
    page = choose(operator, pages, "cancel", ids_of(job, gone))
    job_moves.finish(gone, job_moves.CANCELLED)
    second = confirm(operator, pages, page)
    assert messages_of(second) == [CHANGED]
    assert str(gone.pk) not in second.content.decode().partition("<caption>")[2].partition("</table>")[0]
    job_moves.finish(job, job_moves.CANCELLED)
    assert "The selected objects no longer exist" in confirm(operator, pages, second).content.decode()


def test_objects_that_match_later_are_not_changed(operator: Browser) -> None:
    job = make_job()
    page = operator.post(JOBS, {"action": "cancel", "_selected_action": [job.pk], "select_across": 1})
    later = make_job()
    assert messages_of(confirm(operator, JOBS, page)) == ["1 job cancelled."]
    assert Job.objects.get(pk=later.pk).status == "pending"


def test_a_forged_confirmation_shows_the_preview(operator: Browser) -> None:
    job = make_job()
    for digest in ("", "1", "0" * 64):
        page = choose(operator, JOBS, "cancel", [job.pk], confirmed=digest)
        assert "It is waiting" in page.content.decode()
    assert Job.objects.get(pk=job.pk).status == "pending"


def test_too_many_objects_are_refused(operator: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "MAX_SELECTED", 1)
    jobs = [make_job(), make_job()]
    page = operator.post(JOBS, {"action": "cancel", "_selected_action": [jobs[0].pk], "select_across": 1})
    assert messages_of(page) == ["Select at most 1 jobs at a time."]
    assert not Job.objects.filter(status="cancelled").exists()


def test_a_lost_permission_stops_the_confirmed_action() -> None:
    user = User.objects.create_user("staff", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_job", "change_job"]))
    browser, job = Browser(), make_job()
    browser.force_login(user)
    page = choose(browser, JOBS, "cancel", [job.pk])
    assert "It is waiting" in page.content.decode()
    user.user_permissions.set(Permission.objects.filter(codename="view_job"))
    confirm(browser, JOBS, page)
    assert Job.objects.get(pk=job.pk).status == "pending"


def test_names_are_escaped(operator: Browser) -> None:
    build = BuildFactory.create(git_branch="<b>x")
    page = choose(operator, BUILDS, "withdraw", [build.pk]).content.decode()
    assert "&lt;b&gt;x@" in page
    assert "<b>x" not in page


def test_previews_take_a_constant_number_of_queries(operator: Browser) -> None:
    first, second = ([_one_of_each() for _ in range(count)] for count in (1, 3))
    for index, (page, action, fields) in enumerate(
        (
            (JOBS, "cancel", {}),
            (ACCOUNTS, "grant_credits", {"credits": 1, "reason": "grant_beta", "note": "x"}),
            ("/admin/clients/apikey/", "revoke", {}),
            ("/admin/webhooks/event/", "redeliver", {}),
        )
    ):
        counts = []
        for rows in (first, first, second):
            with CaptureQueriesContext(connection) as captured:
                assert choose(operator, page, action, [row[index] for row in rows], **fields).status_code == 200
            counts.append(len(captured))
        assert counts[1] == counts[2] <= 10, action


def _one_of_each() -> tuple[object, ...]:
    """Return the ids of a job, an account, a key and an event."""
    job, event = make_job(), make_event_in("failed", days_ago=0)
    return job.pk, job.account_id, make_key()[0].pk, event.pk
