"""Requests that the proxy to the game API accepts and rejects."""

import socket
import time
from contextlib import suppress

import pytest
from django.conf import settings

from jobs.execution.game_api_proxy import GameApiProxy
from simservice.environment import Environment
from simservice.network import public_names
from tests.jobs.game_api import (
    CONNECT,
    HOST,
    MEGABYTE,
    PUBLIC,
    PUBLIC_V6,
    FakeGameApi,
    ProxyClient,
    SetLimits,
    read_to_end,
    status,
)


class TestTarget:
    @pytest.mark.parametrize("host", settings.GAME_API_HOSTS)
    def test_every_listed_host_can_be_reached(self, host: str, proxy: ProxyClient, game_api: FakeGameApi) -> None:
        proxy.tunnel(f"CONNECT {host}:443 HTTP/1.0\r\n\r\n".encode()).close()
        assert game_api.lookups == [host]

    def test_host_names_are_case_insensitive(self, proxy: ProxyClient, game_api: FakeGameApi) -> None:
        proxy.tunnel(b"CONNECT US.BATTLE.NET:443 HTTP/1.1\r\n\r\n").close()
        assert game_api.lookups == [HOST]

    @pytest.mark.parametrize(
        "target",
        [
            "us.battle.net:80",
            "us.battle.net:0443",
            "us.battle.net:65535",
            "us.battle.net.:443",
            "evil.us.battle.net:443",
            "battle.net:443",
            "example.com:443",
            "localhost:443",
            "127.0.0.1:5432",
            "127.0.0.1:443",
            "2130706433:443",
            "169.254.169.254:443",
            "[::1]:443",
            f"[::ffff:{PUBLIC}]:443",
            f"{PUBLIC}:443",
            "us_battle_net:443",
            "a" * 5000 + ":443",
        ],
    )
    def test_any_other_destination_is_rejected(
        self, target: str, proxy: ProxyClient, game_api: FakeGameApi
    ) -> None:
        assert proxy.connect_to(target) == 403
        assert game_api.lookups == []

    @pytest.mark.parametrize(
        "target",
        [
            "us.battle.net",
            "us.battle.net:",
            "us.battle.net:443@evil",
            "us.battle.net:443@evil:443",
            "us.battle.net:443:443",
            "us.battle.net:443/",
            "evil@us.battle.net:443",
            "us.battle.net%00.evil:443",
            "us.battle.net\0:443",
            "us.battle.net\u00ad:443",
            "https://us.battle.net:443",
            "us.battle.net:\u0664\u0664\u0663".encode().decode("latin-1"),
            "us.battle.net:443 HTTP/1.1 x",
            "[us.battle.net]:443",
            ":443",
            "*",
        ],
    )
    def test_a_malformed_destination_is_rejected(
        self, target: str, proxy: ProxyClient, game_api: FakeGameApi
    ) -> None:
        assert proxy.connect_to(target) == 400
        assert game_api.lookups == []

    @pytest.mark.parametrize(
        "addresses",
        [
            ["10.0.0.1"],
            ["127.0.0.1"],
            ["169.254.169.254"],
            [PUBLIC, "192.168.0.1"],
            [PUBLIC] * 9 + ["10.0.0.1"],
            [PUBLIC, "::1"],
            ["fe80::1%eth0"],
            [f"::ffff:{PUBLIC}"],
        ],
    )
    def test_a_name_with_a_private_address_is_rejected(
        self, addresses: list[str], proxy: ProxyClient, game_api: FakeGameApi
    ) -> None:
        game_api.addresses = tuple(addresses)
        assert proxy.connect_to("us.battle.net:443") == 403
        assert game_api.connected == []

    def test_only_a_names_first_addresses_are_tried(self, proxy: ProxyClient, game_api: FakeGameApi) -> None:
        game_api.addresses = (PUBLIC_V6, *[PUBLIC] * 9)
        proxy.tunnel().close()
        assert game_api.connected == [[PUBLIC_V6, PUBLIC, PUBLIC, PUBLIC]]


