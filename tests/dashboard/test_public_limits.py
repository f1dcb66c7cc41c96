"""Rate limits by IP address for share pages, comparisons, artifacts and manifests."""

from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client as HttpClient
from pytest_django import Settings

from clients import rate_limits
from localstack.redis_server import free_port
from simservice.api.addresses import network_of

pytestmark = pytest.mark.django_db

TOKEN = "x" * 22
SHARE, ARTIFACT, MANIFEST = (f"/{kind}/{TOKEN}" for kind in ("share", "artifacts", "manifests"))
COMPARISON = f"/compare?share={TOKEN}"


@pytest.fixture(autouse=True)
def _two_a_minute(settings: Settings) -> None:
    settings.PUBLIC_REQUESTS_PER_MINUTE = 2


def get(path: str, address: str = "192.0.2.1", **headers: str) -> Any:
    return HttpClient(REMOTE_ADDR=address).get(path, headers=headers)


def statuses(*addresses: str, **headers: str) -> list[int]:
    return [get(SHARE, address, **headers).status_code for address in addresses]


def test_public_urls_share_one_limit_per_address() -> None:
    found = [get(path).status_code for path in (SHARE, COMPARISON, ARTIFACT, MANIFEST, COMPARISON)]
    assert found == [404, 404, 429, 429, 429]
    assert statuses("192.0.2.2") == [404]


@pytest.mark.parametrize("path", [ARTIFACT, MANIFEST])
def test_artifacts_and_manifests_return_a_json_error(path: str) -> None:
    response = [get(path) for _ in range(3)][-1]
    body = response.json()
    assert (response.status_code, body["code"]) == (429, "rate_limit_exceeded")
    assert body["meta"] == {"scope": "address", "limit": "public"}
    assert 1 <= int(response["Retry-After"]) <= 60


def test_share_pages_return_an_html_error() -> None:
    response = [get(SHARE) for _ in range(3)][-1]
    assert response.status_code == 429
    assert response["Content-Type"].startswith("text/html")
    assert "Too many requests" in response.content.decode()
    assert 1 <= int(response["Retry-After"]) <= 60


def test_a_forged_header_does_not_change_the_address() -> None:
    assert statuses(*["192.0.2.1"] * 2, x_forwarded_for="192.0.2.7") == [404, 404]
    assert statuses("192.0.2.1", x_forwarded_for="192.0.2.8") == [429]


def test_clients_behind_a_proxy_have_separate_limits(settings: Settings) -> None:
    settings.TRUSTED_PROXIES = 1
    assert statuses(*["192.0.2.1"] * 3, x_forwarded_for="spoofed, 198.51.100.1") == [404, 404, 429]
    assert statuses("192.0.2.1", x_forwarded_for="other, 198.51.100.1") == [429]
    assert statuses("192.0.2.1", x_forwarded_for="198.51.100.2") == [404]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("2001:db8:0:1:ffff::", "2001:db8:0:1::/64"),
    ],
)
def test_an_ipv6_prefix_counts_as_one_address(address: str, network: str) -> None:
    assert network_of(address) == network


def test_an_unknown_address_is_not_limited() -> None:
    assert statuses(*[""] * 4) == [404] * 4


def test_without_redis_requests_are_allowed(settings: Settings) -> None:
    settings.REDIS_URL = urlsplit(settings.REDIS_URL)._replace(netloc=f"127.0.0.1:{free_port()}").geturl()
    rate_limits.limiter.cache_clear()
    try:
        assert statuses(*["192.0.2.1"] * 4) == [404] * 4
    finally:
        rate_limits.limiter.cache_clear()
