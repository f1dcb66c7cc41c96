"""Keys follow the role of the person who created them, and their number is limited."""

from contextlib import suppress

import pytest
from django.test import Client as HttpClient
from pytest_django import DjangoAssertNumQueries

from clients import accounts, keys, members
from clients.audit import SYSTEM
from clients.errors import TooManyClients, TooManyKeys
from clients.members import Role
from clients.models import ApiKey, AuditEvent, Client, Membership
from privacy import users
from simservice.ids import new_token
from tests.concurrency import at_once
from tests.conftest import Api
from tests.factories import actor_of, make_account, make_member

pytestmark = pytest.mark.django_db
BODY = {"build": {"channel": "latest"}, "profile": {"text": 'mage="A"\n'}}


@pytest.fixture
def owner() -> Membership:
    return make_member()


@pytest.fixture
def member(owner: Membership) -> Membership:
    return make_member(owner.account, role="member")


def make_key_of(membership: Membership) -> tuple[ApiKey, Api]:
    client = accounts.default_client(membership.account)
    key, secret = keys.create_key(client, by=actor_of(membership))
    return key, Api(secret)


def change_role(member: Membership, role: Role, owner: Membership) -> None:
    assert members.change_role(member.account, member.pk, role, by=actor_of(owner))


def refusals(api: Api) -> list[tuple[int, str]]:
    """Return the responses to requests that change something."""
    answers = [api.post("jobs", BODY), api.post("jobs/1/cancel"), api.post("jobs/validate", BODY)]
    return [(answer.status_code, answer.json().get("code", "")) for answer in answers]


def test_the_key_of_a_viewer_can_only_read(owner: Membership, member: Membership) -> None:
    _, api = make_key_of(member)
    change_role(member, Role.VIEWER, owner)
    assert refusals(api) == [(403, "read_only_key")] * 3
    assert api.get("jobs").status_code == 200


def test_a_promotion_gives_a_key_its_permissions_back(owner: Membership, member: Membership) -> None:
    _, api = make_key_of(member)
    for role in (Role.VIEWER, Role.MEMBER):
        change_role(member, role, owner)
    assert (403, "read_only_key") not in refusals(api)


def test_the_role_in_another_account_does_not_matter(member: Membership) -> None:
    _, api = make_key_of(member)
    Membership.objects.create(user=member.user, account=make_account(), role=Role.VIEWER)
    assert (403, "read_only_key") not in refusals(api)


def test_a_key_of_a_member_who_left_still_works(owner: Membership, member: Membership) -> None:
    _, api = make_key_of(member)
    members.remove(member.account, member.pk, by=actor_of(owner), revoke_keys=False)
    assert (403, "read_only_key") not in refusals(api)


def test_leaving_gives_a_viewer_no_permissions_back(owner: Membership, member: Membership) -> None:
    key, api = make_key_of(member)
    change_role(member, Role.VIEWER, owner)
    members.remove(member.account, member.pk, by=actor_of(member), revoke_keys=False)
    key.refresh_from_db()
    assert key.state == ApiKey.State.REVOKED
    assert refusals(api) == [(401, "revoked_token")] * 3


def test_deleting_their_login_gives_a_viewer_no_permissions_back(owner: Membership, member: Membership) -> None:
    _, api = make_key_of(member)
    change_role(member, Role.VIEWER, owner)
    users.delete(member.user, by=SYSTEM)
    assert refusals(api) == [(401, "revoked_token")] * 3


def test_a_demotion_names_the_keys(owner: Membership, member: Membership) -> None:
    key, _ = make_key_of(member)
    http = HttpClient()
    http.force_login(owner.user)
    people = f"/dashboard/{owner.account.name}/people"
    page = http.post(f"{people}/{member.pk}/role", {"role": "viewer"}, follow=True)
    assert f"The keys that they created are now read-only: {key}." in page.content.decode()
    assert AuditEvent.objects.latest("pk").details == {"old": "member", "new": "viewer", "keys": 1}
    page = http.get(f"/dashboard/{owner.account.name}/clients/{key.client_id}")
    assert "Read-only" in page.content.decode()


def test_the_number_of_active_keys_is_limited(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MAX_ACTIVE", 2)
    first, _ = make_key_of(owner)
    make_key_of(owner)
    with pytest.raises(TooManyKeys, match="at most 2 active keys"):
        make_key_of(owner)
    keys.revoke(first, by=SYSTEM)
    with pytest.raises(TooManyKeys, match="at most 2 keys a day"):
        make_key_of(owner)


def test_a_member_sees_the_limit_of_keys(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MAX_ACTIVE", 0)
    http = HttpClient()
    http.force_login(owner.user)
    address = f"/dashboard/{owner.account.name}/clients/{accounts.default_client(owner.account).pk}"
    token = http.get(address).context["token"]
    page = http.post(address, {"name": "x", "days": "0", "form": token})
    assert "An account can have at most 0 active keys." in page.content.decode()
    assert not ApiKey.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_concurrent_requests_cannot_exceed_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MAX_ACTIVE", 1)
    monkeypatch.setattr(accounts, "MAX_CLIENTS", 2)
    owner = make_member()

    def create() -> None:
        with suppress(TooManyKeys):
            make_key_of(owner)
        with suppress(TooManyClients):
            accounts.create_client(owner.account, new_token(), by=SYSTEM)

    at_once(4, create)
    assert (ApiKey.objects.count(), Client.objects.count()) == (1, 2)


def test_many_keys_are_revoked_in_few_statements(
    owner: Membership, member: Membership, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client = accounts.default_client(owner.account)
    rows = [ApiKey(client=client, sha256=f"{n:064}", created_by=member.user) for n in range(2000)]
    ApiKey.objects.bulk_create(rows)
    with django_assert_max_num_queries(20):
        members.remove(owner.account, member.pk, by=actor_of(owner), revoke_keys=True)
    assert not ApiKey.objects.filter(revoked_at=None).exists()
    assert AuditEvent.objects.filter(action="key.revoked").count() == 2000
