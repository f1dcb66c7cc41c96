"""The whole local stack: servers, a migrated and seeded database, and the Procfile's processes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests
from honcho.environ import parse_procfile

from localstack.console import LocalStackError, tail, tell
from localstack.folder import DataFolder
from localstack.postgres import start_postgres
from localstack.redis_server import start_redis
from localstack.supervisor import Program, Supervisor, shell

CHECKOUT = Path(__file__).resolve().parents[1]
READY_SECONDS = 60.0
HOST = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A stack that serves: what its user needs to know, and the supervisor that keeps it running."""

    supervisor: Supervisor
    url: str
    api_key: str
    user: str
    password: str
    database_url: str
    redis_url: str


@contextmanager
def running(folder: DataFolder, *, port: int) -> Iterator[Stack]:
    """Brings up a stack on `folder` and `port`, and ends all of it with the block.

    Raises LocalStackError, with nothing left running, when it cannot be brought up.
    """
    with folder.locked():
        check_port(port)
        supervisor = Supervisor(adopt_orphans=True)
        try:
            yield _bring_up(supervisor, folder, port=port)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            tell("Stopping")
            supervisor.stop()


def check_port(port: int) -> None:
    """Raises LocalStackError when something listens on `port` already."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            raise LocalStackError(
                f"Port {port} cannot be used ({error.strerror}): choose another with --port, 0 for a free one."
            ) from error


def _bring_up(supervisor: Supervisor, folder: DataFolder, *, port: int) -> Stack:
    secrets = folder.secrets()
    settings = _start_servers(supervisor, folder, secrets)
    settings |= _settings(folder, port=port, secret_key=secrets["secretKey"])
    folder.keep_environment(settings)
    _tell_what_is_waived(settings)
    environment = _program_environment(settings)
    tell("Migrating the database")
    _manage("migrate", "--noinput", environment=environment)
    tell("Seeding the demo account and the built-in simulator")
    demo = _seed(secrets.get("demo", {}), environment=environment)
    lacks = demo.pop("sandboxLacks")
    if lacks:
        tell(f"The sandbox of simulators lacks: {lacks} (SANDBOX={settings['SANDBOX']}, see docs/security.md)")
    folder.keep_secrets(secrets | {"demo": demo})
    tell("Starting the web server and the workers")
    _start_processes(supervisor, folder, environment=environment)
    _wait_until_ready(supervisor, f"http://{HOST}:{port}/readyz", logs=folder.path / "logs")
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
    """Return where the database and Redis are: the environment's if it names them, else ours, started here."""
    database_url, redis_url = os.environ.get("DATABASE_URL"), os.environ.get("REDIS_URL")
    if not database_url:
        tell("Starting PostgreSQL")
        database_url = start_postgres(
            supervisor, folder.path / "postgres", log=folder.log("postgres"), password=secrets["databasePassword"]
        )
    if not redis_url:
        tell("Starting Redis")
        redis_url = start_redis(
            supervisor, folder.path / "redis", log=folder.log("redis"), password=secrets["redisPassword"]
        )
    return {"DATABASE_URL": database_url, "REDIS_URL": redis_url}


def _settings(folder: DataFolder, *, port: int, secret_key: str) -> dict[str, str]:
    """The service's other settings: what the environment says comes before what a local stack needs."""
    defaults = {
        "SECRET_KEY": secret_key,
        "DATA_DIR": str(folder.files),
        "PUBLIC_BASE_URL": f"http://{HOST}:{port}",
        "ALLOWED_HOSTS": f"{HOST},localhost",
        "SECURE_COOKIES": "false",  # it serves plain HTTP
        "EMAIL_URL": "consolemail://",  # the web server's log is its owner's own
        "SANDBOX": "auto",  # a laptop may lack some layers; what it lacks is printed
        "ADMIN_REQUIRES_MFA": "false",  # its one operator has just been made
        "STOP_SECONDS": "3",  # who stops it waits at a terminal
    }
    return {name: os.environ.get(name) or value for name, value in defaults.items()} | {"PORT": str(port)}


def _tell_what_is_waived(settings: Mapping[str, str]) -> None:
    if settings["ADMIN_REQUIRES_MFA"] == "false":
        tell("The admin does not require a second factor here (ADMIN_REQUIRES_MFA=false)")


def _program_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of our own programs, which come from the interpreter's folder before any other."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {**os.environ, **settings, "PATH": path, "PYTHONUNBUFFERED": "1"}


def _manage(*arguments: str, environment: Mapping[str, str], given: str = "") -> str:
    """Runs a manage.py command with `given` on its stdin and returns its stdout.

    Raises LocalStackError, with the end of its output, when it fails.
    """
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=CHECKOUT,
        env=dict(environment),
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LocalStackError(f"`manage.py {arguments[0]}` failed:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def _seed(kept: Mapping[str, str], *, environment: Mapping[str, str]) -> dict[str, str]:
    """The demo account, user and key: those an earlier start kept, as far as they still serve."""
    answer = _manage("seedlocal", environment=environment, given=json.dumps(kept))
    seeded: dict[str, str] = json.loads(answer.splitlines()[-1])
    return seeded


def _start_processes(supervisor: Supervisor, folder: DataFolder, *, environment: Mapping[str, str]) -> None:
    procfile = parse_procfile((CHECKOUT / "Procfile").read_text())
    for name, line in procfile.processes.items():
        supervisor.start(
            Program(
                name=name,
                command=shell(line),
                folder=CHECKOUT,
                log=folder.log(name),
                environment=environment,
            )
        )


def _wait_until_ready(supervisor: Supervisor, url: str, *, logs: Path) -> None:
    """Returns when the service says that the database, Redis and a worker answer.

    Raises LocalStackError, with the end of every log, when that takes longer than READY_SECONDS.
    """
    deadline = time.monotonic() + READY_SECONDS
    http = local_http()
    while not _is_ready(http, url):
        if time.monotonic() > deadline:
            tails = "\n".join(tail(log) for log in sorted(logs.glob("*.log")))
            raise LocalStackError(f"The service was not ready after {READY_SECONDS:.0f} s.\n{tails}")
        supervisor.watch(0.1)


def _is_ready(http: requests.Session, url: str) -> bool:
    try:
        return http.get(url, timeout=5).ok
    except requests.RequestException:
        return False


def local_http() -> requests.Session:
    """A session that talks to this machine itself, whatever proxy the environment names."""
    session = requests.Session()
    session.trust_env = False
    return session
