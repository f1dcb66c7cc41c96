"""Histories made by the moves of the service, without simulators."""

from typing import Any

from django.db.models.functions import Now

from jobs.enums import Status
from jobs.history.replay import Deviation, Replay
from jobs.lifecycle import job_moves, shard_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Artifact, Build, Job, ShardedStage
from simservice.ids import new_token, next_id
from tests.factories import BuildFactory, make_job
from tests.jobs.shards.sharded_jobs import RUN, claimed, end, make_stage, start

WALL_MS = 1500
FIELDS = {**RUN, "wall_ms": WALL_MS}


def found(**options: Any) -> list[Deviation]:
    """Replay all jobs."""
    return list(Replay(**options).deviations())


def rules_broken(**options: Any) -> set[str]:
    """Return the names of the rules that the recorded histories break."""
    return {deviation.rule for deviation in found(**options)}


def submitted(**fields: Any) -> Job:
    """Submit a job; its row has the time of the database, which the factory replaces."""
    job = make_job(**fields)
    Job.objects.filter(pk=job.pk).update(created_at=job.events.get().at)
    return job


def claimed_job(worker: str = "host:1:ab:0", **fields: Any) -> Job:
    """Submit, announce and claim a job."""
    job_moves.mark_queued(submitted(**fields))
    job = job_moves.claim_job(worker)
    assert job is not None
    return job


def running_job(**fields: Any) -> tuple[Job, int]:
    """Return a job that runs, and the id of its run."""
    job = claimed_job(**fields)
    run_id = job_moves.start_run(job, build=Build.objects.first() or BuildFactory.create())
    assert run_id is not None
    return job, run_id


def end_run(run_id: int, **fields: Any) -> None:
    """Record the end of a run."""
    job_moves.end_run({**FIELDS, "run_id": run_id, **fields})


def completed(job: Job, *, wall_ms: int = WALL_MS) -> Outcome:
    """Return the outcome of a job whose simulators ran for a time."""
    credits_consumed = -(-wall_ms // 1000) * job.credits_per_second + job.priority_fee_credits
    summary = {"metric": "dps", "mainActor": None}
    return Outcome(
        status=Status.COMPLETED, sim_duration_ms=wall_ms, credits_consumed=credits_consumed, summary=summary
    )


def run_job(**fields: Any) -> Job:
    """Run a job from its submission to its end, with one file."""
    job, run_id = running_job(**fields)
    end_run(run_id)
    assert job_moves.finish(job, completed(job), artifacts=[file_of(job)])
    return job


def file_of(job: Job) -> Artifact:
    """Return a file of the job's attempt, which is not stored yet."""
    names = {"token": new_token(), "storage_name": new_token(), "sha256": "0" * 64}
    return Artifact(
        id=next_id(),
        job=job,
        attempt=job.attempt,
        kind=Artifact.Kind.STDOUT_LOG,
        mime_type="text/plain",
        bytes=1,
        created_at=job.created_at,
        **names,
    )


def lose(job: Job) -> None:
    """Return a job to the queue because its worker was killed."""
    assert job_moves.requeue(Job.objects.get(pk=job.pk), reason=f"{job.worker} was killed")


def sharded_job(**fields: Any) -> ShardedStage:
    """Return the stage of a running job with shards 0 to 4, none of which has run."""
    job = claimed_job(parallel_slots=3, **fields)
    return make_stage(job_with_build(job))


def job_with_build(job: Job) -> Job:
    """Return a claimed job whose build is known, as the attempt has it before its first run."""
    job.build = Build.objects.first() or BuildFactory.create()
    return job


def run_shard(stage: ShardedStage, *, conducts: bool = False, billed_ms: int = 3000) -> None:
    """Claim, start and end the next shard of a stage."""
    shard = claimed(stage, conducts=conducts, worker="host:1:ab:0" if conducts else "host:2:cd:0")
    run_id = start(stage, shard)
    assert run_id is not None
    assert end(shard, run_id, billed_ms=billed_ms)


def helped_stage() -> ShardedStage:
    """Return a stage whose first shard has run, so that helpers can run the others."""
    stage = sharded_job()
    run_shard(stage, conducts=True)
    return stage


def run_sharded_job(**fields: Any) -> Job:
    """Run a job in shards from its submission to its end."""
    stage = sharded_job(**fields)
    for number in range(5):
        run_shard(stage, conducts=number % 2 == 0)
    job = Job.objects.get(pk=stage.job_id)
    assert job_moves.finish(job, completed(job, wall_ms=5 * 3000))
    shard_moves.remove_stage(stage.pk)
    return job


def expire_lease(job: Job) -> None:
    """Let the lease of a job expire."""
    Job.objects.filter(pk=job.pk).update(lease_expires_at=Now())
