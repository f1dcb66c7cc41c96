"""The audit log on the dashboard and in the admin."""

import csv
import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import Settings

from clients import audit, invitations, keys, members
from clients.accounts import default_client
from clients.audit import COMMAND_LINE, Action
from clients.members import Role
from clients.models import AuditEvent, Membership
from dashboard.account import audit_log
from dashboard.account.audit_log import DESCRIPTIONS, GROUPS, description
from tests.dashboard.audited_changes import (
    ADDRESS,
    CHANGES_BY_MEMBERS,
    CHANGES_BY_OPERATORS,
    URL,
    MemberBrowser,
    OperatorBrowser,
)
from tests.dashboard.browsing import browser_of, text_of
from tests.factories import (
    actor_of,
    make_account,
    make_client,
    make_invitation,
    make_job,
    make_key,
    make_member,
)
from webhooks import endpoints

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "check_url", lambda _: None)


def log_of(owner: Membership, **query: str) -> Any:
    """Request the page."""
    return browser_of(owner).get(f"/dashboard/{owner.account}/audit", query)


def csv_of(owner: Membership, **query: str) -> list[dict[str, str]]:
    """Return the rows of the CSV file."""
    response: Any = browser_of(owner).get(f"/dashboard/{owner.account}/audit.csv", query)
    assert response.status_code == 200
    return list(csv.DictReader(b"".join(response.streaming_content).decode().splitlines()))


