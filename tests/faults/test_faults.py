"""The service under faults: no job is lost, billed twice or written by a lost attempt, and no secret leaks."""

import io
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection

from clients.audit import SYSTEM
from jobs.artifacts import artifact_files, credentials
from jobs.enums import Status
from jobs.execution import shard_files
from jobs.lifecycle import cancellation, job_moves
from jobs.models import Artifact, Job, Run
from jobs.queue import sweep
from simservice.redis.client import redis
from tests.billing.ledger_state import LONG
from tests.factories import BuildFactory, make_account, make_job, make_key
from tests.faults import invariants, shard_audit, shard_violations
from tests.faults.fault_run import FaultPlan, FaultRun, Observations
from tests.faults.invariants import checked_pairs, orphans, simulators_left
from tests.faults.redis_server import RedisServer
from tests.faults.requests import BEYOND_CAP, OUTLASTING_PAUSES, WITH_REJECTED_SHARD, credentials_of
from tests.faults.secrets import Sampler, in_database, in_files, in_processes, in_redis, showing
from tests.faults.shard_audit import auditing
from tests.faults.stand_in import make_fast_stand_in
from tests.jobs.shards.sharded_jobs import claimed, end, make_stage, start

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

JOBS = int(os.environ.get("FAULT_JOBS", "2000" if LONG else "16"))
SEED = int(os.environ.get("FAULT_SEED", "1"))


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """A finished run and its secrets."""

    observed: Observations
    secrets: list[str]
    sampler: Sampler


@pytest.fixture
def _audit(transactional_db: None) -> Iterator[None]:
    """Record the changes of shards and runs."""
    with auditing():
        yield


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, _audit: None) -> Iterator[RedisServer]:
    """The Redis server of a run, which this process uses too."""
    folder = tmp_path / "redis"
    folder.mkdir()
    server = RedisServer(folder)
    monkeypatch.setattr(settings, "REDIS_URL", server.url)
    redis.cache_clear()
    yield server
    redis().close()
    redis.cache_clear()
    server.stop()


def run_plan(plan: FaultPlan, folder: Path, server: RedisServer) -> FinishedRun:
    """Run a plan with three accounts, which have 2, 3 and 4 parallel slots, and one fast simulator."""
    script = make_fast_stand_in(folder)
    BuildFactory.create(executable=str(script), readable_paths=[str(folder)])
    keys = [make_key(make_account(max_active_jobs=100_000, max_parallel_slots=slots)) for slots in (2, 3, 4)]
    pairs = [pair for number in range(plan.jobs) if (pair := credentials_of(plan.seed, number)) is not None]
    own = [secret for _, secret in keys]
    secrets = [*own, *(pair.client_id for pair in pairs), *(pair.client_secret for pair in pairs)]
    sampler = Sampler(secrets)
    key_ids = [key.pk for key, _ in keys]
    observed = FaultRun(plan, folder, keys=key_ids, server=server, watch=sampler.sample).run()
    assert simulators_left(script) == []
    return FinishedRun(observed=observed, secrets=secrets, sampler=sampler)


def violations(observed: Observations) -> list[str]:
    """Return all violations of a run."""
    return [*invariants.violations(observed), *shard_violations.violations(observed)]


