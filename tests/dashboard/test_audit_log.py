"""The audit log: what people, programs and operators do reaches it, and owners read it."""

import re
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models import Model
from django.test import Client as HttpClient
from pytest_django import Settings

from clients import audit, invitations, keys, members, once
from clients.accounts import default_client
from clients.audit import COMMAND_LINE, SYSTEM, Action
from clients.members import Role
from clients.models import AuditEvent, Membership
from dashboard.audit_log import GROUPS, SENTENCES, sentence
from tests.dashboard.browsing import browser_of, text_of
from tests.factories import (
    PlanFactory,
    actor_of,
    make_account,
    make_client,
    make_invitation,
    make_job,
    make_key,
    make_member,
    make_running_job,
)
from webhooks import endpoints

pytestmark = pytest.mark.django_db
URL = "https://hooks.example.com/"
FROM = "203.0.113.9"


@pytest.fixture(autouse=True)
def _no_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "check_url", lambda _: None)


@pytest.fixture
def owner() -> Membership:
    return make_member()


def log_of(owner: Membership, **query: str) -> Any:
    """Open the page."""
    return browser_of(owner).get(f"/dashboard/{owner.account}/audit", query)


def rows(page: Any) -> list[list[str]]:
    """Return who, what and from where of each row on the page."""
    found = re.findall(r"<tr>(.*?)</tr>", page.content.decode(), re.DOTALL)[1:]
    return [[re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", row)][1:] for row in found]


class Site:
    """An owner's browser, and the forms that change something."""

    def __init__(self, owner: Membership) -> None:
        self.owner, self.http = owner, browser_of(owner)
        self.client = make_client(owner.account)

    def post(self, path: str, **fields: Any) -> None:
        fields = {"form": once.new_form(self.owner.user.pk, "webhook"), **fields}
        answer = self.http.post(f"/dashboard/{self.owner.account}/{path}", fields, REMOTE_ADDR=FROM)
        assert answer.status_code in (200, 302), answer.content
        assert "aria-invalid" not in answer.content.decode()

    @property
    def key(self) -> int:
        return make_key(self.owner.account)[0].pk

    @property
    def member(self) -> int:
        return make_member(self.owner.account, role="viewer").pk

    def make_key(self) -> None:
        form = once.new_form(self.owner.user.pk, "key")
        self.post(f"clients/{self.client.pk}", name="laptop", days=0, form=form)

    def with_webhook(self, path: str, **fields: Any) -> None:
        endpoints.install(self.client, URL, by=SYSTEM)
        self.post(f"clients/{self.client.pk}/webhook/{path}", **fields)


BY_MEMBERS: dict[Action, Callable[[Site], None]] = {
    Action.KEY_CREATED: Site.make_key,
    Action.KEY_RENAMED: lambda site: site.post(f"keys/{site.key}", name="night"),
    Action.KEY_REVOKED: lambda site: site.post(f"keys/{site.key}/revoke"),
    Action.CLIENT_CREATED: lambda site: site.post("clients", name="another"),
    Action.WEBHOOK_ENABLED: lambda site: site.post(f"clients/{site.client.pk}/webhook", url=URL),
    Action.WEBHOOK_ADDRESS_CHANGED: lambda site: site.with_webhook("url", url=f"{URL}other"),
    Action.WEBHOOK_SECRET_ROTATED: lambda site: site.with_webhook("rotate", hours=1),
    Action.WEBHOOK_DISABLED: lambda site: site.with_webhook("disable"),
    Action.INVITATION_CREATED: lambda site: site.post("people", email="jane@example.org", role="member"),
    Action.INVITATION_REVOKED: lambda site: site.post(
        f"invitations/{make_invitation(site.owner.account)[0].pk}/revoke"
    ),
    Action.MEMBER_ROLE_CHANGED: lambda site: site.post(f"people/{site.member}/role", role="owner"),
    Action.MEMBER_REMOVED: lambda site: site.post(f"people/{site.member}/remove"),
    Action.JOB_CANCELLED: lambda site: site.post(f"jobs/{make_job(site.client).pk}/cancel"),
}


@pytest.mark.parametrize("action", BY_MEMBERS, ids=str)
def test_what_a_member_does_is_written(action: Action, owner: Membership) -> None:
    BY_MEMBERS[action](Site(owner))
    event = AuditEvent.objects.latest("pk")
    assert (event.action, event.account, event.user_id) == (action, owner.account, owner.user.pk)
    assert (event.actor, event.address) == (owner.user.email, FROM)
    assert rows(log_of(owner))[0][::2] == [owner.user.email, FROM]


def test_joining_and_leaving_are_written(owner: Membership) -> None:
    _, token = make_invitation(owner.account, role=Role.VIEWER)
    guest = make_member()
    http = browser_of(guest)
    http.post(f"/invitations/{token}", REMOTE_ADDR=FROM)
    http.post(f"/dashboard/{owner.account}/people/leave", REMOTE_ADDR=FROM)
    email = guest.user.email
    assert rows(log_of(owner))[:2] == [[email, f"{email} left", FROM], [email, f"{email} joined as viewer", FROM]]


def test_a_cancel_with_another_key_is_written(owner: Membership) -> None:
    (own, secret), (other, _) = make_key(owner.account), make_key(owner.account)
    mine, theirs = (make_job(key.client, api_key=key) for key in (own, other))
    http = HttpClient(headers={"authorization": f"Bearer {secret}"})
    for job in (mine, theirs):
        assert http.post(f"/v1/sim/jobs/{job.pk}/cancel", REMOTE_ADDR=FROM).status_code == 200
    (row,) = rows(log_of(owner, about="jobs"))
    assert row == [f"API key {own}", f"Cancelled job {theirs.pk}", FROM]


class Admin:
    """An operator's browser."""

    def __init__(self, owner: Membership) -> None:
        self.owner, self.account, self.http = owner, owner.account, HttpClient(REMOTE_ADDR=FROM)
        self.http.force_login(User.objects.create_superuser("alice"))

    def act(self, place: str, action: str, pk: int, **fields: Any) -> None:
        sent = {"action": action, "_selected_action": [pk], **fields}
        assert self.http.post(f"/admin/{place}/", sent).status_code == 302

    def change(self, place: str, **fields: Any) -> None:
        none = {f"memberships-{form}_FORMS": "0" for form in ("TOTAL", "INITIAL")}
        assert self.http.post(f"/admin/{place}/", {**none, **fields}).status_code == 302

    def change_account(self, **fields: Any) -> None:
        current = {"name": self.account.name, "plan": self.account.plan.pk}
        self.change(f"billing/account/{self.account.pk}/change", **current, **fields)

    def suspend(self) -> None:
        self.change_account(suspended_at_0="2026-11-20", suspended_at_1="10:00:00")

    def resume(self) -> None:
        self.suspend()
        self.change_account()

    def change_plan(self) -> None:
        self.account.plan = PlanFactory.create(name="large")
        self.change_account()

    def rename(self) -> None:
        self.account.name = "renamed"
        self.change_account()
        self.owner.account.refresh_from_db()

    def expire_key(self) -> None:
        key, _ = make_key(self.account)
        self.change(f"clients/apikey/{key.pk}/change", expires_at_0="2030-01-02", expires_at_1="10:00:00")

    def rename_key(self) -> None:
        self.change(f"clients/apikey/{make_key(self.account)[0].pk}/change", name="night")

    def add_member(self) -> None:
        self.change("clients/membership/add", user=make_member().user.pk, account=self.account.pk, role="viewer")

    def change_role(self) -> None:
        self.change(f"clients/membership/{self.member()}/change", role="owner")

    def member(self) -> int:
        return make_member(self.account, role="viewer").pk

    def delete_member(self) -> None:
        self.change(f"clients/membership/{self.member()}/delete", post="yes")

    def delete_members(self) -> None:
        self.act("clients/membership", "delete_selected", self.member(), post="yes")

    def delete_user(self) -> None:
        user = make_member(self.account, role="viewer").user
        self.change(f"auth/user/{user.pk}/delete", post="yes")

    def delete_users(self) -> None:
        user = make_member(self.account, role="viewer").user
        self.act("auth/user", "delete_selected", user.pk, post="yes")


BY_OPERATORS: dict[str, tuple[Action, Callable[[Admin], None]]] = {
    "suspend": (Action.ACCOUNT_SUSPENDED, Admin.suspend),
    "resume": (Action.ACCOUNT_RESUMED, Admin.resume),
    "plan": (Action.ACCOUNT_PLAN_CHANGED, Admin.change_plan),
    "rename": (Action.ACCOUNT_RENAMED, Admin.rename),
    "grant": (
        Action.CREDITS_GRANTED,
        lambda admin: admin.act(
            "billing/account", "grant_credits", admin.account.pk, credits=70, reason="grant_promo", note="Sorry"
        ),
    ),
    "correct": (
        Action.CREDITS_CORRECTED,
        lambda admin: admin.act("billing/account", "correct_credits", admin.account.pk, credits=-7, note="Wrong"),
    ),
    "revoke key": (
        Action.KEY_REVOKED,
        lambda admin: admin.act("clients/apikey", "revoke", make_key(admin.account)[0].pk),
    ),
    "rename key": (Action.KEY_RENAMED, Admin.rename_key),
    "expire key": (Action.KEY_EXPIRY_CHANGED, Admin.expire_key),
    "add member": (Action.MEMBER_JOINED, Admin.add_member),
    "change role": (Action.MEMBER_ROLE_CHANGED, Admin.change_role),
    "remove member": (Action.MEMBER_REMOVED, Admin.delete_member),
    "remove members": (Action.MEMBER_REMOVED, Admin.delete_members),
    "delete user": (Action.MEMBER_REMOVED, Admin.delete_user),
    "delete users": (Action.MEMBER_REMOVED, Admin.delete_users),
    "cancel": (
        Action.JOB_CANCELLED,
        lambda admin: admin.act("jobs/job", "cancel", make_job(default_client(admin.account)).pk),
    ),
    "requeue": (
        Action.JOB_REQUEUED,
        lambda admin: admin.act("jobs/job", "requeue", make_running_job(client=default_client(admin.account)).pk),
    ),
    "release": (
        Action.JOB_RELEASED,
        lambda admin: admin.act("jobs/job", "release", make_running_job(client=default_client(admin.account)).pk),
    ),
}


@pytest.mark.parametrize("act", BY_OPERATORS)
def test_what_an_operator_does_is_written(act: str, owner: Membership) -> None:
    action, do = BY_OPERATORS[act]
    do(Admin(owner))
    event = AuditEvent.objects.latest("pk")
    assert (event.action, event.account, event.actor, event.address) == (
        action,
        owner.account,
        "Operator alice",
        FROM,
    )
    assert rows(log_of(owner))[0][0] == "Operator alice"


@pytest.mark.parametrize(("place", "model"), [("clients/membership", Membership), ("auth/user", User)])
def test_a_deletion_that_fails_writes_nothing(
    place: str, model: type[Model], owner: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, member = Admin(owner), make_member(owner.account, role="viewer")
    monkeypatch.setattr(model, "delete", lambda *_: 1 // 0)
    chosen = member if model is Membership else member.user
    with pytest.raises(ZeroDivisionError):
        admin.act(place, "delete_selected", chosen.pk, post="yes")
    assert not AuditEvent.objects.filter(action=Action.MEMBER_REMOVED).exists()


def test_what_a_command_does_is_written(owner: Membership) -> None:
    call_command("createkey", owner.account.name, stdout=StringIO())
    call_command("grantcredits", owner.account.name, "70", note="Welcome", stdout=StringIO())
    assert [row[0] for row in rows(log_of(owner))] == ["Operator (command line)"] * 2
    assert not AuditEvent.objects.exclude(address=None).exists()


def test_everything_in_the_list_of_actions_is_tried() -> None:
    tried = {*BY_MEMBERS, *(action for action, _ in BY_OPERATORS.values()), Action.MEMBER_LEFT}
    assert tried == set(Action)


@pytest.mark.parametrize("action", Action, ids=str)
def test_every_action_has_a_group_and_a_sentence(action: Action) -> None:
    assert [group for group in GROUPS if action in group.actions]
    event = AuditEvent(action=action, target="<x>{y}", details={"name": "", "old": "{target}"})
    assert sentence(event) == SENTENCES[action].format(
        **dict.fromkeys(("client", "host", "hours", "role", "new", "credits", "reason"), "?"),
        target="<x>{y}",
        name="no name",
        expires="?",
        old="{target}",
    )


def test_the_list_is_narrowed_by_kind_and_person(owner: Membership) -> None:
    other = make_member(owner.account, role="member")
    client = make_client(owner.account)
    for who in (owner, other):
        make_key(owner.account, by=actor_of(who))
        endpoints.install(client, URL, by=actor_of(who))
        endpoints.disable(client, by=actor_of(who))
    assert len(rows(log_of(owner))) == 6
    assert [row[0] for row in rows(log_of(owner, about="keys"))] == [other.user.email, owner.user.email]
    page = log_of(owner, about="webhooks", by=str(other.user.pk))
    assert {row[0] for row in rows(page)} == {other.user.email}
    assert len(rows(page)) == 2
    links = re.findall(r'href="(\?[^"]*)"', page.content.decode())
    assert f"?about=keys&amp;by={other.user.pk}" in links
    assert "?about=webhooks" in links


@pytest.mark.parametrize("query", [{"about": "x"}, {"by": "x"}, {"by": "9" * 19}, {"by": "\u0661"}, {"after": "x"}])
def test_a_filter_that_was_not_offered_is_not_found(query: dict[str, str], owner: Membership) -> None:
    assert log_of(owner, **query).status_code == 404


def test_long_logs_come_in_pages(owner: Membership) -> None:
    for number in range(60):
        audit.record(owner.account.pk, Action.CLIENT_CREATED, by=actor_of(owner), target=f"bot-{number}")
    address, seen = f"/dashboard/{owner.account}/audit?about=webhooks", []
    while address:
        page = browser_of(owner).get(address)
        seen += [row[1] for row in rows(page)]
        following = re.findall(r'href="([^"]*)" rel="next"', page.content.decode())
        address = f"/dashboard/{owner.account}/audit" + following[0].replace("&amp;", "&") if following else ""
    assert seen == [f"Created client bot-{number}" for number in reversed(range(60))]


def test_an_empty_log_says_so(owner: Membership) -> None:
    assert "No changes yet" in text_of(log_of(owner))
    assert "No changes match this filter" in text_of(log_of(owner, about="jobs"))


def test_another_accounts_events_are_not_shown(owner: Membership) -> None:
    make_key(make_account())
    assert rows(log_of(owner)) == []


@pytest.mark.parametrize("role", ["member", "viewer"])
def test_only_owners_read_it(role: str, owner: Membership) -> None:
    other = make_member(owner.account, role=role)
    assert log_of(other).status_code == 403
    overview = f"/dashboard/{owner.account}/"
    links = ["Audit log" in text_of(browser_of(who).get(overview)) for who in (owner, other)]
    assert links == [True, False]


def test_it_is_kept_past_the_members_removal(owner: Membership) -> None:
    other = make_member(owner.account, role="member")
    make_key(owner.account, by=actor_of(other))
    members.remove(owner.account, other.pk, by=actor_of(owner), revoke_keys=False)
    User.objects.filter(pk=other.user.pk).delete()
    assert [row[0] for row in rows(log_of(owner, by=str(other.user.pk)))] == [other.user.email]


def test_names_from_strangers_are_escaped(owner: Membership) -> None:
    keys.create_key(default_client(owner.account), by=COMMAND_LINE, name="<script>{target.__class__}")
    page = log_of(owner).content.decode()
    assert "(&lt;script&gt;{target.__class__})" in page


def test_the_address_comes_from_the_trusted_proxy(owner: Membership, settings: Settings) -> None:
    settings.TRUSTED_PROXIES = 1
    http = browser_of(owner)
    forwarded = {"x-forwarded-for": f"198.51.100.66, {FROM}"}
    http.post(f"/dashboard/{owner.account}/clients", {"name": "bot"}, headers=forwarded)
    assert AuditEvent.objects.get().address == FROM


def test_operators_read_it_and_change_nothing(owner: Membership) -> None:
    invitations.invite(owner.account, email="a@example.org", role=Role.MEMBER, by=actor_of(owner))
    http = HttpClient()
    http.force_login(User.objects.create_superuser("alice"))
    event = AuditEvent.objects.get()
    listed = http.get(
        "/admin/clients/auditevent/", {"action__exact": "invitation.created", "q": owner.account.name}
    )
    assert "a@example.org" in text_of(listed)
    assert http.post(f"/admin/clients/auditevent/{event.pk}/change/", {"actor": "x"}).status_code == 403
    assert http.post(f"/admin/clients/auditevent/{event.pk}/delete/", {"post": "yes"}).status_code == 403
