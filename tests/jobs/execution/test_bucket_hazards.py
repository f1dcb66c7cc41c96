"""A bucket that fails in some way during a step of a job: the table of steps and hazards.

Whatever the bucket does, the job ends once with the right result, is billed once, and leaves no file behind.
"""

import gzip
import hashlib
import logging
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.files.storage import default_storage
from django.db.models import F
from django.db.models.functions import Now

from billing import ledger
from jobs.artifacts import artifact_files, retention
from jobs.enums import CLAIMED
from jobs.execution import attempt, helper, shard_results
from jobs.models import Artifact, Job, Run
from jobs.operations import hold_audit
from jobs.queue import sweep
from simservice.telemetry import known_errors
from tests.faults.faulty_bucket import FaultyBucket
from tests.jobs.shards.helping_slots import helping
from tests.jobs.shards.sharded_runs import RESULTS, make_simulator, results_of, submit
from tests.jobs.simulators import claim

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]

MAX_ATTEMPTS = 4
OVERLOADED = "The bucket's service is overloaded or unavailable"
REFUSED = "The bucket refuses"
TIMEOUT, CLOSED, ANOTHER = (
    "Read timeout on endpoint",
    "Connection was closed",
    "the storage returned different content",
)
# The hazards of every step
FAILURES = {
    "slow": "",
    "500": OVERLOADED,
    "503": OVERLOADED,
    "read-only": REFUSED,
    "silent": TIMEOUT,
    "closed": CLOSED,
}
# Each step of an attempt and its hazards, with a part of the line that names the cause; empty if nothing fails
CAUSES = {
    "store shard": {
        **FAILURES,
        "wrong bytes": "cannot be used",
        "empty": ANOTHER,
        "short": "cannot be used",
        "forgotten": "a file is missing",
        "another object": ANOTHER,
    },
    "fetch shard": {
        **FAILURES,
        "wrong bytes": "cannot be used",
        "empty": ANOTHER,
        "short": "cannot be used",
        "cut": "total bytes expected",
        "another object": ANOTHER,
    },
    "store artifact": FAILURES,
    "delete": {
        **FAILURES,
        "empty": "",
        "forgotten": "",
    },
}
# So many requests that one of two slots meets the hazard although each request is repeated once, or all requests
BRIEFLY, ALWAYS = 3, None
CASES = [
    (step, hazard, times) for step, hazards in CAUSES.items() for hazard in hazards for times in (BRIEFLY, ALWAYS)
]


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact_files, "SAVE_WAITS_SECONDS", (0.05, 0.05))
    monkeypatch.setattr(shard_results, "MAX_OUTAGE_SECONDS", 1.0)
    monkeypatch.setattr(known_errors, "REPEAT_SECONDS", 0.0)
    for module in (attempt, helper):
        monkeypatch.setattr(module, "LOST_PAUSE_SECONDS", 0.0)


def run_to_the_end(job: Job, bucket: FaultyBucket) -> Job:
    """Run attempts until the job ends. Only the first one is disturbed."""
    for _ in range(MAX_ATTEMPTS):
        with helping(1):
            attempt.execute(job)
        bucket.disturbance = None
        ended = Job.objects.get(pk=job.pk)
        if ended.completed_at is not None:
            return ended
        Job.objects.filter(pk=job.pk, status__in=CLAIMED).update(lease_expires_at=Now() - timedelta(hours=1))
        sweep.recover_expired_leases()
        job = claim()
    raise AssertionError("the job did not end")


def assert_right(job: Job) -> None:
    """Assert that a job has the right results and files, and is billed once."""
    assert (job.status, job.status_reason) == ("completed", None)
    assert results_of(job) == RESULTS
    assert list(ledger.verify()) == []
    assert list(hold_audit.discrepancies()) == []
    last = {run.shard: run.wall_ms or 0 for run in Run.objects.filter(job=job).order_by("id") if run.wall_ms}
    assert job.sim_duration_ms == sum(last.values())
    stored = list(Artifact.objects.filter(job=job))
    assert [
        artifact for artifact in stored if hashlib.sha256(content_of(artifact)).hexdigest() != artifact.sha256
    ] == []
    logs = next(content_of(each).decode() for each in stored if each.kind == Artifact.Kind.STDOUT_LOG)
    # Each log under the heading of its own shard
    assert [line for line in logs.splitlines() if line.startswith("first ")] == [
        f"first {name}" for name in ("set 1", "set 1", "set 4", "set 7", "set 10")
    ]


def content_of(artifact: Artifact) -> bytes:
    """Return the content that the bucket has."""
    with default_storage.open(artifact.storage_name) as file:
        return gzip.decompress(file.read())


@pytest.mark.parametrize(("step", "hazard", "times"), CASES)
def test_a_hazard_during_an_attempt(
    faulty: FaultyBucket,
    tmp_path: Path,
    step: str,
    hazard: str,
    times: int | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    make_simulator(tmp_path, "print('first', names[0], flush=True)")
    job = submit()
    with faulty.disturbed(step, hazard, times=times) as disturbance:
        ended = run_to_the_end(job, faulty)
    assert disturbance.met
    assert_right(ended)
    cause = CAUSES[step][hazard]
    assert cause in caplog.text
    assert cause or not [record for record in caplog.records if record.levelno >= logging.WARNING]
    Job.objects.update(created_at=F("created_at") - timedelta(days=365))
    assert retention.clear_expired() == 1
    assert artifact_files._files_of(artifact_files.folder_of(job.pk), [job.pk]) == []
