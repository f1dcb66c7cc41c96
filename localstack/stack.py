"""The local stack: PostgreSQL, Redis, a migrated database with a demo account, and the Procfile's processes."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests
from honcho.environ import parse_procfile

from localstack.console import InvalidSettings, LocalStackError, print_message
from localstack.folder import DataFolder
from localstack.postgres import start_postgres
from localstack.redis_server import start_redis
from localstack.supervisor import Program, Supervisor, shell, shell_with_socket

CHECKOUT = Path(__file__).resolve().parents[1]
READY_SECONDS = 60.0
HOST = "127.0.0.1"
PLACEHOLDERS = {"DATABASE_URL": "postgresql:///any", "REDIS_URL": "redis://any"}


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A running stack: its addresses and credentials, and the supervisor of its processes."""

    supervisor: Supervisor
    url: str
    api_key: str
    user: str
    password: str
    database_url: str
    redis_url: str


@contextmanager
def running(folder: DataFolder, *, port: int) -> Iterator[Stack]:
    """Start a stack on `folder` and `port`; stop it at the end of the block.

    Raises LocalStackError if it cannot be started. No process is left running.
    """
    with folder.locked(), _listen(port) as listener:
        port = listener.getsockname()[1]
        _check_settings(_settings(folder, port=port, secret_key=folder.secrets()["secretKey"]))
        supervisor = Supervisor(adopt_orphans=True)
        try:
            yield _start(supervisor, folder, listener)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            print_message("Stopping…")
            supervisor.stop()


def _listen(port: int) -> socket.socket:
    """Listen on `port`; 0 selects a free one. Raises LocalStackError if another program uses it.

    The web server takes over this socket, so no other program can receive the demo account's key.
    """
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise LocalStackError(
            f"Port {port} cannot be used: {error.strerror}. Choose another with --port; 0 selects a free port."
        ) from error


def _check_settings(settings: Mapping[str, str]) -> None:
    """Raise InvalidSettings if the service would not start with these settings and those of the environment."""
    # Addresses of servers that are not started yet
    servers = {name: os.environ.get(name) or url for name, url in PLACEHOLDERS.items()}
    done = _python("-c", "import simservice.settings", environment=_program_environment({**settings, **servers}))
    if done.returncode:
        raise InvalidSettings(done.stderr.strip())


def _start(supervisor: Supervisor, folder: DataFolder, listener: socket.socket) -> Stack:
    secrets, port = folder.secrets(), listener.getsockname()[1]
    settings = _start_servers(supervisor, folder, secrets)
    settings |= _settings(folder, port=port, secret_key=secrets["secretKey"])
    folder.save_environment(settings)
    if settings["ADMIN_REQUIRES_MFA"] == "false":
        print_message("The admin does not require a second factor here (ADMIN_REQUIRES_MFA=false).")
    environment = _program_environment(settings)
    print_message("Migrating the database, and creating the demo account with the built-in simulator…")
    # One process for everything: a second one would need a second more to start.
    stored = json.dumps(secrets.get("demo", {}))
    done = _python("manage.py", "seedlocal", "--prepare", environment=environment, stdin=stored)
    if done.returncode:
        raise LocalStackError(f"`manage.py seedlocal` failed:\n{(done.stdout + done.stderr)[-4000:]}")
    demo: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    missing = demo.pop("sandboxLacks")
    if missing:
        print_message(f"Sandbox layers not available here: {missing}. See docs/explanation/security.md.")
    folder.save_secrets(secrets | {"demo": demo})
    print_message("Starting the web server and the workers…")
    _start_processes(supervisor, folder, listener, environment=environment)
    http = local_http()
    supervisor.wait_for(
        "The service",
        lambda: http.get(f"http://{HOST}:{port}/readyz", timeout=5).raise_for_status(),
        not_yet=requests.RequestException,
        seconds=READY_SECONDS,
        logs=lambda: sorted((folder.path / "logs").glob("*.log")),
    )
    return Stack(
        supervisor=supervisor,
        url=settings["PUBLIC_BASE_URL"].rstrip("/"),
        api_key=demo["apiKey"],
        user=demo["user"],
        password=demo["password"],
        database_url=settings["DATABASE_URL"],
        redis_url=settings["REDIS_URL"],
    )


def _start_servers(supervisor: Supervisor, folder: DataFolder, secrets: Mapping[str, str]) -> dict[str, str]:
    """Return the URLs of PostgreSQL and Redis. Start those that the environment does not name."""
    database_url, redis_url = os.environ.get("DATABASE_URL"), os.environ.get("REDIS_URL")
    if not database_url:
        print_message("Starting PostgreSQL…")
        database_url = start_postgres(
            supervisor, folder.path / "postgres", log=folder.log("postgres"), password=secrets["databasePassword"]
        )
    if not redis_url:
        print_message("Starting Redis…")
        redis_url = start_redis(
            supervisor, folder.path / "redis", log=folder.log("redis"), password=secrets["redisPassword"]
        )
    return {"DATABASE_URL": database_url, "REDIS_URL": redis_url}


def _settings(folder: DataFolder, *, port: int, secret_key: str) -> dict[str, str]:
    """Return the service's other settings. Variables of the environment override these defaults."""
    defaults = {
        "SECRET_KEY": secret_key,
        "DATA_DIR": str(folder.files),
        "STATIC_ROOT": str(folder.path / "static"),
        "PUBLIC_BASE_URL": f"http://{HOST}:{port}",
        "ALLOWED_HOSTS": f"{HOST},localhost",
        "SECURE_COOKIES": "false",  # the local stack uses plain HTTP
        "EMAIL_URL": "consolemail://",  # print mail to the log, which only its owner can read
        "SANDBOX": "auto",  # a laptop may lack some layers; the missing ones are printed
        "ADMIN_REQUIRES_MFA": "false",  # the demo user has no second factor
        "STOP_SECONDS": "3",  # a person waits at the terminal
    }
    return {name: os.environ.get(name) or value for name, value in defaults.items()} | {"PORT": str(port)}


def _program_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the service's programs, which are first searched in the interpreter's folder."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {**os.environ, **settings, "PATH": path, "PYTHONUNBUFFERED": "1"}


def _python(*arguments: str, environment: Mapping[str, str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=CHECKOUT,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def _start_processes(
    supervisor: Supervisor, folder: DataFolder, listener: socket.socket, *, environment: Mapping[str, str]
) -> None:
    procfile = parse_procfile((CHECKOUT / "Procfile").read_text())
    for name, line in procfile.processes.items():
        supervisor.start(
            Program(
                name=name,
                command=shell_with_socket(line, listener) if name == "web" else shell(line),
                descriptors=[listener.fileno()] if name == "web" else [],
                folder=CHECKOUT,
                log=folder.log(name),
                environment=environment,
            )
        )


def local_http() -> requests.Session:
    """Return an HTTP session that ignores proxies of the environment."""
    session = requests.Session()
    session.trust_env = False
    return session
