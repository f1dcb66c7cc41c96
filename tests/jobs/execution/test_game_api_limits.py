"""Limits of the proxy to the game API."""

import socket
import threading
import time
from contextlib import ExitStack, suppress

from jobs.execution import game_api_proxy
from tests.jobs.game_api import (
    MEGABYTE,
    FakeGameApi,
    ProxyClient,
    SetLimits,
    descriptors,
    proxying,
    read_to_end,
    send_forever,
    serving,
    status,
)
from tests.localstack.conftest import eventually


class TestLimits:
    def test_limits_match_the_documentation(self) -> None:
        assert (game_api_proxy.MAX_TUNNELS, game_api_proxy.MAX_CONNECTIONS) == (8, 200)
        assert (game_api_proxy.MAX_DOWNLOAD_BYTES, game_api_proxy.MAX_UPLOAD_BYTES) == (64 << 20, 8 << 20)
        assert (game_api_proxy.CONNECT_SECONDS, game_api_proxy.IDLE_SECONDS) == (10, 30)

    def test_connects_over_the_limit_of_200_are_rejected(self, proxy: ProxyClient) -> None:
        statuses = [proxy.connect_to("example.com:443") for _ in range(1000)]
        assert statuses == [403] * 200 + [429] * 800

    def test_tunnels_over_the_limit_of_200_are_rejected(self, proxy: ProxyClient, game_api: FakeGameApi) -> None:
        for _ in range(200):
            with proxy.tunnel() as tunnel:
                tunnel.shutdown(socket.SHUT_WR)
                assert read_to_end(tunnel) == b""
        assert {proxy.connect_to("us.battle.net:443") for _ in range(800)} == {429}
        assert len(game_api.connected) == 200

    def test_a_flood_closes_the_listener(self, game_api: FakeGameApi, set_limits: SetLimits) -> None:
        set_limits(MAX_ACCEPTED=20)
        with proxying(game_api) as proxy:
            assert [status(proxy.send(b"\n")) for _ in range(20)] == [400] * 20
            assert eventually(proxy.is_refused)

    def test_a_ninth_tunnel_is_rejected_until_one_closes(self, proxy: ProxyClient) -> None:
        with ExitStack() as opened:
            tunnels = [opened.enter_context(proxy.tunnel()) for _ in range(8)]
            assert proxy.connect_to("us.battle.net:443") == 503
            tunnels[0].shutdown(socket.SHUT_WR)
            assert read_to_end(tunnels[0]) == b""
            assert eventually(proxy.opens_tunnel)

    def test_100_silent_connections_do_not_stop_the_proxy(self, proxy: ProxyClient, set_limits: SetLimits) -> None:
        set_limits(HEAD_SECONDS=0.3)
        before = descriptors()
        with ExitStack() as opened:
            silent = [opened.enter_context(proxy.connect()) for _ in range(100)]
            time.sleep(0.1)
            # The test's own connections are 100; the proxy accepts at most 32.
            assert descriptors() - before <= 100 + 32
            proxy.tunnel().close()
            assert {status(read_to_end(connection)) for connection in silent} == {408}

    def test_downloads_are_limited(self, set_limits: SetLimits) -> None:
        set_limits(MAX_DOWNLOAD_BYTES=MEGABYTE)
        with serving(send_forever) as game_api, proxying(game_api) as proxy:
            with proxy.tunnel() as tunnel:
                assert MEGABYTE // 2 < len(read_to_end(tunnel)) <= MEGABYTE
            assert proxy.connect_to("us.battle.net:443") == 429

    def test_uploads_are_limited(self, set_limits: SetLimits) -> None:
        set_limits(MAX_UPLOAD_BYTES=MEGABYTE)
        received = 0
        at_end = threading.Event()

        def count(connection: socket.socket) -> None:
            nonlocal received
            with suppress(ConnectionError):
                while data := connection.recv(65536):
                    received += len(data)
            at_end.set()

        with serving(count) as game_api, proxying(game_api) as proxy:
            with proxy.tunnel() as tunnel, suppress(ConnectionError):
                send_forever(tunnel)
                read_to_end(tunnel)
            assert proxy.connect_to("us.battle.net:443") == 429
            assert at_end.wait(20)
        assert MEGABYTE // 2 < received <= MEGABYTE

    def test_byte_limits_apply_to_all_tunnels_together(self, set_limits: SetLimits) -> None:
        set_limits(MAX_DOWNLOAD_BYTES=MEGABYTE)

        def send_after_a_byte(connection: socket.socket) -> None:
            connection.recv(1)
            send_forever(connection)

        with serving(send_after_a_byte) as game_api, proxying(game_api) as proxy, ExitStack() as opened:
            tunnels = [opened.enter_context(proxy.tunnel()) for _ in range(4)]
            for tunnel in tunnels:
                tunnel.sendall(b".")
            assert sum(len(read_to_end(tunnel)) for tunnel in tunnels) <= MEGABYTE

    def test_small_reads_count_as_a_minimum_size(self, proxy: ProxyClient, set_limits: SetLimits) -> None:
        set_limits(MIN_COUNTED_BYTES=MEGABYTE)
        with proxy.tunnel() as tunnel, suppress(ConnectionError):
            echoed = 0
            for _ in range(20):
                tunnel.sendall(b".")
                echoed += len(tunnel.recv(1))
        # The request's head used one of the eight megabytes.
        assert echoed == 7
