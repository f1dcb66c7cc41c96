"""The guide of the Discord bot, followed with a server that plays Discord."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import requests
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from localstack.redis_server import free_port
from tests.docs.guide_runs import follow, shell_in
from tests.docs.test_guides import in_checkout
from tests.stack import QUICK, Stack

pytestmark = [pytest.mark.xdist_group("api"), pytest.mark.timeout(300)]
KEY = Ed25519PrivateKey.generate()
PROFILE = QUICK + 'profileset."Better staff"+=main_hand=staff,id=1,ilevel=700\n'


class Discord(BaseHTTPRequestHandler):
    """Serves the attachment and records all other requests."""

    requests: "Queue[tuple[str, str, Any]]"

    def do_GET(self) -> None:
        self.reply(PROFILE.encode())

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.put((self.command, self.path, body))
        self.reply(b"{}")

    def do_PATCH(self) -> None:
        self.do_PUT()

    def reply(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Log nothing."""


@contextmanager
def discord() -> Iterator[tuple[str, "Queue[tuple[str, str, Any]]"]]:
    """Run the server; yield its address and the requests that it gets."""
    received: Queue[tuple[str, str, Any]] = Queue()
    handler = type("Handler", (Discord,), {"requests": received})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()


def send(bot: str, interaction: object, *, key: Ed25519PrivateKey = KEY) -> requests.Response:
    """Send an interaction as Discord does."""
    body, timestamp = json.dumps(interaction).encode(), "1700000000"
    headers = {"X-Signature-Timestamp": timestamp, "X-Signature-Ed25519": key.sign(timestamp.encode() + body).hex()}
    return requests.post(bot, data=body, headers=headers, timeout=10)


def command(address: str, *, size: int = len(PROFILE)) -> dict[str, Any]:
    """Return the interaction of `/sim` with an attached profile."""
    attachment = {"id": "5", "url": f"{address}/profile.simc", "size": size}
    return {
        "type": 2,
        "application_id": "77",
        "token": "a-token",
        "member": {"user": {"id": "8"}},
        "data": {"name": "sim", "resolved": {"attachments": {"5": attachment}}},
    }


def test_the_bot_answers_with_a_ranking(stack: Stack, values: dict[str, str], tmp_path: Path) -> None:
    port = free_port()
    with discord() as (address, received), shell_in(tmp_path, in_checkout(stack)) as shell:
        own = {
            "https://discord.com/api/v10": address,
            "your-application-id": "77",
            "your-public-key": KEY.public_key().public_bytes_raw().hex(),
            "8080": str(port),
        }
        follow("how-to/discord-bot", shell, values | own)
        assert received.get(timeout=60)[:2] == ("PUT", "/applications/77/commands")
        bot = f"http://127.0.0.1:{port}"
        assert send(bot, {"type": 1}).json() == {"type": 1}
        assert send(bot, {"type": 1}, key=Ed25519PrivateKey.generate()).status_code == 401
        assert send(bot, command(address)).json() == {"type": 5}
        method, path, answer = received.get(timeout=120)
        assert (method, path) == ("PATCH", "/webhooks/77/a-token/messages/@original")
        first, ranked, share = answer["content"].splitlines()
        assert first.startswith("**Quick**: ")
        assert ranked.startswith("1. Better staff: ")
        assert requests.get(share, timeout=10).ok
        assert send(bot, command(address, size=3_000_000)).ok
        assert received.get(timeout=60)[2]["content"] == "The file is larger than 2 MB."
