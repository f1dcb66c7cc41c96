"""Members and invitations on the dashboard."""

import re
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.test import Client as HttpClient
from pytest_django import DjangoAssertNumQueries, Settings

from clients.models import ApiKey, Invitation, Membership
from jobs.management.commands.seedlocal import ensure_account, ensure_user
from tests.dashboard.browsing import browser_of, text_of
from tests.dashboard.mailing import link_in, write_mails
from tests.factories import actor_of, make_invitation, make_key, make_member

pytestmark = pytest.mark.django_db
LINK = re.compile(r"/invitations/[\w-]{22}")


def invite(owner: Membership, email: str = "jane@example.org", role: str = "member") -> Any:
    """Send the invitation form."""
    return browser_of(owner).post(f"/dashboard/{owner.account}/people", {"email": email, "role": role})


def test_an_invitation_is_emailed_and_shown_once(owner: Membership) -> None:
    response = invite(owner)
    (link,) = set(LINK.findall(response.content.decode()))
    assert link in str(mail.outbox[0].body)
    assert (mail.outbox[0].to, "no-store" in response.headers["Cache-Control"]) == (["jane@example.org"], True)
    listed = browser_of(owner).get(f"/dashboard/{owner.account}/people")
    assert ("jane@example.org" in text_of(listed), LINK.findall(listed.content.decode())) == (True, [])
    assert "already invited" in text_of(invite(owner))


@pytest.mark.parametrize(("sends_mail", "way"), [(True, "Verify your address"), (False, "Ask the operator")])
def test_an_unverified_owner_is_asked_to_verify(*, sends_mail: bool, way: str, settings: Settings) -> None:
    if not sends_mail:
        settings.EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
    owner = make_member(is_verified=False)
    for page in (invite(owner), browser_of(owner).get(f"/dashboard/{owner.account}/people")):
        assert "You need a verified email address to invite people." in text_of(page)
        assert way in text_of(page)
        assert 'name="role" required' not in page.content.decode()
    assert (Invitation.objects.count(), mail.outbox) == (0, [])


def test_an_invitation_names_the_account_and_a_verified_owner(owner: Membership) -> None:
    response = invite(owner)
    (link,) = set(LINK.findall(response.content.decode()))
    for shown in (str(mail.outbox[0].body), text_of(HttpClient().get(link))):
        assert str(owner.account) in shown
        assert f"owned by {owner.user.email} (verified email address)" in shown
    EmailAddress.objects.update(verified=False)
    warned = text_of(HttpClient().get(link))
    assert owner.user.email not in warned
    assert "No owner of this account has a verified email address." in warned


@pytest.mark.parametrize("backend", ["smtp", "dummy"])
def test_the_link_is_shown_if_the_email_fails(owner: Membership, backend: str, settings: Settings) -> None:
    settings.EMAIL_BACKEND = f"django.core.mail.backends.{backend}.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    response = invite(owner)
    assert "could not be sent. Share this link yourself" in text_of(response)
    assert LINK.search(response.content.decode())


@pytest.mark.parametrize(
    "fields",
    [{"email": "no address", "role": "member"}, {"email": "a@example.org", "role": "king"}, {}],
    ids=["address", "role", "nothing"],
)
def test_an_invalid_invitation_shows_errors_in_the_form(owner: Membership, fields: dict[str, str]) -> None:
    response = browser_of(owner).post(f"/dashboard/{owner.account}/people", fields)
    assert 'role="alert"' in response.content.decode()
    assert not Invitation.objects.exists()


def test_a_logged_in_user_can_accept(owner: Membership) -> None:
    _, token = make_invitation(owner.account, role=Membership.Role.VIEWER)
    guest = make_member()
    http = browser_of(guest)
    assert f"Invitation to {owner.account}" in text_of(http.get(f"/invitations/{token}"))
    for _ in range(2):
        http.post(f"/invitations/{token}")
    assert Membership.objects.get(user=guest.user, account=owner.account).role == "viewer"
    assert http.get(f"/dashboard/{owner.account}/").status_code == 200


def test_a_new_user_can_accept_while_sign_up_is_closed(owner: Membership, settings: Settings) -> None:
    settings.ALLOW_SIGNUP = False
    _, token = make_invitation(owner.account)
    http = HttpClient()
    fields = {"email": "jane@example.org", "next": f"/invitations/{token}"}
    assert "Sign-up is closed" in text_of(http.post("/accounts/signup/", fields))
    assert f"/accounts/signup/?next=/invitations/{token}" in http.get(f"/invitations/{token}").content.decode()
    assert http.post("/accounts/signup/", fields).headers["Location"] == "/accounts/confirm-email/"
    assert write_mails() == 1
    elsewhere = HttpClient()
    response = elsewhere.post(link_in(mail.outbox[0]), {"password1": "long enough, and rare"})
    assert response.headers["Location"] == f"/invitations/{token}"
    assert elsewhere.post(f"/invitations/{token}").headers["Location"] == f"/dashboard/{owner.account}/"
    assert Membership.objects.filter(user__email="jane@example.org").count() == 1


def test_accepting_requires_a_login(owner: Membership) -> None:
    _, token = make_invitation(owner.account)
    response = HttpClient().post(f"/invitations/{token}")
    assert response.headers["Location"].startswith("/accounts/login/?next=/invitations/")


