"""Nothing connects to an address that no webhook may go to, as seen at the sockets and not by asking the code."""

import socket
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from itertools import permutations
from typing import Any

import pytest
from pytest_django import Settings

from tests.webhooks.connections import connections
from tests.webhooks.corpus import ACCEPTED, ADDRESSES, PUBLIC, REFUSED
from tests.webhooks.receivers import Receiver
from webhooks import addresses, endpoints, http_client
from webhooks.addresses import Refused
from webhooks.apps import warn_of_allowed
from webhooks.special_ranges import IPV4, IPV6

URL = f"https://{PUBLIC}/"
ELSEWHERE = "93.184.215.14"

ORDERS = list(permutations([[ELSEWHERE], ["127.0.0.1"], ["10.0.0.1", ELSEWHERE]]))

Zone = Callable[[str], list[str]]


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Callable[[Zone], list[str]]:
    """Give the system's resolver other answers for names; return the names that it was asked for."""
    real = socket.getaddrinfo

    def install(answers: Zone) -> list[str]:
        asked: list[str] = []

        def getaddrinfo(host: str, *rest: Any, **named: Any) -> list[Any]:
            if host.replace(".", "").isdigit() or ":" in host:
                return list(real(host, *rest, **named))
            asked.append(host)
            return [entry for answer in answers(host) for entry in real(answer, *rest, **named)]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return asked

    return install


def send(url: str) -> http_client.Answer:
    return http_client.send(url, {}, b"{}")


def test_the_corpus_is_large() -> None:
    assert len(set(REFUSED)) >= 300


@pytest.mark.parametrize("way", ["configured", "sent"])
def test_what_is_refused_connects_to_nothing(way: str, zone: Any) -> None:
    # Whatever would be looked up leads to where it must not.
    asked = zone(lambda _: ["127.0.0.1"])
    with connections() as seen:
        for url in set(REFUSED):
            if way == "sent":
                assert send(url).problem == "address", url
            else:
                with pytest.raises(Refused):
                    endpoints.check_url(url)
    assert (seen, asked) == ([], [])


def test_a_refusal_is_a_sentence() -> None:
    for url in REFUSED:
        with pytest.raises(Refused) as refused:
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
            "127.1 is not a name, and not an IPv4 address in its usual form of four decimal numbers.",
        ),
        (
            "https://[::ffff:10.0.0.1]",
            "::ffff:10.0.0.1 is not a public address: an IPv4 address in its mapped form (RFC 4291).",
        ),
        ("https://example.com/" + "x" * 2980, "The URL is 3000 characters long; at most 2048 are allowed."),
        (
            "https://xn--80ak6aa92e.com/",
            "xn--80ak6aa92e is made of letters that look like Latin ones, and passes for another name.",
        ),
        ("https://10.0.0.1/", "10.0.0.1 is not a public address: private use (RFC 1918)."),
        ("https://example.com:80/", "Port 80 is not allowed; use 443, or one from 1024 to 65535."),
        ("https://me@example.com/", "The URL must not carry a user name or password."),
    ],
)
def test_the_reason_is_the_right_one(url: str, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        addresses.parse(url)
    assert str(refused.value) == reason.replace("::ffff:10.0.0.1 is", f"{ip_address('::ffff:10.0.0.1')} is")


@pytest.mark.parametrize("url", ACCEPTED)
def test_public_addresses_and_names_are_accepted(url: str) -> None:
    assert addresses.parse(url).port in (443, 1024, 8443, 65535)


@pytest.mark.parametrize("mixed", ["alone", "first", "last"])
def test_a_name_with_one_address_that_is_not_public_leads_nowhere(mixed: str, zone: Any) -> None:
    with connections() as seen:
        for address in ADDRESSES:
            found = {"alone": [address], "first": [address, ELSEWHERE], "last": [ELSEWHERE, address]}[mixed]
            zone(lambda _, found=found: found)
            answer = send(URL)
            assert (answer.problem, "is not a public address" in answer.detail) == ("address", True), address
    assert seen == []


def test_a_public_name_is_connected_to_where_it_leads(zone: Any) -> None:
    asked = zone(lambda _: [ELSEWHERE, "2606:4700::1"])
    with connections() as seen:
        assert send(URL).problem == "connection"
    assert seen == [ELSEWHERE, "2606:4700::1"]
    assert asked == [PUBLIC]


@pytest.mark.parametrize("order", ORDERS)
def test_a_name_that_changes_its_answers_gains_nothing(order: tuple[list[str], ...], zone: Any) -> None:
    answers = iter(order * 3)
    asked = zone(lambda _: next(answers))
    with connections() as seen:
        for _ in range(9):
            send(URL)
    # One question for each request: what was judged is what is connected to.
    assert (seen, len(asked)) == ([ELSEWHERE] * 3, 9)


def test_an_allowed_address_is_exactly_that(receiver: Receiver, settings: Settings) -> None:
    with connections() as seen:
        assert send(receiver.url()).status == 200
        for other in (f"https://127.0.0.1:{receiver.port}/", f"https://localhost:{receiver.port + 1}/"):
            assert send(other).problem == "address"
    assert seen == ["127.0.0.1"]


def test_nothing_is_allowed_unless_somebody_says_so(settings: Settings) -> None:
    assert settings.WEBHOOK_ALLOWED_ADDRESSES == []


def test_what_is_allowed_is_told_loudly(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_allowed()
    assert caplog.records == []
    settings.WEBHOOK_ALLOWED_ADDRESSES = ["localhost:8443", "127.0.0.1:9000"]
    warn_of_allowed()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "localhost:8443, 127.0.0.1:9000" in caplog.text


def test_a_name_with_many_addresses_is_not_tried_at_all_of_them(zone: Any) -> None:
    zone(lambda _: [f"93.184.215.{number}" for number in range(100)])
    with connections() as seen:
        assert send(URL).problem == "connection"
    assert seen == [f"93.184.215.{number}" for number in range(4)]


def test_the_tables_leave_out_nothing_that_python_knows() -> None:
    for table, size in ((IPV4, 32), (IPV6, 128)):
        for network, _, _ in table:
            assert ip_network(network).max_prefixlen == size
    for text in ADDRESSES:
        assert addresses.why_special(ip_address(text)), text
