"""Random histories of a sharded job: lost and returned attempts, pauses, resumes and adoptions are all possible."""

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from billing import ledger
from clients.audit import SYSTEM
from jobs.enums import ReturnCause, Status
from jobs.errors import CreditsMissing, PauseLimitReached
from jobs.execution.time_limits import Budget
from jobs.lifecycle import job_moves, shard_moves
from jobs.lifecycle.cancellation import cancel
from jobs.lifecycle.job_moves import Outcome
from jobs.lifecycle.shard_moves import ClaimedShard
from jobs.models import Job, Shard, ShardedStage
from jobs.queue import pausing, sweep
from tests.jobs.history.histories import found, job_with_build, sharded_job
from tests.jobs.shards import sharded_jobs

pytestmark = pytest.mark.django_db(transaction=True)

WORKER = "host:1:ab:0"
SEEDS, STEPS = 8, 50


class Simulation:
    """One job with shards, and the slots that work on it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - repeatable
        self.stage = sharded_job(
            max_credits=self.random.choice([None, 64 * 32]),
            credits_per_second=32,
            priority_fee_credits=self.random.choice([0, 10]),
        )
        self.job_id = self.stage.job_id
        ShardedStage.objects.update(funded_ms=self.funded_ms())
        self.running: list[tuple[ClaimedShard, int | None]] = []
        self.log: list[str] = []

    @property
    def job(self) -> Job:
        """The job as it is in the database now."""
        return Job.objects.get(pk=self.job_id)

    def row(self) -> ShardedStage:
        return ShardedStage.objects.select_related("job", "build").get(pk=self.stage.pk)

    def budget(self) -> Budget:
        return Budget.of(self.job, hold_credits=ledger.held(self.job_id))

    def funded_ms(self) -> int:
        return self.budget().seconds * 1000

    def step(self) -> None:
        job = self.job
        steps: list[Callable[[], object]] = [self.help, self.help, self.end, self.end, self.renew, self.give_up]
        if job.status in {"starting", "running"}:
            steps += [self.conduct, self.conduct, self.lose, self.hand_over, self.pause, self.extend, self.conclude]
        else:
            steps += [self.claim, self.claim, self.pause, self.resume, self.resume]
        chosen = self.random.choice(steps)
        self.log.append(chosen.__name__)
        chosen()

    def start(self, *, conducts: bool) -> None:
        stage = self.row()
        shard = sharded_jobs.claim(stage, conducts=conducts, worker=WORKER if conducts else "host:2:cd:0")
        if shard is None:
            return
        # Sometimes the slot dies before it records its run.
        run_id = sharded_jobs.start(stage, shard) if self.random.random() < 0.9 else None
        self.running.append((shard, run_id))

    def help(self) -> None:
        self.start(conducts=False)

    def conduct(self) -> None:
        """Start a shard in the conductor's slot, which runs one at a time."""
        if not Shard.objects.filter(stage=self.stage, seat=0).exists():
            self.start(conducts=True)

    def one(self) -> tuple[ClaimedShard, int | None] | None:
        if not self.running:
            return None
        return self.running.pop(self.random.randrange(len(self.running)))

    def end(self) -> None:
        if (one := self.one()) is not None:
            shard, run_id = one
            if run_id is not None:
                sharded_jobs.end(shard, run_id)

    def give_up(self) -> None:
        if (one := self.one()) is not None:
            shard_moves.return_shard(one[0], losses=self.random.randrange(2))

    def renew(self) -> None:
        if (one := self.one()) is not None and shard_moves.renew_shard(one[0], wanted_ms=1000) is not None:
            self.running.append(one)

    def lose(self) -> None:
        Job.objects.filter(pk=self.job_id).update(lease_expires_at=Now() - timedelta(seconds=1))
        sweep.recover(self.job, reason="it was killed")

    def hand_over(self) -> None:
        job_moves.requeue(self.job, reason="stopped", cause=ReturnCause.RETURNED)

    def pause(self) -> None:
        with suppress(PauseLimitReached):
            pausing.pause(self.job, by=SYSTEM)

    def resume(self) -> None:
        if self.random.random() < 0.3:
            ledger.correct(self.job.account, -ledger.available(self.job.account) + 40, reason="spent elsewhere")
        with suppress(CreditsMissing):
            pausing.resume(self.job, by=SYSTEM)
        ledger.correct(self.job.account, 10_000, reason="bought")

    def extend(self) -> None:
        budget = self.budget()
        budget.extend_when_due(ran_seconds=budget.seconds)
        if (stage := self.row()).attempt == self.job.attempt:
            shard_moves.fund_stage(stage, funded_ms=self.funded_ms())

    def claim(self) -> None:
        job = job_moves.claim_job(WORKER)
        if job is None or self.random.random() < 0.1:
            return
        stage = self.row()
        assert shard_moves.adopt_stage(stage, job_with_build(job), funded_ms=self.funded_ms())

    def conclude(self) -> None:
        """End the job if all shards are done."""
        shards = list(Shard.objects.filter(stage=self.stage))
        job = self.job
        if all(shard.status == "done" for shard in shards) and self.row().attempt == job.attempt:
            ran_ms = sum(shard.billed_ms for shard in shards)
            charge = self.budget().charge(ran_ms) + job.priority_fee_credits
            summary = {"metric": "dps", "mainActor": None}
            outcome = Outcome(
                status=Status.COMPLETED, sim_duration_ms=ran_ms, credits_consumed=charge, summary=summary
            )
            assert job_moves.finish(job, outcome)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_slots_and_owners_do_in_any_order_is_possible(seed: int) -> None:
    each = Simulation(seed)
    for _ in range(STEPS):
        if each.job.is_terminal:
            break
        each.step()
        assert found() == [], each.log
    if not each.job.is_terminal:
        cancel(each.job, by=SYSTEM)
    if not each.job.is_terminal:
        each.hand_over()
    assert each.job.is_terminal
    assert found() == [], each.log
    assert list(ledger.verify()) == []
