"""Webhooks cannot reach special addresses, verified at the sockets."""

import socket
from collections.abc import Callable
from contextlib import closing
from ipaddress import ip_address, ip_network
from itertools import permutations
from typing import Any

import pytest
from pytest_django import Settings

from simservice.network import addresses
from simservice.network.addresses import IPV4, IPV6, AddressRefused
from tests.webhooks.connections import connections
from tests.webhooks.corpus import ACCEPTED, ADDRESSES, PUBLIC, REFUSED
from tests.webhooks.receivers import Receiver
from webhooks import endpoints, http_client
from webhooks.apps import warn_of_allowed_addresses
from webhooks.connection_pool import ConnectionPool

URL = f"https://{PUBLIC}/"
ELSEWHERE = "93.184.215.14"

RESPONSES = list(permutations([[ELSEWHERE], ["127.0.0.1"], ["10.0.0.1", ELSEWHERE]]))

Resolver = Callable[[str], list[str]]


@pytest.fixture
def replace_resolver(monkeypatch: pytest.MonkeyPatch) -> Callable[[Resolver], list[str]]:
    """Replace the system's resolver; the function returns a list that collects the names looked up."""
    real = socket.getaddrinfo

    def install(resolver: Resolver) -> list[str]:
        names: list[str] = []

        def getaddrinfo(host: str, *rest: Any, **named: Any) -> list[Any]:
            if host.replace(".", "").isdigit() or ":" in host:
                return list(real(host, *rest, **named))
            names.append(host)
            return [entry for address in resolver(host) for entry in real(address, *rest, **named)]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return names

    return install


def post(url: str) -> http_client.Response:
    with closing(ConnectionPool()) as pool:
        return http_client.post(url, {}, b"{}", client_id=1, connections=pool)


def test_the_corpus_has_at_least_300_refused_urls() -> None:
    assert len(set(REFUSED)) >= 300


@pytest.mark.parametrize("way", ["configured", "sent"])
def test_refused_urls_cause_no_lookup_and_no_connection(way: str, replace_resolver: Any) -> None:
    # Any lookup would return a special address.
    names = replace_resolver(lambda _: ["127.0.0.1"])
    with connections() as connected:
        for url in set(REFUSED):
            if way == "sent":
                assert post(url).problem == "address", url
            else:
                with pytest.raises(AddressRefused):
                    endpoints.check_url(url)
    assert (connected, names) == ([], [])


def test_every_refusal_is_a_sentence() -> None:
    for url in REFUSED:
        with pytest.raises(AddressRefused) as refused:
            addresses.parse(url)
        text = str(refused.value)
        assert text[-1] == ".", url
        assert 25 < len(text) < 300, url
        assert text.isprintable(), url


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://example.com/", "The URL must begin with https:// and have no fragment (#…)."),
        ("https://localhost", "Names that end in .localhost are not public (RFC 6761)."),
        (
            "https://127.1",
            "127.1 is neither a name nor an IPv4 address of four decimal numbers.",
        ),
        (
            "https://[::ffff:10.0.0.1]",
            "::ffff:10.0.0.1 is not a public address: IPv4-mapped (RFC 4291).",
        ),
        ("https://example.com/" + "x" * 2980, "The URL must be at most 2048 characters long; it has 3000."),
        (
            "https://xn--80ak6aa92e.com/",
            "xn--80ak6aa92e contains only letters that look like Latin ones, so it can look like another name.",
        ),
        ("https://10.0.0.1/", "10.0.0.1 is not a public address: private use (RFC 1918)."),
        ("https://example.com:80/", "Port 80 is not allowed. Use 443, or a port from 1024 to 65535."),
        ("https://me@example.com/", "The URL must not contain a user name or password."),
    ],
)
def test_a_refusal_states_its_reason(url: str, reason: str) -> None:
    with pytest.raises(AddressRefused) as refused:
        addresses.parse(url)
    assert str(refused.value) == reason.replace("::ffff:10.0.0.1 is", f"{ip_address('::ffff:10.0.0.1')} is")


@pytest.mark.parametrize("url", ACCEPTED)
def test_public_addresses_and_names_are_accepted(url: str) -> None:
    assert addresses.parse(url).port in (443, 1024, 8443, 65535)


@pytest.mark.parametrize("position", ["alone", "first", "last"])
def test_a_name_with_one_special_address_is_refused(position: str, replace_resolver: Any) -> None:
    with connections() as connected:
        for address in ADDRESSES:
            resolved = {"alone": [address], "first": [address, ELSEWHERE], "last": [ELSEWHERE, address]}[position]
            replace_resolver(lambda _, resolved=resolved: resolved)
            response = post(URL)
            assert (response.problem, "is not a public address" in response.detail) == ("address", True), address
    assert connected == []


def test_a_public_name_is_looked_up_and_connected(replace_resolver: Any) -> None:
    names = replace_resolver(lambda _: [ELSEWHERE, "2606:4700::1"])
    with connections() as connected:
        assert post(URL).problem == "connection"
    assert connected == [ELSEWHERE, "2606:4700::1"]
    assert names == [PUBLIC]


@pytest.mark.parametrize("order", RESPONSES)
def test_dns_rebinding_reaches_no_special_address(order: tuple[list[str], ...], replace_resolver: Any) -> None:
    responses = iter(order * 3)
    names = replace_resolver(lambda _: next(responses))
    with connections() as connected:
        for _ in range(9):
            post(URL)
    # One lookup for each request: the connection uses the checked addresses.
    assert (connected, len(names)) == ([ELSEWHERE] * 3, 9)


def test_an_allowed_address_allows_no_other(receiver: Receiver, settings: Settings) -> None:
    with connections() as connected:
        assert post(receiver.url()).status == 200
        for other in (f"https://127.0.0.1:{receiver.port}/", f"https://localhost:{receiver.port + 1}/"):
            assert post(other).problem == "address"
    assert connected == ["127.0.0.1"]


def test_no_special_address_is_allowed_by_default(settings: Settings) -> None:
    assert settings.WEBHOOK_ALLOWED_ADDRESSES == []


def test_a_start_warns_of_allowed_addresses(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_allowed_addresses()
    assert caplog.records == []
    settings.WEBHOOK_ALLOWED_ADDRESSES = ["localhost:8443", "127.0.0.1:9000"]
    warn_of_allowed_addresses()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "localhost:8443, 127.0.0.1:9000" in caplog.text


def test_only_four_addresses_of_a_name_are_tried(replace_resolver: Any) -> None:
    replace_resolver(lambda _: [f"93.184.215.{number}" for number in range(100)])
    with connections() as connected:
        assert post(URL).problem == "connection"
    assert connected == [f"93.184.215.{number}" for number in range(4)]


def test_the_tables_cover_every_special_address() -> None:
    for table, size in ((IPV4, 32), (IPV6, 128)):
        for network, _, _ in table:
            assert ip_network(network).max_prefixlen == size
    for text in ADDRESSES:
        assert addresses.why_special(ip_address(text)), text
