"""The proxy of `deploy/Caddyfile`, in front of web processes of a test."""

import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.conf import settings

from localstack.redis_server import free_port
from tests.waiting import wait_until
from tests.web_server import wait_until_listening

CADDY = Path(sys.executable).with_name("caddy")


@contextmanager
def proxy(folder: Path, ports: list[int], *, with_tls: bool = True) -> Iterator[int]:
    """Run the proxy of compose.yaml in front of some ports, with its own certificate authority; yield its port."""
    port = free_port()
    text = (settings.BASE_DIR / "deploy" / "Caddyfile").read_text()
    upstreams = "to " + " ".join(f"127.0.0.1:{each}" for each in ports)
    text, count = re.subn(r"dynamic a \{.*?\}", upstreams, text, count=1, flags=re.DOTALL)
    assert count == 1
    site = f"https://localhost:{port} {{\n\ttls internal" if with_tls else f"http://localhost:{port} {{"
    text = text.replace("{$DOMAIN} {", site)
    text = text.replace("email {$ACME_EMAIL}", "admin off\n\tauto_https disable_redirects\n\tskip_install_trust")
    (folder / "Caddyfile").write_text(text)
    home = folder / "caddy"
    home.mkdir(exist_ok=True)
    environment = os.environ | {"HOME": str(home), "XDG_DATA_HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    command = [str(CADDY), "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    with (folder / "caddy.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        wait_until_listening(port, process)
        if with_tls:
            wait_for_certificate(port)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def wait_for_certificate(port: int) -> None:
    """Wait until the proxy has its certificate, which it requests after it listens."""

    def has_certificate() -> bool:
        with suppress(ssl.SSLError):
            return bool(ssl.get_server_certificate(("localhost", port), timeout=5))
        return False

    wait_until(has_certificate)
