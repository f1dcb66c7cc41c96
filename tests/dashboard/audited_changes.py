"""Changes that members and operators make in the browser, by the action that the audit log records."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from django.test import Client as HttpClient

from clients import form_tokens
from clients.accounts import default_client
from clients.audit import SYSTEM, Action
from clients.models import Membership
from tests import admin_actions
from tests.dashboard.browsing import browser_of
from tests.factories import (
    PlanFactory,
    make_client,
    make_invitation,
    make_job,
    make_key,
    make_member,
    make_running_job,
)
from tests.jobs.api.job_states import paused
from webhooks import endpoints

URL = "https://hooks.example.com/"
ADDRESS = "203.0.113.9"


class MemberBrowser:
    """The browser of an owner."""

    def __init__(self, owner: Membership) -> None:
        self.owner, self.http = owner, browser_of(owner)
        self.client = make_client(owner.account)

    def post(self, path: str, **fields: Any) -> None:
        fields = {"form": form_tokens.issue(self.owner.user.pk, "webhook"), **fields}
        response = self.http.post(f"/dashboard/{self.owner.account}/{path}", fields, REMOTE_ADDR=ADDRESS)
        assert response.status_code in (200, 302), response.content
        assert "aria-invalid" not in response.content.decode()

    @property
    def key(self) -> int:
        return make_key(self.owner.account)[0].pk

    @property
    def member(self) -> int:
        return make_member(self.owner.account, role="viewer").pk

    def make_key(self) -> None:
        form = form_tokens.issue(self.owner.user.pk, "key")
        self.post(f"clients/{self.client.pk}", name="laptop", days=0, form=form)

    def keep_account(self) -> None:
        self.post("data/delete", name=self.owner.account.name)
        self.post("data/keep")

    def with_webhook(self, path: str, **fields: Any) -> None:
        endpoints.install(self.client, URL, by=SYSTEM)
        self.post(f"clients/{self.client.pk}/webhook/{path}", **fields)


CHANGES_BY_MEMBERS: dict[Action, Callable[[MemberBrowser], None]] = {
    Action.KEY_CREATED: MemberBrowser.make_key,
    Action.KEY_RENAMED: lambda browser: browser.post(f"keys/{browser.key}", name="night"),
    Action.KEY_SCOPE_CHANGED: lambda browser: browser.post(f"keys/{browser.key}/access", scope="read"),
    Action.KEY_ADDRESSES_CHANGED: lambda browser: browser.post(
        f"keys/{browser.key}/access", scope="manage", addresses=ADDRESS
    ),
    Action.KEY_REVOKED: lambda browser: browser.post(f"keys/{browser.key}/revoke"),
    Action.CLIENT_CREATED: lambda browser: browser.post("clients", name="another"),
    Action.WEBHOOK_ENABLED: lambda browser: browser.post(f"clients/{browser.client.pk}/webhook", url=URL),
    Action.WEBHOOK_ADDRESS_CHANGED: lambda browser: browser.with_webhook("url", url=f"{URL}other"),
    Action.WEBHOOK_SECRET_ROTATED: lambda browser: browser.with_webhook("rotate", hours=1),
    Action.WEBHOOK_DISABLED: lambda browser: browser.with_webhook("disable"),
    Action.WEBHOOK_EVENTS_CHANGED: lambda browser: browser.with_webhook("events", low_credits="on"),
    Action.CREDITS_NOTICE_CHANGED: lambda browser: browser.post("credits/notice", threshold="500"),
    Action.INVITATION_CREATED: lambda browser: browser.post("people", email="jane@example.org", role="member"),
    Action.INVITATION_REVOKED: lambda browser: browser.post(
        f"invitations/{make_invitation(browser.owner.account)[0].pk}/revoke"
    ),
    Action.MEMBER_ROLE_CHANGED: lambda browser: browser.post(f"people/{browser.member}/role", role="owner"),
    Action.MEMBER_REMOVED: lambda browser: browser.post(f"people/{browser.member}/remove"),
    Action.ACCOUNT_EXPORTED: lambda browser: browser.post("data"),
    Action.ACCOUNT_DELETION_REQUESTED: lambda browser: browser.post("data/delete", name=browser.owner.account.name),
    Action.ACCOUNT_DELETION_UNDONE: MemberBrowser.keep_account,
    Action.ACCOUNT_SHARING_CHANGED: lambda browser: browser.post("data/sharing"),
    Action.JOB_LINKS_REPLACED: lambda browser: browser.post(f"jobs/{make_job(browser.client).pk}/links"),
    Action.JOB_SHARING_CHANGED: lambda browser: browser.post(f"jobs/{make_job(browser.client).pk}/sharing"),
    Action.JOB_RENAMED: lambda browser: browser.post(f"jobs/{make_job(browser.client).pk}/title", title="Raid"),
    Action.JOB_CANCELLED: lambda browser: browser.post(f"jobs/{make_job(browser.client).pk}/cancel"),
    Action.JOB_PAUSED: lambda browser: browser.post(f"jobs/{make_job(browser.client).pk}/pause"),
    Action.JOB_RESUMED: lambda browser: browser.post(f"jobs/{paused(client=browser.client).pk}/resume"),
}


class OperatorBrowser:
    """The browser of an operator."""

    def __init__(self, owner: Membership) -> None:
        self.owner, self.account, self.http = owner, owner.account, HttpClient(REMOTE_ADDR=ADDRESS)
        self.http.force_login(User.objects.create_superuser("alice"))

    def act(self, path: str, action: str, pk: int, **fields: Any) -> None:
        assert admin_actions.act(self.http, f"/admin/{path}/", action, [pk], **fields)

    def change(self, path: str, **fields: Any) -> None:
        empty_forms = {f"memberships-{form}_FORMS": "0" for form in ("TOTAL", "INITIAL")}
        assert self.http.post(f"/admin/{path}/", {**empty_forms, **fields}).status_code == 302

    def change_opened(self, path: str, **fields: Any) -> None:
        self.change(path, opened=admin_actions.opened_of(self.http, f"/admin/{path}/"), **fields)

    def change_account(self, **fields: Any) -> None:
        current = {"name": self.account.name, "plan": self.account.plan.pk}
        self.change_opened(f"billing/account/{self.account.pk}/change", **current, **fields)

    def suspend(self) -> None:
        self.act("billing/account", "suspend", self.account.pk, suspension_reason="Unpaid")

    def resume(self) -> None:
        self.suspend()
        self.act("billing/account", "resume", self.account.pk)

    def change_plan(self) -> None:
        self.account.plan = PlanFactory.create(name="large")
        self.change_account()

    def rename(self) -> None:
        self.account.name = "renamed"
        self.change_account()
        self.owner.account.refresh_from_db()

    def expire_key(self) -> None:
        key, _ = make_key(self.account)
        self.change_opened(f"clients/apikey/{key.pk}/change", expires_at_0="2030-01-02", expires_at_1="10:00:00")

    def rename_key(self) -> None:
        self.change_opened(f"clients/apikey/{make_key(self.account)[0].pk}/change", name="night")

    def add_member(self) -> None:
        self.change("clients/membership/add", user=make_member().user.pk, account=self.account.pk, role="viewer")

    def change_role(self) -> None:
        self.change(f"clients/membership/{self.member()}/change", role="owner")

    def member(self) -> int:
        return make_member(self.account, role="viewer").pk

    def end_grace_period(self) -> None:
        self.act("billing/account", "request_deletion", self.account.pk)
        self.act("privacy/accountdeletion", "finish_now", self.account.pk)

    def delete_member(self) -> None:
        self.change(f"clients/membership/{self.member()}/delete", post="yes")


CHANGES_BY_OPERATORS: dict[str, tuple[Action, Callable[[OperatorBrowser], None]]] = {
    "suspend": (Action.ACCOUNT_SUSPENDED, OperatorBrowser.suspend),
    "resume": (Action.ACCOUNT_RESUMED, OperatorBrowser.resume),
    "plan": (Action.ACCOUNT_PLAN_CHANGED, OperatorBrowser.change_plan),
    "rename": (Action.ACCOUNT_RENAMED, OperatorBrowser.rename),
    "end grace period": (Action.ACCOUNT_GRACE_PERIOD_ENDED, OperatorBrowser.end_grace_period),
    "grant": (
        Action.CREDITS_GRANTED,
        lambda browser: browser.act(
            "billing/account", "grant_credits", browser.account.pk, credits=70, reason="grant_promo", note="Sorry"
        ),
    ),
    "correct": (
        Action.CREDITS_CORRECTED,
        lambda browser: browser.act(
            "billing/account", "correct_credits", browser.account.pk, credits=-7, note="Wrong"
        ),
    ),
    "revoke key": (
        Action.KEY_REVOKED,
        lambda browser: browser.act("clients/apikey", "revoke", make_key(browser.account)[0].pk),
    ),
    "rename key": (Action.KEY_RENAMED, OperatorBrowser.rename_key),
    "expire key": (Action.KEY_EXPIRY_CHANGED, OperatorBrowser.expire_key),
    "add member": (Action.MEMBER_JOINED, OperatorBrowser.add_member),
    "change role": (Action.MEMBER_ROLE_CHANGED, OperatorBrowser.change_role),
    "remove member": (Action.MEMBER_REMOVED, OperatorBrowser.delete_member),
    "cancel": (
        Action.JOB_CANCELLED,
        lambda browser: browser.act("jobs/job", "cancel", make_job(default_client(browser.account)).pk),
    ),
    "requeue": (
        Action.JOB_REQUEUED,
        lambda browser: browser.act(
            "jobs/job", "requeue", make_running_job(client=default_client(browser.account)).pk
        ),
    ),
    "release": (
        Action.JOB_RELEASED,
        lambda browser: browser.act(
            "jobs/job", "release", make_running_job(client=default_client(browser.account)).pk
        ),
    ),
}
