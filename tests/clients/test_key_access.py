"""What a key may do, and from where."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries, Settings

from clients import addresses, keys
from clients.audit import SYSTEM
from clients.errors import InvalidAddresses
from clients.models import ApiKey
from simservice.api.scopes import Scope
from simservice.telemetry.metrics import WANTED
from simservice.web.waiting import RESERVE, WAITED
from tests.conftest import Api
from tests.factories import make_account, make_job, make_key

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("text", "networks"),
    [
        ("", []),
        (" ,;\n ", []),
        ("203.0.113.7", ["203.0.113.7/32"]),
        ("203.0.113.7/24", ["203.0.113.0/24"]),
        ("2001:DB8:0:0::1, 10.0.0.0/8\n2001:db8::1", ["2001:db8::1/128", "10.0.0.0/8"]),
        ("::ffff:203.0.113.7", ["203.0.113.7/32"]),
        ("::ffff:203.0.113.0/120", ["203.0.113.0/24"]),
        ("0.0.0.0/0 ::/0", ["0.0.0.0/0", "::/0"]),
    ],
)
def test_networks_are_stored_in_one_form(text: str, networks: list[str]) -> None:
    assert addresses.parse(text) == networks


@pytest.mark.parametrize(
    "text",
    ["example.com", "203.0.113", "203.0.113.7/33", "1.2.3.4/-1", "fe80::1%eth0", "0x7f000001", "1", "\u0661.1.1.1"],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidAddresses, match="not an IP address or network"):
        addresses.parse(text)


def test_the_number_of_networks_is_limited() -> None:
    assert len(addresses.parse(" ".join(f"192.0.2.{number}" for number in range(20)))) == 20
    with pytest.raises(InvalidAddresses, match="at most 20"):
        addresses.parse(" ".join(f"192.0.2.{number}" for number in range(21)))


def is_plain(address: Any) -> bool:
    """Return whether an address stands for itself."""
    return address.version == 4 or address.ipv4_mapped is None


@given(st.ip_addresses().filter(is_plain), st.integers(0, 32))
def test_an_address_is_in_its_own_networks(address: Any, bits: int) -> None:
    for text in (str(address), f"{address}/{bits}"):
        assert addresses.contains(addresses.parse(text), str(address))


@pytest.mark.parametrize(
    ("address", "is_in"),
    [
        ("203.0.113.9", True),
        ("::ffff:203.0.113.9", True),
        ("203.0.114.1", False),
        ("2001:db8::5", True),
        ("2001:db9::5", False),
        (None, False),
    ],
)
def test_an_address_is_compared_with_networks(address: str | None, is_in: bool) -> None:  # noqa: FBT001
    assert addresses.contains(["203.0.113.0/24", "2001:db8::/32"], address) == is_in


@pytest.mark.parametrize(
    ("proxies", "forwarded", "status"),
    [
        (0, "203.0.113.9", 403),  # anybody can send the header
        (1, "203.0.113.9", 200),
        (1, "203.0.113.9, 198.51.100.1", 403),
        (2, "203.0.113.9, 198.51.100.1", 200),
        (1, "nonsense", 403),
    ],
)
def test_the_address_is_that_behind_the_trusted_proxies(
    proxies: int, forwarded: str, status: int, settings: Settings
) -> None:
    settings.TRUSTED_PROXIES = proxies
    key, secret = make_key(addresses=["203.0.113.0/24"])
    response = Api(secret).http.get(
        "/v1/sim/credits", headers={"authorization": f"Bearer {secret}", "x-forwarded-for": forwarded}
    )
    assert response.status_code == status
    key.refresh_from_db()
    assert (key.last_used_at is None) == (status == 403)


def test_scope_and_addresses_cost_no_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    everywhere = ["0.0.0.0/0", "::/0"]
    _, secret = make_key(scope=Scope.READ, addresses=everywhere)
    Api(secret).get("credits")
    with django_assert_num_queries(2):
        assert Api(secret).get("credits").status_code == 200


def test_keys_of_the_release_before_scopes_can_do_everything() -> None:
    account = make_account()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO clients_apikey (client_id, name, sha256, last4) SELECT id, '', 'x', 'abcd' "
            "FROM clients_client WHERE account_id = %s",
            [account.pk],
        )
    key = ApiKey.objects.get()
    assert (key.scope, key.addresses) == (Scope.MANAGE, [])


def test_a_change_applies_to_the_next_request() -> None:
    key, secret = make_key()
    job = make_job(key.client)
    api = Api(secret)
    keys.change_access(key, scope=Scope.READ, addresses=[], by=SYSTEM)
    assert api.post(f"jobs/{job.pk}/cancel").json()["code"] == "insufficient_scope"
    assert api.get(f"jobs/{job.pk}").status_code == 200
    keys.change_access(key, scope=Scope.SUBMIT, addresses=["192.0.2.1/32"], by=SYSTEM)
    assert api.get(f"jobs/{job.pk}").json()["code"] == "address_not_allowed"
    keys.change_access(key, scope=Scope.SUBMIT, addresses=["127.0.0.0/8"], by=SYSTEM)
    assert api.post(f"jobs/{job.pk}/cancel").status_code == 200


CHANGES_DURING_A_WAIT = {
    "revoked": (lambda key: keys.revoke(key, by=SYSTEM), 401, "revoked_token"),
    "elsewhere": (
        lambda key: keys.change_access(key, scope=Scope.READ, addresses=["192.0.2.1/32"], by=SYSTEM),
        403,
        "address_not_allowed",
    ),
    "read": (lambda key: keys.change_access(key, scope=Scope.READ, addresses=[], by=SYSTEM), 200, ""),
}


@pytest.mark.parametrize(("change", "status", "code"), CHANGES_DURING_A_WAIT.values(), ids=CHANGES_DURING_A_WAIT)
def test_a_key_is_checked_again_after_a_wait(change: Any, status: int, code: str) -> None:
    key, secret = make_key()
    path = f"/v1/sim/jobs/{make_job(key.client).pk}/status?wait=25"
    sent: Any = {RESERVE: lambda _owner: True}
    first = Api(secret).http.get(path, **sent)
    wait = first.wsgi_request.META[WANTED]
    change(key)
    second = Api(secret).http.get(path, **{WAITED: wait})
    assert (second.status_code, second.json().get("code", "")) == (status, code)


def createkey(*arguments: str) -> str:
    output = StringIO()
    call_command("createkey", *arguments, stdout=output)
    return output.getvalue().strip()


def test_createkey_limits_a_key() -> None:
    name = make_account().name
    key = keys.find_key(createkey(name, "--scope", "read", "--addresses", "192.0.2.7,2001:db8::/32"))
    assert key is not None
    assert (key.scope, key.addresses) == ("read", ["192.0.2.7/32", "2001:db8::/32"])
    unlimited = keys.find_key(createkey(name))
    assert unlimited is not None
    assert (unlimited.scope, unlimited.addresses) == ("manage", [])
    with pytest.raises(CommandError, match="not an IP address"):
        createkey(name, "--addresses", "home")
