"""A wrong clock deletes nothing: the database's clock decides, and a process whose clock is wrong waits."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection
from django.db.models import Model
from django.utils import timezone
from pytest_django import Settings

from clients import form_tokens, invitations
from clients.audit import SYSTEM
from clients.models import Invitation, SentForm
from jobs.artifacts import artifact_files, retention
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Build, JobProfile
from privacy import accounts
from privacy.models import AccountDeletion, Export
from tests.factories import (
    BuildFactory,
    make_account,
    make_client,
    make_event,
    make_export,
    make_invitation,
    make_running_job,
)
from tests.faults.clocks import COMPILER, HOUR, SHIFTS, build_library, shifted
from webhooks import endpoints, retries
from webhooks.models import Endpoint, Event

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not COMPILER, reason="needs a C compiler"),
]
NEAR = timedelta(minutes=30)
RETENTION = timedelta(days=30)
USE_FORM_TOKEN = "from clients import form_tokens as f; f.use(f.issue(1, 'x'), 1, 'x')"
UNREACHABLE = "127.0.0.1:1"
DELIVER = "from webhooks.tasks import deliver; deliver()"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("clock"))


def run_shifted(library: Path, shift: int, *arguments: str) -> str:
    """Run Python with a shifted clock on the test's database. Return what it printed."""
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    environment = os.environ | {"DATABASE_URL": url, "DATA_DIR": str(settings.DATA_DIR)} | shifted(library, shift)
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=environment, cwd=settings.BASE_DIR, stdout=subprocess.PIPE, check=True, text=True
    ).stdout


def run_deletions(library: Path, shift: int, *arguments: str) -> datetime:
    """Run all periodic deletions in a process with a shifted clock; return its time."""
    return datetime.fromisoformat(
        run_shifted(library, shift, "-m", "tests.faults.deletions", *arguments).split()[-1]
    )


def run_code(library: Path, shift: int, code: str) -> None:
    """Run Django code in a process with a shifted clock."""
    run_shifted(library, shift, "-c", f"import django; django.setup()\n{code}")


def make_job_of_age(age: timedelta) -> Model:
    job = make_running_job()
    artifact_files.store(job, Artifact.Kind.INPUT, io.BytesIO(b"x")).save(force_insert=True)
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, sim_duration_ms=1, summary={"mainActor": None}))
    type(job).objects.filter(pk=job.pk).update(created_at=timezone.now() - age)
    return JobProfile.objects.get(pk=job.pk)


def make_old_invitation(age: timedelta) -> Model:
    invitation, _ = make_invitation()
    Invitation.objects.filter(pk=invitation.pk).update(expires_at=timezone.now() - age)
    return invitation


def make_old_export(age: timedelta) -> Model:
    export = make_export(make_account())
    default_storage.save(export.file_name, ContentFile(b"x"))
    Export.objects.filter(pk=export.pk).update(expires_at=timezone.now() - age)
    return export


def make_account_in_deletion(age: timedelta) -> Model:
    client = make_client(make_account())
    deletion = accounts.request(client.account, by=SYSTEM)
    AccountDeletion.objects.filter(pk=deletion.pk).update(due_at=timezone.now() - age)
    return make_event(client, state=Event.State.DELIVERED, next_attempt_at=None, ended_at=timezone.now())


def make_session(age: timedelta) -> Model:
    return Session.objects.create(pk=str(timezone.now()), session_data="x", expire_date=timezone.now() - age)


def make_old_event(age: timedelta) -> Model:
    fields = {"state": Event.State.DELIVERED, "next_attempt_at": None, "ended_at": timezone.now()}
    return make_event(make_client(make_account()), created_at=timezone.now() - age, **fields)


# Each kind: how to make an object of an age, and the age at which it is deleted.
KINDS: dict[str, tuple[Callable[[timedelta], Model], timedelta]] = {
    "the profile of a job": (make_job_of_age, RETENTION + retention.GRACE),
    "an invitation": (make_old_invitation, invitations.KEPT_AFTER_EXPIRY),
    "an export": (make_old_export, timedelta(0)),
    "a webhook event": (make_old_event, RETENTION),
    "the data of an account": (make_account_in_deletion, timedelta(0)),
    "a session": (make_session, timedelta(0)),
}


def exists(instance: Model) -> bool:
    return type(instance)._base_manager.filter(pk=instance.pk).exists()


def make_all(distance: timedelta) -> dict[str, Model]:
    """Make an object of each kind, older than its limit by `distance`."""
    return {kind: make(limit + distance) for kind, (make, limit) in KINDS.items()}


def still_there(objects: dict[str, Model]) -> set[str]:
    return {kind for kind, instance in objects.items() if exists(instance)}


@pytest.mark.parametrize("shift", SHIFTS)
def test_the_databases_clock_decides_what_is_deleted(library: Path, shift: int) -> None:
    young, due = make_all(-NEAR), make_all(NEAR)
    now = run_deletions(library, shift, "unguarded")
    assert abs((now - datetime.now(UTC)).total_seconds() - shift) < HOUR / 2
    assert still_there(young) == set(KINDS)
    assert still_there(due) == set()


@pytest.mark.parametrize("shift", [0, *SHIFTS])
def test_a_process_with_a_wrong_clock_deletes_nothing(library: Path, shift: int) -> None:
    due = make_all(NEAR)
    run_deletions(library, shift)
    assert still_there(due) == (set(KINDS) if shift else set())


@pytest.mark.parametrize("shift", SHIFTS)
def test_a_build_is_withdrawn_by_the_databases_clock(library: Path, shift: int) -> None:
    limit = timedelta(days=settings.BUILD_RETENTION_DAYS)
    BuildFactory.create(created_at=timezone.now() - timedelta(days=9 * 365))
    young, due = (BuildFactory.create(created_at=timezone.now() - limit - near) for near in (-NEAR, NEAR))
    BuildFactory.create()
    run_deletions(library, shift, "unguarded")
    assert set(Build.objects.filter(withdrawn_at=None, pk__in=[young.pk, due.pk])) == {young}


@pytest.mark.parametrize("shift", SHIFTS)
def test_used_form_tokens_are_forgotten_by_the_databases_clock(library: Path, shift: int) -> None:
    limit = 2 * form_tokens.LIFETIME
    for token, age in (("young", limit - NEAR), ("due", limit + NEAR)):
        SentForm.objects.create(token=token, sent_at=timezone.now() - age)
    run_code(library, shift, USE_FORM_TOKEN)
    assert set(SentForm.objects.filter(token__in=["young", "due"]).values_list("token", flat=True)) == {"young"}


@pytest.mark.parametrize("shift", SHIFTS)
def test_failures_disable_a_webhook_by_the_databases_clock(
    library: Path, shift: int, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After five days by the database's clock, not the worker's."""
    settings.WEBHOOK_ALLOWED_ADDRESSES = [UNREACHABLE]
    monkeypatch.setenv("WEBHOOK_ALLOWED_ADDRESSES", UNREACHABLE)
    clients = [make_client(make_account()) for _ in range(2)]
    for client, near in zip(clients, (-NEAR, NEAR), strict=True):
        endpoints.install(client, f"https://{UNREACHABLE}/", by=SYSTEM)
        Endpoint.objects.filter(pk=client.pk).update(failing_since=timezone.now() - retries.DISABLED_AFTER - near)
        make_event(client)
    run_code(library, shift, DELIVER)
    assert list(Endpoint.objects.exclude(secret="").values_list("pk", flat=True)) == [clients[0].pk]
