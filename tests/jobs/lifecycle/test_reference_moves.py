"""Random moves of jobs by the SQL statements and by the reference implementation; the results must be equal."""

import re
from collections.abc import Callable
from copy import copy
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any

import pytest
from django.db import Error as DatabaseError
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from billing import ledger
from billing.errors import HoldError, InsufficientCredits
from billing.models import Account, Balance, Entry, Grant, GrantReason, Hold
from clients.accounts import default_client
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import ANY, CANCEL_REQUESTED, LEASE_EXPIRED, IllegalTransition, Outcome
from jobs.models import Artifact, Build, DailyUsage, Job, JobEvent, Run
from simservice.ids import new_token, next_id
from tests.billing.ledger_state import LONG, expire_now
from tests.factories import BuildFactory, make_account, make_job
from tests.jobs.lifecycle import reference_moves
from webhooks.models import Event

pytestmark = pytest.mark.django_db

WORLDS = 100 if LONG else 3
MOVES = 40
MODELS: tuple[type[models.Model], ...] = (
    *(Job, JobEvent, Run, Artifact, DailyUsage, Event),
    *(Hold, Entry, Grant, Balance),
)
# Numbers that PostgreSQL or the factory assigns
ASSIGNED = {JobEvent: ["id"], Run: ["id"], Event: ["id", "name"], Entry: ["id"], DailyUsage: ["id"]}
TIME_OF_BODY = re.compile(rb'"timestamp":"[^"]*"')
GUARDS: tuple[Q, ...] = (ANY, ANY, ANY, LEASE_EXPIRED, CANCEL_REQUESTED, ~CANCEL_REQUESTED)
CODES = {Status.COMPLETED: None, Status.FAILED: "internal", Status.CANCELLED: "user_cancelled"}


def comparable(value: Any) -> Any:
    """Return a value of a row without the exact time of the change."""
    if isinstance(value, datetime):
        # The groups are far apart: times of the change, ends of leases, and all other times.
        return round((value - timezone.now()) / timedelta(seconds=500))
    return TIME_OF_BODY.sub(b"", bytes(value)) if isinstance(value, memoryview | bytes) else value


def rows() -> dict[str, list[dict[str, Any]]]:
    """Return all rows that moves write."""
    return {
        model.__name__: [
            {name: comparable(value) for name, value in row.items() if name not in ASSIGNED.get(model, ())}
            for row in model._default_manager.order_by("pk").values()
        ]
        for model in MODELS
    }


def result_of(move: Callable[[], Any]) -> tuple[Any, dict[str, list[dict[str, Any]]]]:
    """Return the result or the error of a move and the rows after it, and roll it back."""
    with transaction.atomic():
        try:
            with transaction.atomic():
                result = move()
        except (HoldError, IllegalTransition, DatabaseError) as error:
            result = type(error)
        if isinstance(result, Job | Run):
            result = {
                field.attname: comparable(getattr(result, field.attname))
                for field in result._meta.concrete_fields
                if not (isinstance(result, Run) and field.attname in ("id", "started_at"))
            }
        after = rows()
        transaction.set_rollback(True)
    return result, after


