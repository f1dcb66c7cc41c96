"""The content of the image: its packages and files, its processes, and the proxy in front of them.

There is no container here. bubblewrap gives each process a read-only file system with the same writable folders.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import requests
from django.conf import settings
from psycopg.sql import SQL, Identifier

from jobs.management.commands.seedlocal import DEMO, MINISIM, MINISIM_READS
from localstack.redis_server import free_port
from tests.caddy import proxy
from tests.environments import make_environment
from tests.stack import QUICK
from tests.web_server import wait_until_listening

ROOT = Path(settings.BASE_DIR)
OPEN_ACCOUNT = """
from jobs.management.commands.seedlocal import ensure_account, ensure_credits
ensure_credits(ensure_account())
"""
pytestmark = [
    pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed"),
    pytest.mark.xdist_group("image"),
    pytest.mark.timeout(300),  # the packages are downloaded
]


@dataclass(frozen=True)
class Image:
    """The files of the image in a folder, and the settings of its processes."""

    folder: Path
    variables: dict[str, str]

    def command(self, *arguments: str) -> list[str]:
        """Return the command that runs the entrypoint on a read-only file system."""
        data, temporary = self.variables["DATA_DIR"], self.variables["TMPDIR"]
        binds = [
            "--ro-bind",
            "/",
            "/",
            "--dev-bind",
            "/dev",
            "/dev",
            "--bind",
            "/proc",
            "/proc",
            "--bind",
            data,
            data,
        ]
        binds += ["--bind", temporary, temporary, "--die-with-parent"]
        return ["bwrap", *binds, str(self.folder / "app" / "deploy" / "entrypoint"), *arguments]

    def run(self, *arguments: str) -> str:
        """Run a command to its end and return its output."""
        done = subprocess.run(
            self.command(*arguments), env=self.variables, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def process(self, name: str, **changes: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Run a process during a block. It must end with status 0 when it is asked to stop."""
        log = self.folder / f"{name}-{free_port()}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                self.command(name), env=self.variables | changes, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                stop(process)
        assert process.returncode in (0, -signal.SIGKILL), log.read_text()


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Send SIGTERM to the process below bubblewrap, as a container's runtime does, and wait for the end."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGTERM)
    process.wait(60)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """What the Dockerfile copies and installs, with an empty database."""
    folder = tmp_path_factory.mktemp("image")
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    for sources, target in re.findall(r"^COPY (?!--from)(.+) /app/(\S*)$", dockerfile, re.MULTILINE):
        for source in sources.split():
            copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
            (folder / "app" / target).parent.mkdir(parents=True, exist_ok=True)
            destination = folder / "app" / target
            if (ROOT / source).is_file():
                destination.mkdir(parents=True, exist_ok=True)
            copy(ROOT / source, destination)
    environment = folder / "app" / ".venv"
    lock = str(ROOT / "deploy" / "requirements.lock")
    make_environment(environment, "--require-hashes", "--only-binary=:all:", "--requirement", lock)
    (folder / "data").mkdir()
    (folder / "tmp").mkdir()
    with database() as url:
        variables = {
            "PATH": f"{environment / 'bin'}:/usr/bin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1",
            "SECRET_KEY": "for tests only",
            "DATABASE_URL": url,
            "REDIS_URL": os.environ["REDIS_URL"],
            "DATA_DIR": str(folder / "data"),
            "STATIC_ROOT": str(folder / "app" / "staticfiles"),
            "TMPDIR": str(folder / "tmp"),
            "SANDBOX": "auto",
            "TRUSTED_PROXIES": "1",
            "SSL_REDIRECT": "true",
            "PUBLIC_BASE_URL": "https://localhost",
        }
        image = Image(folder, variables)
        # Outside bubblewrap, so that the modules are compiled, as in the image.
        python, compiling = str(environment / "bin" / "python"), variables | {"PYTHONDONTWRITEBYTECODE": ""}
        for command in ("collectstatic", "migrate"):
            done = [python, "manage.py", command, "--no-input", "--verbosity", "0"]
            subprocess.run(done, cwd=folder / "app", env=compiling, check=True)
        yield image


@contextmanager
def database() -> Iterator[str]:
    """Create a database for a block and return its URL."""
    server, name = os.environ["DATABASE_URL"], f"image_{free_port()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        try:
            yield urlsplit(server)._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


