"""Tunnels through the proxy to the game API, and how it connects them."""

import asyncio
import errno
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from jobs.execution import game_api_proxy
from jobs.execution.game_api_proxy import connect_to
from tests.jobs.game_api import (
    CONNECT,
    HOST,
    MEGABYTE,
    PUBLIC,
    FakeGameApi,
    ProxyClient,
    SetLimits,
    descriptors,
    discard_all,
    proxying,
    read,
    read_to_end,
    replace_system_resolver,
    resolved,
    serving,
)
from tests.localstack.conftest import eventually
from tests.webhooks.receivers import make_authority, receiving


class TestTunnel:
    def test_a_tunnel_carries_bytes_both_ways(self, proxy: ProxyClient, game_api: FakeGameApi) -> None:
        sent = os.urandom(MEGABYTE)
        with proxy.tunnel() as tunnel:
            writer = threading.Thread(target=tunnel.sendall, args=[sent])
            writer.start()
            assert read(tunnel, len(sent)) == sent
            writer.join()
        assert (game_api.lookups, game_api.connected) == ([HOST], [[PUBLIC]])

    def test_tls_reaches_the_server_unchanged(self, game_api: FakeGameApi, tmp_path: Path) -> None:
        authority = make_authority(tmp_path)
        trusting = ssl.create_default_context(cafile=authority.ca_file)
        with receiving(authority) as receiver:
            game_api.port = receiver.port
            with (
                proxying(game_api) as proxy,
                proxy.tunnel() as tunnel,
                trusting.wrap_socket(tunnel, server_hostname="localhost") as secured,
            ):
                secured.sendall(b"POST /200 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
                assert secured.recv(12) == b"HTTP/1.1 200"

    def test_a_half_closed_tunnel_still_carries_the_response(self, proxy: ProxyClient) -> None:
        with proxy.tunnel() as tunnel:
            tunnel.sendall(b"the whole question")
            tunnel.shutdown(socket.SHUT_WR)
            assert read_to_end(tunnel) == b"the whole question"

    def test_bytes_sent_after_the_request_are_carried(self, proxy: ProxyClient) -> None:
        with proxy.tunnel(CONNECT + b"early\n\r\n\r\n") as tunnel:
            assert read(tunnel, 10) == b"early\n\r\n\r\n"

    def test_a_tunnel_ends_with_the_server(self) -> None:
        with serving(lambda _: None) as game_api, proxying(game_api) as proxy, proxy.tunnel() as tunnel:
            assert read_to_end(tunnel) == b""

    def test_an_idle_tunnel_is_closed(self, proxy: ProxyClient, set_limits: SetLimits) -> None:
        set_limits(IDLE_SECONDS=0.3)
        with proxy.tunnel() as tunnel:
            started = time.monotonic()
            assert read_to_end(tunnel) == b""
            assert time.monotonic() - started > 0.2

    def test_a_half_closed_idle_tunnel_is_closed(self, set_limits: SetLimits) -> None:
        set_limits(IDLE_SECONDS=0.3)
        closed = threading.Event()
        with serving(lambda _: closed.wait(60)) as game_api, proxying(game_api) as proxy, proxy.tunnel() as tunnel:
            tunnel.shutdown(socket.SHUT_WR)
            assert read_to_end(tunnel) == b""
            closed.set()

    def test_a_tunnel_in_use_outlives_the_idle_time(self, proxy: ProxyClient, set_limits: SetLimits) -> None:
        set_limits(IDLE_SECONDS=2)
        with proxy.tunnel() as tunnel:
            for _ in range(16):
                tunnel.sendall(b".")
                assert tunnel.recv(1) == b"."
                time.sleep(0.15)

    def test_a_slow_reader_slows_the_sender(self) -> None:
        sent = 0

        def count(connection: socket.socket) -> None:
            nonlocal sent
            connection.settimeout(0.5)
            with suppress(TimeoutError):
                while True:
                    sent += connection.send(bytes(65536))

        with serving(count) as game_api, proxying(game_api) as proxy, proxy.tunnel():
            time.sleep(1.5)
        # Only the kernel's buffers are full; without backpressure it would be the whole download limit.
        assert 0 < sent < 32 * MEGABYTE


class TestReaching:
    def test_a_name_without_addresses_is_a_bad_gateway(self, game_api: FakeGameApi) -> None:
        def fail(_: str) -> Future[list[str]]:
            result: Future[list[str]] = Future()
            result.set_exception(socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
            return result

        with proxying(game_api, resolve=fail) as proxy:
            assert proxy.connect_to("us.battle.net:443") == 502

    def test_a_refused_connection_is_a_bad_gateway(self, proxy: ProxyClient, game_api: FakeGameApi) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            game_api.port = closed.getsockname()[1]
        assert proxy.connect_to("us.battle.net:443") == 502

    @pytest.mark.parametrize("part", ["resolve", "connect"])
    def test_a_slow_lookup_or_connection_is_a_gateway_timeout(
        self, part: str, game_api: FakeGameApi, set_limits: SetLimits
    ) -> None:
        async def hang(_: Sequence[str]) -> socket.socket:
            await asyncio.sleep(30)
            raise AssertionError

        set_limits(CONNECT_SECONDS=0.3)
        hanging: Any = hang if part == "connect" else lambda _: Future()
        with proxying(game_api, **{part: hanging}) as proxy:
            assert proxy.connect_to("us.battle.net:443") == 504

    def test_the_system_resolver_is_used(self, game_api: FakeGameApi, monkeypatch: pytest.MonkeyPatch) -> None:
        entry = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.9", 443))
        replace_system_resolver(monkeypatch, lambda: [entry])
        with proxying(game_api, resolve=game_api_proxy.resolve_host) as proxy:
            assert proxy.connect_to("us.battle.net:443") == 403

    def test_the_next_address_is_tried_if_one_refuses(self, game_api: FakeGameApi, set_limits: SetLimits) -> None:
        set_limits(HTTPS_PORT=game_api.port)
        with asyncio.run(connect_to(["127.0.0.2", "::1", "127.0.0.1"])) as upstream:
            assert upstream.getpeername() == ("127.0.0.1", game_api.port)

    def test_the_next_address_is_tried_if_one_is_silent(
        self, set_limits: SetLimits, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def connect(address: str) -> socket.socket:
            if address == PUBLIC:
                await asyncio.sleep(30)
            return socket.socket()

        async def in_time() -> socket.socket:
            async with asyncio.timeout(2):
                return await connect_to([PUBLIC, "127.0.0.1"])

        set_limits(CONNECT_SECONDS=2)
        monkeypatch.setattr(game_api_proxy, "connect_to_address", connect)
        asyncio.run(in_time()).close()

    def test_a_failed_accept_does_not_end_the_proxy(
        self, proxy: ProxyClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        accept, failures = socket.socket.accept, iter([OSError(errno.EMFILE, "Too many open files")])

        def fail_once(listener: socket.socket) -> Any:
            for failure in failures:
                raise failure
            return accept(listener)

        monkeypatch.setattr(socket.socket, "accept", fail_once)
        proxy.tunnel().close()
        assert "accept failed: Too many open files" in caplog.text

    def test_connecting_without_addresses_fails(self) -> None:
        with pytest.raises(OSError):  # noqa: PT011 - any of them
            asyncio.run(connect_to([]))

    def test_an_internal_error_ends_only_one_connection(
        self, game_api: FakeGameApi, caplog: pytest.LogCaptureFixture
    ) -> None:
        broken = iter([None])
        with proxying(game_api, resolve=lambda _: next(broken, resolved(PUBLIC))) as proxy:
            assert proxy.send(CONNECT) == b""
            proxy.tunnel().close()
        assert "job 7: game API proxy failed" in caplog.text


class TestExit:
    def test_exit_closes_every_connection_and_thread(self) -> None:
        with serving(discard_all) as game_api:
            before, threads = descriptors(), threading.active_count()
            with proxying(game_api) as proxy, ExitStack() as opened:
                tunnels = [opened.enter_context(proxy.tunnel()) for _ in range(8)]
                silent = [opened.enter_context(proxy.connect()) for _ in range(50)]
                proxy_thread = next(t for t in threading.enumerate() if t.name == "game-api-proxy")
                opened.pop_all()
            assert not proxy_thread.is_alive()
            assert {read_to_end(connection) for connection in tunnels + silent} == {b""}
            for connection in tunnels + silent:
                connection.close()
            assert eventually(lambda: (descriptors(), threading.active_count()) == (before, threads))

    def test_exit_is_immediate(self, game_api: FakeGameApi, set_limits: SetLimits) -> None:
        set_limits(HEAD_SECONDS=60)
        with ExitStack() as opened:
            with proxying(game_api, resolve=lambda _: Future()) as proxy:
                for request in (CONNECT, CONNECT[:9], b""):
                    opened.enter_context(proxy.connect()).sendall(request)
                time.sleep(0.1)
                started = time.monotonic()
            assert time.monotonic() - started < 20

    def test_a_lookup_may_end_after_the_exit(self, game_api: FakeGameApi, monkeypatch: pytest.MonkeyPatch) -> None:
        released, threads = threading.Event(), threading.active_count()
        replace_system_resolver(monkeypatch, lambda: [][: released.wait(9)])
        with proxying(game_api, resolve=game_api_proxy.resolve_host) as proxy, proxy.connect() as connection:
            connection.sendall(CONNECT)
            time.sleep(0.1)
        released.set()
        assert eventually(lambda: threading.active_count() == threads)

    def test_exit_frees_the_port(self, game_api: FakeGameApi) -> None:
        with proxying(game_api) as proxy:
            pass
        assert proxy.is_refused()

    def test_an_unused_proxy_ends(self, game_api: FakeGameApi) -> None:
        for _ in range(20):
            with proxying(game_api):
                pass


class TestLog:
    def test_rejected_destinations_are_logged_five_times(
        self, proxy: ProxyClient, caplog: pytest.LogCaptureFixture
    ) -> None:
        for number in range(20):
            proxy.connect_to(f"evil{number}.example:443")
        lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert lines == [
            f"job 7: game API proxy: 403 evil{number}.example:443 is not allowed." for number in range(5)
        ]

    def test_logged_names_are_cut_and_cannot_forge_lines(
        self, proxy: ProxyClient, caplog: pytest.LogCaptureFixture
    ) -> None:
        proxy.connect_to("a" * 5000 + ":443")
        proxy.connect_to("evil\rjob 8: fine:443")
        proxy.connect_to("evil\x1b[31m:443")
        lines = [record.getMessage() for record in caplog.records]
        assert lines[0] == f"job 7: game API proxy: 403 {'a' * 100}:443 is not allowed."
        assert not any("evil" in line for line in lines)

    def test_tunnel_contents_are_not_logged(self, proxy: ProxyClient, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        head = CONNECT[:-2] + b"Proxy-Authorization: Basic c2VjcmV0\r\n\r\n"
        with proxy.tunnel(head + b"c2VjcmV0") as tunnel:
            assert read(tunnel, 8) == b"c2VjcmV0"
        assert proxy.send(CONNECT[:-2] + b"c2VjcmV0\r\n\r\n")
        assert "c2VjcmV0" not in caplog.text