class World:
    """An account with random credits and jobs in random states, and the random moves of one job."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - repeatable, not secret
        self.account = make_account(credits=self.random.choice([0, 50]))
        self.builds: list[Build] = [BuildFactory.create() for _ in range(2)]

    def change(self) -> None:
        """Change the credits or a job."""
        chance = self.random
        chance.choice([self.grant, self.submit, self.submit, self.extend, self.expire, self.change_job])()

    def grant(self) -> None:
        ends = self.random.choice([None, timezone.now() + timedelta(days=self.random.randint(1, 3))])
        ledger.grant(self.account, self.random.randint(1, 40), reason=GrantReason.PROMO, expires_at=ends)

    def expire(self) -> None:
        if (granted := Grant.objects.order_by("?").first()) is not None:
            expire_now(granted)

    def submit(self) -> None:
        credits_now = ledger.available(Account.objects.get(pk=self.account.pk))
        job = make_job(
            default_client(self.account),
            priority=self.random.randint(0, 2),
            wants_webhook=self.random.random() < 0.5,
            character=self.random.choice(["", "Ann"]),
            held_credits=self.random.randint(1, 60),
            ceiling_credits=50,
        )
        # The factory buys the credits that it holds. With fewer purchased credits, later holds take more from
        # grants.
        if credits_now:
            ledger.correct(job.account, -1, reason="a test")

    def extend(self) -> None:
        if (hold := Hold.objects.filter(resolved_at=None).order_by("?").first()) is not None:
            try:
                ledger.extend(hold.job_id, self.random.randint(1, 30))
            except InsufficientCredits:
                ledger.purchase(self.account, 5, reason="a test")

    def change_job(self) -> None:
        """Change a claimed or waiting job as requests, clocks and lost workers do."""
        job = Job.objects.filter(completed_at=None).order_by("?").first()
        if job is None:
            return
        if job.lease_expires_at is None:
            Job.objects.filter(pk=job.pk).update(queue_deadline_at=Now())
            return
        change = self.random.choice(["cancel", "expire", "requeue"])
        if change == "cancel":
            job_moves.request_cancel(job)
        elif change == "expire":
            Job.objects.filter(pk=job.pk).update(lease_expires_at=Now() - timedelta(seconds=1))
        else:
            job_moves.requeue(job, reason="lost")

    def instance(self) -> Job | None:
        """Return a job as a process has it: current, or as it was before another process moved it."""
        job = Job.objects.filter(completed_at=None).order_by("?").first()
        if job is not None and self.random.random() < 0.2:
            job.attempt = max(0, job.attempt - 1)
        if job is not None and self.random.random() < 0.2:
            job.status = self.random.choice(list(Status))
        return job

    def outcome(self) -> Outcome:
        """Return a random end. Some charge more than the hold."""
        status = self.random.choice(list(CODES))
        summary = {"metric": "dps", "mainActor": {"name": "Zoë'\\"}, "x": [1.5, None]}
        return Outcome(
            status=status,
            error_code=CODES[status],
            reason=self.random.choice([None, "because", 'a "long" % reason' * 60]),
            exit_code=self.random.choice([None, "0"]),
            sim_duration_ms=self.random.choice([None, 0, 2**40]),
            slots_used=self.random.choice([None, 1, 256]),
            credits_consumed=self.random.choice([0, 1, self.random.randint(0, 50), 60]),
            summary=summary if status == Status.COMPLETED else None,
            warnings=self.random.choice([(), ["Warning: no"]]),
            missing_artifacts=self.random.choice([(), [{"kind": "html_report", "stage": 1, "reason": "no"}]]),
            percent=self.random.choice([0.0, 12.5, 100.0]),
        )

    def artifacts(self, job: Job) -> list[Artifact]:
        """Return unsaved artifacts of a job."""
        return [
            Artifact(
                id=next_id(),
                job=job,
                attempt=job.attempt,
                stage=stage,
                kind=Artifact.Kind.STDOUT_LOG,
                mime_type="text/plain; charset=utf-8",
                token=new_token(),
                storage_name=new_token(),
                bytes=2**33,
                sha256="0" * 64,
                created_at=timezone.now(),
            )
            for stage in [None, 1, 2][: self.random.randint(0, 3)]
        ]

    def move(self) -> Callable[[Any], Any]:
        """Return a random move, as a function of the module that makes it."""
        job = self.instance()
        if job is None or self.random.random() < 0.3:
            return lambda module: module.claim("worker '1'")
        if self.random.random() < 0.3:
            build, stage = self.random.choice(self.builds), self.random.choice([1, 1, 2])
            return lambda module: module.start_run(copy(job), build=build, stage=stage)
        outcome, guard, artifacts = self.outcome(), self.random.choice(GUARDS), self.artifacts(job)
        return lambda module: module.finish(copy(job), outcome, guard=guard, artifacts=artifacts)


def differences(expected: Any, actual: Any) -> list[Any]:
    """Return the parts of two results that differ."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return [(name, expected[name], actual.get(name)) for name in expected if expected[name] != actual.get(name)]
    return [] if expected == actual else [(expected, actual)]


@pytest.mark.parametrize("seed", range(WORLDS))
@pytest.mark.timeout(600)
def test_sql_matches_the_reference_implementation(seed: int, settings: Settings) -> None:
    settings.LEASE_SECONDS = 1000
    world = World(seed)
    for _ in range(MOVES):
        world.change()
        move = world.move()
        expected, rows_expected = result_of(partial(move, reference_moves))
        actual, rows_actual = result_of(partial(move, job_moves))
        assert differences(expected, actual) == []
        assert differences(rows_expected, rows_actual) == []
        if not isinstance(actual, type):
            move(job_moves)
    assert list(ledger.verify()) == []
