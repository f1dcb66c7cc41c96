"""Adoption with damaged files, and by two conductors at once."""

from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from billing import ledger
from jobs.execution import attempt
from jobs.execution.shard_results import ShardResults
from jobs.lifecycle import job_moves
from jobs.models import Artifact, Job, Run
from jobs.operations import hold_audit
from tests.jobs.shards.sharded_runs import RESULTS, make_simulator, meanwhile, results_of, submit, wait_for_shard
from tests.jobs.shards.test_adoption import assert_continued, assert_no_shards_left, ended_runs, lose
from tests.jobs.simulators import again, claim

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("kind", [Artifact.Kind.JSON_REPORT, Artifact.Kind.STDOUT_LOG])
def test_a_fetched_file_that_is_damaged_costs_no_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Artifact.Kind
) -> None:
    """The file in the storage is right, so the next attempt fetches it again."""
    monkeypatch.setattr(attempt, "LOST_PAUSE_SECONDS", 0.0)
    make_simulator(tmp_path, "print(os.urandom(300).hex())")
    artifacts, damaged = ShardResults.artifacts, list[Path]()

    def damage(self: ShardResults, ran: str) -> Any:
        if not damaged:
            damaged.append(self._path(2, kind))
            content = damaged[0].read_bytes()
            damaged[0].write_bytes(content[:30] + bytes(each ^ 0x55 for each in content[30:40]) + content[40:])
        return artifacts(self, ran)

    monkeypatch.setattr(ShardResults, "artifacts", damage)
    job = submit()
    attempt.execute(job)
    kept = ended_runs(job)
    assert job_moves.requeue(Job.objects.get(pk=job.pk), reason="its lease expired")
    assert_continued(again(), kept)
    assert damaged


def test_two_conductors_that_adopt_the_same_stage(tmp_path: Path, settings: Settings) -> None:
    """The first one does not notice that its lease is lost, and goes on beside the second one."""
    settings.HEARTBEAT_SECONDS = 2.0
    make_simulator(tmp_path, seconds=0.4)
    job = submit()
    kept = lose(job)
    first = claim()

    def take_over() -> None:
        wait_for_shard(seat=0)
        assert job_moves.requeue(Job.objects.get(pk=job.pk), reason="its lease expired")
        attempt.execute(claim())

    with meanwhile(take_over):
        attempt.execute(first)
    ended = Job.objects.get(pk=job.pk)
    assert (ended.status, ended.attempt) == ("completed", 3)
    assert results_of(ended) == RESULTS
    assert kept.items() <= ended_runs(ended).items()
    assert ended.sim_duration_ms == sum(run.wall_ms or 0 for run in Run.objects.filter(job=job))
    assert set(Artifact.objects.filter(job=job).values_list("attempt", flat=True)) == {3}
    assert list(ledger.verify()) == []
    assert list(hold_audit.discrepancies()) == []
    assert_no_shards_left(ended)
