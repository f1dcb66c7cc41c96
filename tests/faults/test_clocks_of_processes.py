"""Each kind of process with a wrong clock: jobs run, bills are right, nothing is deleted, and `/readyz` fails."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from django.conf import settings as django_settings
from django.db import connection
from honcho.environ import parse_procfile
from pytest_django import Settings

from billing.ledger import available
from clients.audit import SYSTEM
from clients.keys import create_key
from jobs.models import Artifact, Build, Job, JobProfile
from localstack.redis_server import free_port
from localstack.supervisor import shell
from simservice.celery import app
from tests.factories import make_account, make_client
from tests.faults.clocks import COMPILER, DAY, SHIFTS, build_library, shifted
from tests.waiting import wait_until
from tests.webhooks.receivers import Receiver
from webhooks import endpoints
from webhooks.models import Endpoint, Event

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not COMPILER, reason="needs a C compiler"),
    pytest.mark.timeout(240),
]
POSTGRESQLS = "that of PostgreSQL"
DELETIONS = ("jobs.tasks.clear_expired", "privacy.tasks.delete_data", "webhooks.tasks.maintain")
KINDS = ("web", "sim", "webhooks", "control", "beat")
BODY = {
    "build": {"channel": "latest"},
    "profile": {"text": 'mage="A"\niterations=20\n'},
    "webhook": {"events": ["job.terminal"]},
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("clock"))


@contextmanager
def running(folder: Path, port: int, variables: dict[str, dict[str, str]]) -> Iterator[None]:
    """Run the processes of the Procfile on the test's database, each with variables of its own."""
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    common = os.environ | {"DATABASE_URL": url, "PATH": path, "PORT": str(port), "SANDBOX": "auto"}
    lines = parse_procfile((django_settings.BASE_DIR / "Procfile").read_text()).processes
    with ExitStack() as running:
        for kind in KINDS:
            log = running.enter_context((folder / f"{kind}.log").open("wb"))
            environment = common | {"DATA_DIR": str(django_settings.DATA_DIR)} | variables[kind]
            process = subprocess.Popen(
                shell(lines[kind]), cwd=django_settings.BASE_DIR, env=environment, stdout=log, stderr=log
            )
            running.callback(process.wait, 30)
            running.callback(process.terminate)
        yield


def is_ready(port: int) -> bool:
    """Return whether web, a simulation worker and the schedule work, even with a wrong clock."""
    try:
        state: dict[str, Any] = requests.get(f"http://127.0.0.1:{port}/readyz", timeout=10).json()
    except requests.RequestException:
        return False
    return bool(state["database"] and state["worker"])


@pytest.mark.parametrize("first", range(len(SHIFTS)))
def test_wrong_clocks_change_nothing(
    library: Path, first: int, minisim: Build, receiver: Receiver, settings: Settings, tmp_path: Path
) -> None:
    """In four runs, each kind of process has each of the four clocks."""
    shifts = {kind: SHIFTS[(first + number) % len(SHIFTS)] for number, kind in enumerate(KINDS)}
    settings.WEBHOOK_ALLOWED_ADDRESSES = [receiver.address]
    client = make_client(make_account(credits=100_000))
    endpoints.install(client, receiver.url(), by=SYSTEM)
    _, secret = create_key(client, by=SYSTEM)
    port = free_port()
    variables = {kind: receiver.settings() | shifted(library, shift) for kind, shift in shifts.items()}
    with running(tmp_path, port, variables):
        wait_until(lambda: is_ready(port), seconds=60)
        headers = {"Authorization": f"Bearer {secret}"}
        answer = requests.post(f"http://127.0.0.1:{port}/v1/sim/jobs", json=BODY, headers=headers, timeout=30)
        assert answer.status_code == 200, answer.text
        wait_until(lambda: Job.objects.filter(completed_at__isnull=False).exists(), seconds=60)
        # The attempt can fail: with a clock that is 40 days wrong, the receiver's certificate is not valid.
        wait_until(lambda: Event.objects.filter(deliveries__isnull=False).exists(), seconds=60)
        for task in DELETIONS:
            app.send_task(task)
        wait_until(lambda: POSTGRESQLS in (tmp_path / "control.log").read_text(), seconds=60)
        ready = requests.get(f"http://127.0.0.1:{port}/readyz", timeout=10).json()
        assert (ready["clock"], ready["worker"]) == (False, True)
    job = Job.objects.get()
    assert (job.status, job.attempt) == ("completed", 1)
    assert 100_000 - available(job.account) == job.credits_consumed
    assert JobProfile.objects.filter(pk=job.pk).exists()
    assert Artifact.objects.filter(job=job).exists()
    assert not Endpoint.objects.filter(secret="").exists()
    assert abs(shifts["webhooks"]) == 40 * DAY or Event.objects.get().state == Event.State.DELIVERED
    for kind in ("web", "sim", "control"):
        assert "This machine's clock is" in (tmp_path / f"{kind}.log").read_text()