class TestRequest:
    @pytest.mark.parametrize("method", ["GET", "POST", "connect", "OPTIONS", "PROPFIND"])
    def test_only_connect_is_supported(self, method: str, proxy: ProxyClient) -> None:
        response = proxy.send(f"{method} http://us.battle.net/ HTTP/1.1\r\nContent-Length: 0\r\n\r\n".encode())
        assert status(response) == 405
        assert b"\r\nAllow: CONNECT\r\n" in response

    @pytest.mark.parametrize(
        "request_head",
        [
            b"\r\n\r\n",
            b"CONNECT us.battle.net:443\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/2.0\r\n\r\n",
            b"CONNECT  us.battle.net:443 HTTP/1.1\r\n\r\n",
            b"CONNECT\tus.battle.net:443 HTTP/1.1\r\n\r\n",
            b" CONNECT us.battle.net:443 HTTP/1.1\r\n\r\n",
            b"\r\nCONNECT us.battle.net:443 HTTP/1.1\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\n\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\nHost: x\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\rHost: x\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\r\nHost: x\n\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\r\nHost : x\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\r\nno colon\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\r\nX: \0\r\n\r\n",
            b"CONNECT us.battle.net:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
            b"CONNECT us.battle.net:443 HTTP/1.1\r\ntransfer-ENCODING: chunked\r\n\r\n0\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
            b"\x05\x01\x00\n",
        ],
    )
    def test_a_malformed_request_is_rejected(
        self, request_head: bytes, proxy: ProxyClient, game_api: FakeGameApi
    ) -> None:
        assert status(proxy.send(request_head)) == 400
        assert game_api.lookups == []

    def test_an_incomplete_request_is_rejected(self, proxy: ProxyClient) -> None:
        with proxy.connect() as connection:
            connection.sendall(CONNECT[:-1])
            connection.shutdown(socket.SHUT_WR)
            assert status(read_to_end(connection)) == 400

    def test_headers_do_not_decide_the_destination(self, proxy: ProxyClient, game_api: FakeGameApi) -> None:
        allowed, other = b"us.battle.net:443", b"evil.example:443"
        assert status(proxy.send(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (other, allowed))) == 403
        proxy.tunnel(b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (allowed, other)).close()
        assert game_api.lookups == [HOST]

    def test_a_second_request_gets_no_response(self, proxy: ProxyClient, game_api: FakeGameApi) -> None:
        response = proxy.send(b"GET / HTTP/1.1\r\n\r\n" + CONNECT)
        assert (response.count(b"HTTP/1.1"), game_api.lookups) == (1, [])

    @pytest.mark.parametrize("ending", [b"\r\n\r\n", b""], ids=["complete", "endless"])
    def test_a_huge_head_is_rejected(self, ending: bytes, proxy: ProxyClient) -> None:
        assert status(proxy.send(CONNECT[:-2] + b"X: " + b"x" * MEGABYTE + ending)) == 431

    def test_a_head_just_over_the_limit_is_rejected(self, proxy: ProxyClient) -> None:
        base = CONNECT[:-2] + b"X: "
        longest_head = base + b"x" * ((8 << 10) - len(base))
        proxy.tunnel(longest_head + b"\r\n\r\n").close()
        assert status(proxy.send(longest_head + b"x\r\n\r\n")) == 431

    def test_a_slow_head_is_rejected(self, proxy: ProxyClient, set_limits: SetLimits) -> None:
        set_limits(HEAD_SECONDS=0.4)
        with proxy.connect() as connection:
            for byte in CONNECT:
                with suppress(ConnectionError):
                    connection.send(bytes([byte]))
                time.sleep(0.02)
            assert status(read_to_end(connection)) == 408


class TestSetting:
    @pytest.mark.parametrize(
        "entry",
        [
            "10.0.0.1",
            PUBLIC,
            "2130706433",
            "0x7f.1",
            "::1",
            "[::1]",
            "us.battle.net:443",
            "https://us.battle.net",
            "*.battle.net",
            ".battle.net",
            "us.battle.net.",
            "us .battle.net",
            "us.battle.net/x",
            "user@us.battle.net",
            "localhost",
            "battle",
            "db.internal",
            "printer.local",
            "b\u0430ttle.net",
        ],
    )
    def test_an_entry_that_is_not_a_public_name_is_rejected(
        self, entry: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GAME_API_HOSTS", f"{HOST},{entry}")
        env = Environment()
        env.host_names("GAME_API_HOSTS", default=[])
        (problem,) = env.problems
        assert problem.startswith(f"GAME_API_HOSTS contains {entry!r}, which is not a public host name")

    def test_uppercase_names_are_accepted(self) -> None:
        assert public_names.is_public("US.Battle.NET")
        listener = socket.create_server(("127.0.0.1", 0))
        with listener, GameApiProxy(listener, hosts=["US.Battle.NET"], job_id=7) as proxy:
            assert proxy.allowed_host("us.battle.net:443") == HOST

    def test_the_listed_default_is_correct(self) -> None:
        listed = (settings.BASE_DIR / ".env.example").read_text()
        assert f"\n#GAME_API_HOSTS={','.join(settings.GAME_API_HOSTS)}\n" in listed