@pytest.fixture
def behind_the_proxy(image: Image) -> Iterator[tuple[str, list["subprocess.Popen[bytes]"]]]:
    """The address of the proxy with two `web` processes behind it, and these processes."""
    with ExitStack() as opened:
        ports = [free_port(), free_port()]
        webs = [opened.enter_context(image.process("web", PORT=str(port))) for port in ports]
        for port, web in zip(ports, webs, strict=True):
            wait_until_listening(port, web)
        yield f"https://localhost:{opened.enter_context(proxy(image.folder, ports))}", webs


@pytest.fixture
def session(image: Image) -> Iterator[requests.Session]:
    """A session that trusts the proxy's own authority."""
    with requests.Session() as session:
        session.trust_env = False
        session.verify = str(image.folder / "caddy" / "caddy" / "pki" / "authorities" / "local" / "root.crt")
        yield session


def test_the_image_lacks_the_local_stack(image: Image) -> None:
    installed = {path.name for path in (image.folder / "app").iterdir()}
    assert installed >= {"manage.py", "Procfile", "simservice", "deploy"}
    assert not installed & {"localstack", "minisim", "tests", "bench", "sdk", ".git"}


def test_pages_and_files_are_served(behind_the_proxy: tuple[str, object], session: requests.Session) -> None:
    address, _ = behind_the_proxy
    for path in (
        "/",
        "/docs",
        "/docs/guides/tutorial",
        "/accounts/login/",
        "/static/css/site.css",
        "/v1/openapi.json",
    ):
        assert session.get(address + path, timeout=10).status_code == 200, path
    stylesheet = re.findall(r'href="(/static/css/site\.[0-9a-f]{12}\.css)"', session.get(address).text)[0]
    assert session.get(address + stylesheet, timeout=10).headers["Content-Encoding"] == "gzip"
    for path in ("/metrics", "/readyz"):
        assert session.get(address + path, timeout=10).status_code == 404


def test_no_request_fails_while_a_web_process_is_killed(
    behind_the_proxy: tuple[str, list["subprocess.Popen[bytes]"]], session: requests.Session
) -> None:
    address, (_, killed) = behind_the_proxy
    statuses = []
    for number in range(60):
        if number == 20:
            killed.kill()
        statuses.append(session.get(f"{address}/healthz", timeout=10).status_code)
    assert statuses == [200] * 60


def test_a_job_runs_from_the_proxy_to_the_result(
    image: Image, behind_the_proxy: tuple[str, object], session: requests.Session
) -> None:
    address, _ = behind_the_proxy
    image.run("python", "manage.py", "shell", "--command", OPEN_ACCOUNT)
    key = image.run("python", "manage.py", "createkey", DEMO).strip()
    # The image has no simulator: operators register builds outside it.
    readable = [f"--readable={path}" for path in MINISIM_READS]
    origin = ["--branch=midnight", "--commit=minisim"]
    image.run("python", "manage.py", "registerbuild", str(MINISIM), *origin, *readable)
    with ExitStack() as running:
        for kind in ("sim", "webhooks", "control", "beat"):
            running.enter_context(image.process(kind))
        headers = {"Authorization": f"Bearer {key}"}
        body = {"build": {"channel": "latest"}, "profile": {"text": QUICK}}
        answer = session.post(f"{address}/v1/sim/jobs", json=body, headers=headers, timeout=10)
        assert answer.status_code == 200, answer.text
        status = f"{address}/v1/sim/jobs/{answer.json()['id']}/status?wait=20"
        deadline = time.monotonic() + 60
        while (job := session.get(status, headers=headers, timeout=30).json())["status"] != "completed":
            assert time.monotonic() < deadline, job
    findings = image.run("python", "manage.py", "doctor", "--skip", "certificate", "--skip", "disk")
    assert "failure" not in findings


def test_wrong_settings_end_a_process_at_once(image: Image) -> None:
    done = subprocess.run(
        image.command("web"), env=image.variables | {"REDIS_URL": ""}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "- REDIS_URL is not set." in done.stderr


def test_the_entrypoint_explains_itself(image: Image) -> None:
    done = subprocess.run(image.command(), env=image.variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.split(":")[0]) == (2, "usage")