def test_a_revoked_invitation_is_not_found(owner: Membership) -> None:
    invitation, token = make_invitation(owner.account)
    browser_of(owner).post(f"/dashboard/{owner.account}/invitations/{invitation.pk}/revoke")
    assert HttpClient().get(f"/invitations/{token}").status_code == 404


def test_an_owner_changes_roles_and_removes_members(owner: Membership) -> None:
    other = make_member(owner.account, role="viewer")
    http, path = browser_of(owner), f"/dashboard/{owner.account}/people/{other.pk}"
    http.post(f"{path}/role", {"role": "owner"})
    assert Membership.objects.get(pk=other.pk).role == "owner"
    assert http.post(f"{path}/role", {"role": "king"}).status_code == 404
    assert "Remove" in text_of(http.get(f"{path}/remove"))
    http.post(f"{path}/remove")
    assert not Membership.objects.filter(pk=other.pk).exists()
    assert browser_of(other).get(f"/dashboard/{owner.account}/").status_code == 404


@pytest.mark.parametrize("revoke_keys", [True, False])
def test_removing_a_member_can_revoke_their_keys(revoke_keys: bool, owner: Membership) -> None:  # noqa: FBT001
    other = make_member(owner.account, role="member")
    other_key, _ = make_key(owner.account, by=actor_of(other), name="night job")
    own, _ = make_key(owner.account, by=actor_of(owner))
    http, path = browser_of(owner), f"/dashboard/{owner.account}/people/{other.pk}/remove"
    confirmation = http.get(path)
    assert f"{other.user.email} created 1 key that still works" in text_of(confirmation)
    assert re.search(r'name="revoke_keys" checked', confirmation.content.decode())
    assert ("night job" in text_of(confirmation), str(own) in text_of(confirmation)) == (True, False)
    assert Membership.objects.filter(pk=other.pk).exists()
    http.post(path, {"revoke_keys": "on"} if revoke_keys else {})
    other_key.refresh_from_db()
    own.refresh_from_db()
    assert (other_key.state, own.state) == ("revoked" if revoke_keys else "active", "active")


def test_leaving_can_revoke_own_keys(owner: Membership) -> None:
    other = make_member(owner.account, role="member")
    make_key(owner.account, by=actor_of(other))
    make_key(owner.account, by=actor_of(other))
    http, path = browser_of(other), f"/dashboard/{owner.account}/people/leave"
    assert "You created 2 keys that still work. " in text_of(http.get(path))
    http.post(path, {"revoke_keys": "on"})
    assert not ApiKey.objects.filter(revoked_at=None).exists()


def test_the_last_owner_cannot_leave_or_change_role(owner: Membership) -> None:
    http, path = browser_of(owner), f"/dashboard/{owner.account}/people"
    for attempt in (f"{path}/leave", f"{path}/{owner.pk}/remove"):
        assert "at least one owner" in text_of(http.post(attempt, follow=True))
    assert "at least one owner" in text_of(http.post(f"{path}/{owner.pk}/role", {"role": "member"}, follow=True))


def test_the_leave_page_warns_the_only_owner(owner: Membership) -> None:
    http, path = browser_of(owner), f"/dashboard/{owner.account}/people/leave"
    assert "You are the only owner." in text_of(http.get(path))
    make_member(owner.account, role="owner")
    assert "You are the only owner." not in text_of(http.get(path))


def test_a_member_who_leaves_sees_the_page_without_account(owner: Membership, settings: Settings) -> None:
    settings.ALLOW_SIGNUP = False
    http = browser_of(make_member(owner.account, role="viewer"))
    response = http.post(f"/dashboard/{owner.account}/people/leave", follow=True)
    assert "No account yet" in text_of(response)
    assert "Create account" not in text_of(response)


def test_a_user_without_an_account_can_open_one() -> None:
    alone = make_member()
    alone.delete()
    http = browser_of(alone)
    assert "Create account" in text_of(http.get("/dashboard/"))
    for _ in range(2):
        assert http.post("/dashboard/").status_code == 302
    assert Membership.objects.filter(user=alone.user).count() == 1


def test_members_cannot_manage_people(owner: Membership) -> None:
    member = make_member(owner.account, role="member")
    http, path = browser_of(member), f"/dashboard/{owner.account}/people"
    assert "Invite" not in text_of(http.get(path))
    for attempt in (path, f"{path}/{owner.pk}/role", f"{path}/{owner.pk}/remove"):
        assert http.post(attempt, {"email": "a@example.org", "role": "viewer"}).status_code == 403


def test_query_counts_do_not_depend_on_the_number_of_people(
    owner: Membership, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(10):
        make_member(owner.account, role="viewer")
    make_invitation(owner.account)
    http = browser_of(owner)
    with django_assert_max_num_queries(7):
        http.get(f"/dashboard/{owner.account}/people")


def test_the_demo_user_can_invite() -> None:
    account = ensure_account()
    for _ in range(2):
        ensure_user(account, None)
    assert "Verify your address" not in text_of(invite(Membership.objects.get(account=account)))
    assert Invitation.objects.filter(account=account).count() == 1