def leaks(finished: FinishedRun, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the places that show a secret of a run or keep it too long."""
    monkeypatch.setattr(sweep, "SUBMITTED_WITHIN", timedelta(0))
    leftovers = sweep.forget_credentials()
    print(  # noqa: T201 - the figures of the proof
        f"{len(finished.secrets)} secrets, {finished.sampler.samples} samples of processes, "
        f"{leftovers} encrypted pairs left by crashes, {len(credentials.stored_job_ids())} after the sweep"
    )
    everywhere = [*places(folder)]
    problems = [f"the credentials of job {job_id} are kept" for job_id in credentials.stored_job_ids()]
    return [*sorted(finished.sampler.shown), *showing(finished.secrets, everywhere), *problems]


def places(logs: Path) -> Iterator[tuple[str, bytes]]:
    """Yield all data that a run leaves."""
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    yield from in_database(url)
    yield from in_redis(redis())
    yield from in_files(settings.DATA_DIR)
    yield from in_files(logs)
    yield from in_processes()


def report(observed: Observations) -> None:
    """Print the figures of a run."""
    retried = Job.objects.filter(attempt__gt=1).count()
    interrupted = Job.objects.filter(error_code="execution_interrupted").count()
    print(  # noqa: T201 - the figures of the proof
        f"seed {observed.plan.seed}: {len(observed.accepted)} jobs in {observed.seconds:.0f} s, "
        f"{sum(observed.injected.values())} faults, cancels {dict(observed.cancels)}, "
        f"pauses {dict(observed.pauses)}, "
        f"rejected {dict(observed.rejected)}, {retried} retried, {interrupted} lost three times, "
        f"{len(orphans())} orphaned files, {checked_pairs()} pairs of claims checked"
    )
    shard_figures()
    for (point, fault), count in sorted(observed.injected.items()):
        print(f"{count:5} {fault:9} {point}")  # noqa: T201


def shard_figures() -> None:
    """Print the figures of shards."""
    audit = shard_audit.read()
    updates = [(old, new) for history in audit.stages.values() for _, old, new in history.updates()]
    tries = sum(old["status"] == "waiting" for old, _ in updates)
    lost = sum(new["losses"] > old["losses"] for old, new in updates)
    jobs = Job.objects.filter(pk__in={history.stage["job_id"] for history in audit.stages.values()})
    ends = Counter(error_code or status for status, error_code in jobs.values_list("status", "error_code"))
    claims, pairs = shard_violations.checked_claims()
    print(  # noqa: T201 - the figures of the proof
        f"{len(jobs)} sharded jobs ({dict(ends)}), {len(audit.stages)} stages, "
        f"{sum(len(history.shards) for history in audit.stages.values())} shards, "
        f"{tries} tries, {lost} losses, {claims} claims by helpers, {pairs} pairs with waiting jobs checked, "
        f"{len(updates)} moves and renewals"
    )


@pytest.mark.timeout(7200 if LONG else 120)
def test_faults_lose_no_job_repeat_nothing_and_leak_no_secret(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = run_plan(FaultPlan(jobs=JOBS, seed=SEED), tmp_path, server)
    report(finished.observed)
    detected = violations(finished.observed)
    assert detected == [], "\n".join(detected)
    assert leaks(finished, tmp_path, monkeypatch) == []


@pytest.mark.usefixtures("_audit")
def test_the_invariants_detect_a_shard_without_a_run() -> None:
    stage = make_stage()
    shard = claimed(stage, worker="host:1:ab:1")
    run_id = start(stage, shard)
    assert run_id is not None
    assert end(shard, run_id)
    observed = Observations(plan=FaultPlan(jobs=1, seed=SEED))
    assert list(shard_violations.run_violations(shard_audit.read(), observed)) == []
    Run.objects.filter(pk=run_id).update(wall_ms=None)
    (text,) = shard_violations.run_violations(shard_audit.read(), observed)
    assert text.startswith("BILL: ")
    assert text.endswith("shard 1 try 1 ended without a run")


@pytest.mark.usefixtures("_audit")
@pytest.mark.parametrize("waits", [True, False])
def test_only_the_end_of_an_attempt_must_remove_the_files_of_shards(*, waits: bool) -> None:
    make_job()
    job = job_moves.claim_job("host:1:ab:0")
    assert job is not None
    assert job_moves.start_run(job, build=BuildFactory.create())
    stage = make_stage(Job.objects.get())
    shard = claimed(stage, worker="host:1:ab:1")
    run_id = start(stage, shard)
    assert run_id is not None
    assert end(shard, run_id)
    name = shard_files.name_of(stage, Artifact.Kind.STDOUT_LOG, number=shard.number, try_number=shard.try_number)
    default_storage.save(name, ContentFile(b"said"))
    job.refresh_from_db()
    if waits:
        job_moves.requeue(job, reason="shut down")
        cancellation.cancel(job, by=SYSTEM)
    else:
        outcome = job_moves.Outcome(status=Status.COMPLETED, sim_duration_ms=1, summary={"mainActor": None})
        job_moves.finish(job, outcome)
    assert Job.objects.get(pk=job.pk).sim_duration_ms
    observed = Observations(plan=FaultPlan(jobs=1, seed=SEED))
    found = list(shard_violations.leftover_violations(shard_audit.read(), observed))
    assert [text.partition(" is left")[0] for text in found] == ([] if waits else [f"ZOMBIE: {name}"])


def in_a_row(secret: str, folder: Path) -> None:
    make_job(metadata={"note": secret})


def in_a_key(secret: str, folder: Path) -> None:
    redis().rpush("log:1:1", f"said {secret}")


def in_a_log(secret: str, folder: Path) -> None:
    (folder / "worker-0.log").write_text(f"said {secret}\n")


def in_an_artifact(secret: str, folder: Path) -> None:
    artifact_files.store(make_job(), Artifact.Kind.STDOUT_LOG, io.BytesIO(f"said {secret}".encode()))


@pytest.mark.parametrize("plant", [in_a_row, in_a_key, in_a_log, in_an_artifact])
def test_the_search_finds_a_stored_secret(plant: Callable[[str, Path], None], tmp_path: Path) -> None:
    secret = uuid4().hex
    plant(secret, tmp_path)
    assert len(list(showing([secret], places(tmp_path)))) == 1


@pytest.mark.parametrize("where", ["argument", "environment"])
def test_the_search_finds_a_secret_shown_by_a_process(where: str) -> None:
    secret = uuid4().hex
    argument, environment = (secret, {}) if where == "argument" else ("", {"NOTE": secret})
    process = subprocess.Popen([sys.executable, "-c", "input()", argument], stdin=subprocess.PIPE, env=environment)
    sampler = Sampler([secret])
    sampler.sample()
    process.communicate(b"\n")
    assert len(sampler.shown) == 1


# Variants that lack one protection, the faults that need it, and texts of the expected violations.
# Which worker is first is random, so a violation may appear only in a later run.
TRIES = 12
BROKEN: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no fencing": (
        {"faults": ["pause"], "roles": ["worker"], "points": ["while it runs", "all artifacts stored"]},
        ["breaks artifacts_are_of_the_last_attempt"],
    ),
    "no lease": ({"faults": ["kill"], "roles": ["worker"], "points": ["simulator started"]}, ["is lost: it is"]),
    "announcement instead of claim": (
        {"faults": [], "workers": 2, "slots": 1, "lost_after_seconds": 20},
        ["breaks events_are_moves", "was claimed before"],
    ),
    "no fencing of tries": (
        {
            "faults": ["pause"],
            "roles": ["worker"],
            "points": ["before a shard ends"],
            "faults_per_second": 0.7,
            "form": OUTLASTING_PAUSES,
            "lost_after_seconds": 10,
        },
        ["ZOMBIE: "],
    ),
    "merge without a missing shard": ({"jobs": 4, "faults": [], "form": WITH_REJECTED_SHARD}, ["COMPLETE: "]),
    "allowance ignored": (
        {"jobs": 4, "faults": [], "form": BEYOND_CAP, "lost_after_seconds": 20},
        ["ALLOWANCES: "],
    ),
}


# Its violation needs luck and minutes.
UNLIKELY = {"no fencing of tries"}


@pytest.fixture
def _transaction_elsewhere(transactional_db: None) -> Iterator[None]:
    """Keep a transaction of another database open, as parallel tests do."""
    with psycopg.connect(**connection.get_connection_params() | {"dbname": "postgres"}) as other:
        other.execute("SET idle_in_transaction_session_timeout = 0; SELECT pg_current_xact_id()")
        yield


@pytest.mark.usefixtures("_transaction_elsewhere")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("variant", [name for name in BROKEN if LONG or name not in UNLIKELY])
def test_the_invariants_detect_a_missing_protection(variant: str, tmp_path: Path, server: RedisServer) -> None:
    chosen, expected = BROKEN[variant]
    detected: list[str] = []
    for seed in range(SEED, SEED + TRIES):
        settings: dict[str, Any] = {"jobs": 12, "lost_after_seconds": 4} | chosen
        plan = FaultPlan(seed=seed, sweepers=1, variant=variant, cancelled_share=0, paused_share=0, **settings)
        detected += violations(run_plan(plan, tmp_path, server).observed)
        missing = [text for text in expected if not any(text in violation for violation in detected)]
        if not missing:
            return
    assert missing == [], detected