def rows(page: Any) -> list[list[str]]:
    """Return the user, the change and the address of each row."""
    table_rows = re.findall(r"<tr>(.*?)</tr>", page.content.decode(), re.DOTALL)[1:]
    return [
        [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", row)][1:] for row in table_rows
    ]


@pytest.mark.parametrize("action", CHANGES_BY_MEMBERS, ids=str)
def test_changes_by_members_are_recorded(action: Action, owner: Membership) -> None:
    CHANGES_BY_MEMBERS[action](MemberBrowser(owner))
    event = AuditEvent.objects.latest("pk")
    assert (event.action, event.account, event.user_id) == (action, owner.account, owner.user.pk)
    assert (event.actor, event.address) == (owner.user.email, ADDRESS)
    assert rows(log_of(owner))[0][::2] == [owner.user.email, ADDRESS]


def test_joining_and_leaving_are_recorded(owner: Membership) -> None:
    _, token = make_invitation(owner.account, role=Role.VIEWER)
    guest = make_member()
    http = browser_of(guest)
    http.post(f"/invitations/{token}", REMOTE_ADDR=ADDRESS)
    http.post(f"/dashboard/{owner.account}/people/leave", REMOTE_ADDR=ADDRESS)
    email = guest.user.email
    assert rows(log_of(owner))[:2] == [
        [email, f"{email} left the account", ADDRESS],
        [email, f"{email} joined as viewer", ADDRESS],
    ]


def test_a_cancellation_with_another_key_is_recorded(owner: Membership) -> None:
    (own, secret), (other, _) = make_key(owner.account), make_key(owner.account)
    own_job, other_job = (make_job(key.client, api_key=key) for key in (own, other))
    http = HttpClient(headers={"authorization": f"Bearer {secret}"})
    for job in (own_job, other_job):
        assert http.post(f"/v1/sim/jobs/{job.pk}/cancel", REMOTE_ADDR=ADDRESS).status_code == 200
    (row,) = rows(log_of(owner, about="jobs"))
    assert row == [f"API key {own}", f"Cancelled job {other_job.pk}", ADDRESS]


@pytest.mark.parametrize("act", CHANGES_BY_OPERATORS)
def test_changes_by_operators_are_recorded(act: str, owner: Membership) -> None:
    action, change = CHANGES_BY_OPERATORS[act]
    change(OperatorBrowser(owner))
    event = AuditEvent.objects.latest("pk")
    assert (event.action, event.account, event.actor, event.address) == (
        action,
        owner.account,
        "Operator alice",
        ADDRESS,
    )
    assert rows(log_of(owner))[0][0] == "Operator alice"


def test_a_failed_deletion_is_not_recorded(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Membership, "delete", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        OperatorBrowser(owner).delete_member()
    assert not AuditEvent.objects.filter(action=Action.MEMBER_REMOVED).exists()


def test_changes_by_commands_are_recorded(owner: Membership) -> None:
    call_command("createkey", owner.account.name, stdout=StringIO())
    call_command("grantcredits", owner.account.name, "70", note="Welcome", stdout=StringIO())
    assert [row[0] for row in rows(log_of(owner))] == ["Operator (command line)"] * 2
    assert not AuditEvent.objects.exclude(address=None).exists()


def test_every_action_is_tested() -> None:
    tested = {*CHANGES_BY_MEMBERS, *(action for action, _ in CHANGES_BY_OPERATORS.values()), Action.MEMBER_LEFT}
    assert tested == set(Action)


@pytest.mark.parametrize("action", Action, ids=str)
def test_every_action_has_a_group_and_a_description(action: Action) -> None:
    assert [group for group in GROUPS if action in group.actions]
    event = AuditEvent(action=action, target="<x>{y}", details={"name": "", "old": "{target}"})
    assert description(event) == DESCRIPTIONS[action].format(
        **dict.fromkeys(("client", "host", "hours", "role", "new", "credits", "reason", "title"), "?"),
        target="<bdi>&lt;x&gt;{y}</bdi>",
        name="<bdi>no name</bdi>",
        expires="?",
        old="<bdi>{target}</bdi>",
    )


def test_a_name_cannot_reverse_the_text_around_it(owner: Membership) -> None:
    make_key(owner.account, by=actor_of(owner), name="\u202ereversed")
    assert "<bdi>\u202ereversed</bdi>" in log_of(owner).content.decode()


def test_a_change_of_role_names_the_number_of_keys(owner: Membership) -> None:
    member = make_member(owner.account, role="member")
    for _ in range(2):
        make_key(owner.account, by=actor_of(member))
    members.change_role(owner.account, member.pk, Role.VIEWER, by=actor_of(owner))
    assert "viewer , and with it what 2 API keys can do" in text_of(log_of(owner))


def test_the_list_is_filtered_by_group_and_user(owner: Membership) -> None:
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


def test_jobs_keys_and_clients_link_to_their_pages(owner: Membership) -> None:
    client = make_client(owner.account)
    key, _ = make_key(owner.account, by=actor_of(owner))
    endpoints.install(client, URL, by=actor_of(owner))
    job = make_job(default_client(owner.account))
    audit.record(owner.account.pk, Action.JOB_CANCELLED, by=actor_of(owner), target_id=job.pk, target=job)
    content = log_of(owner).content.decode()
    for path in (f"jobs/{job.pk}", f"keys/{key.pk}", f"clients/{client.pk}/webhook"):
        assert f'href="/dashboard/{owner.account}/{path}"' in content


def test_the_list_is_filtered_by_text_and_date(owner: Membership) -> None:
    other = make_member(owner.account, role="member")
    for who, name in ((owner, 'Bot "7" 100%'), (other, "<b>")):
        make_key(owner.account, by=actor_of(who), name=name)
    today = timezone.now().date()
    for query, expected in (
        ({"text": 'bot "7" 100%'}, [owner]),
        ({"text": other.user.email.upper()}, [other]),
        ({"text": "100_"}, []),
        ({"since": f"{today}", "until": f"{today}"}, [other, owner]),
        ({"since": f"{today + timedelta(days=1)}"}, []),
        ({"until": f"{today - timedelta(days=1)}"}, []),
        ({"until": "9999-12-31", "text": "<B>"}, [other]),
    ):
        assert [row[0] for row in rows(log_of(owner, **query))] == [who.user.email for who in expected], query
        assert [row["actor"] for row in csv_of(owner, **query)] == [who.user.email for who in expected], query


@pytest.mark.parametrize("query", [{"since": "x"}, {"until": "2026-13-01"}, {"text": "x" * 101}, {"text": "\0"}])
def test_an_invalid_date_or_text_shows_an_error(query: dict[str, str], owner: Membership) -> None:
    make_key(owner.account, by=actor_of(owner))
    page = log_of(owner, **query)
    assert 'class="error"' in page.content.decode()
    assert rows(page) == []
    assert browser_of(owner).get(f"/dashboard/{owner.account}/audit.csv", query).status_code == 404


def test_the_csv_has_all_matching_changes(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "BATCH", 2)
    for number in range(5):
        make_key(owner.account, by=actor_of(owner), name=f"=cmd|<{number}>")
    endpoints.install(make_client(owner.account), URL, by=actor_of(owner))
    make_key(make_account())
    found = csv_of(owner, about="keys")
    assert [row["description"].partition("(")[2] for row in found] == [
        f"=cmd|<{number}>) for client default" for number in range(4, -1, -1)
    ]
    assert {row["action"] for row in found} == {"key.created"}
    member = make_member(owner.account, role="member")
    assert browser_of(member).get(f"/dashboard/{owner.account}/audit.csv").status_code == 403


@pytest.mark.parametrize("query", [{"about": "x"}, {"by": "x"}, {"by": "9" * 19}, {"by": "\u0661"}, {"after": "x"}])
def test_an_invalid_filter_is_not_found(query: dict[str, str], owner: Membership) -> None:
    assert log_of(owner, **query).status_code == 404


def test_a_long_log_has_pages(owner: Membership) -> None:
    for number in range(60):
        audit.record(owner.account.pk, Action.CLIENT_CREATED, by=actor_of(owner), target=f"bot-{number}")
    address, actions = f"/dashboard/{owner.account}/audit?about=webhooks", []
    while address:
        page = browser_of(owner).get(address)
        actions += [row[1] for row in rows(page)]
        following = re.findall(r'href="([^"]*)" rel="next"', page.content.decode())
        address = f"/dashboard/{owner.account}/audit" + following[0].replace("&amp;", "&") if following else ""
    assert actions == [f"Created client bot-{number}" for number in reversed(range(60))]


def test_an_empty_log_says_so(owner: Membership) -> None:
    assert "No changes yet" in text_of(log_of(owner))
    assert "No changes match this filter" in text_of(log_of(owner, about="jobs"))


def test_another_accounts_events_are_not_shown(owner: Membership) -> None:
    make_key(make_account())
    assert rows(log_of(owner)) == []


@pytest.mark.parametrize("role", ["member", "viewer"])
def test_only_owners_can_read_the_log(role: str, owner: Membership) -> None:
    other = make_member(owner.account, role=role)
    assert log_of(other).status_code == 403
    overview = f"/dashboard/{owner.account}/"
    links = ["Audit log" in text_of(browser_of(who).get(overview)) for who in (owner, other)]
    assert links == [True, False]


def test_events_of_a_deleted_user_are_shown(owner: Membership) -> None:
    other = make_member(owner.account, role="member")
    make_key(owner.account, by=actor_of(other))
    members.remove(owner.account, other.pk, by=actor_of(owner), revoke_keys=False)
    User.objects.filter(pk=other.user.pk).delete()
    assert [row[0] for row in rows(log_of(owner, by=str(other.user.pk)))] == [other.user.email]


def test_names_are_escaped(owner: Membership) -> None:
    keys.create_key(default_client(owner.account), by=COMMAND_LINE, name="<script>{target.__class__}")
    page = log_of(owner).content.decode()
    assert "(<bdi>&lt;script&gt;{target.__class__}</bdi>)" in page


def test_the_address_comes_from_the_trusted_proxy(owner: Membership, settings: Settings) -> None:
    settings.TRUSTED_PROXIES = 1
    http = browser_of(owner)
    forwarded = {"x-forwarded-for": f"198.51.100.66, {ADDRESS}"}
    http.post(f"/dashboard/{owner.account}/clients", {"name": "bot"}, headers=forwarded)
    assert AuditEvent.objects.get().address == ADDRESS


def test_the_log_is_read_only_in_the_admin(owner: Membership) -> None:
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
