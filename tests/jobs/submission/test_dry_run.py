"""Dry runs: they refuse what a submission refuses, in the same order, and change nothing."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings
from redis.exceptions import RedisError

from billing import ledger
from billing.models import Account, Hold
from clients.accounts import default_client
from jobs.api.submission_request import from_json
from jobs.artifacts import credentials
from jobs.artifacts.credentials import GameCredentials
from jobs.enums import MultistageReason, Priority
from jobs.errors import (
    CredentialStoreUnavailable,
    JobsError,
    NothingToSimulate,
    ProfileRejected,
    ProfileTooComplex,
    QueueFull,
    VariantLimitExceeded,
)
from jobs.models import IdempotencyKey, Job, JobProfile
from jobs.queue import forecast
from jobs.submission import accept, dry_run
from jobs.submission.dry_run import DryRun
from jobs.submission.idempotency import ByIdempotencyKey
from jobs.submission.request import Submission
from jobs.submission.validation import Sender
from simservice import worker_heartbeats
from simservice.redis import client
from tests.factories import PROFILE, BuildFactory, make_account, make_job, make_key
from tests.jobs.api.bodies import BODY
from tests.statements import traffic

pytestmark = pytest.mark.django_db
PLAN = {"max_active_jobs": 1, "max_variants": 2}
SETS = "".join(f'profileset."S{number}"+=intellect={number}\n' for number in range(3))
CREDENTIALS = GameCredentials(client_id="abc", client_secret="hush")
SECONDS_PER_PLAN = 57_600 // 32
# Each makes a submission that is refused, together with the state of the account and the service.
FAULTS: dict[str, Callable[[Submission], Submission]] = {
    "runtime": lambda asked: replace(asked, max_runtime_seconds=SECONDS_PER_PLAN + 1),
    "queue-limit": lambda asked: replace(asked, max_queue_seconds=86_401),
    "lines": lambda asked: replace(asked, profile_text=asked.profile_text + "output=/x\nhtml=/y\n"),
    "options": lambda asked: replace(asked, profile_text=asked.profile_text + "a=1\n" * 60_001),
    "nothing": lambda asked: replace(asked, profile_text="iterations=5\n"),
    "variants": lambda asked: replace(asked, profile_text=asked.profile_text + SETS),
    "pin": lambda asked: replace(asked, build_id=uuid4()),
    "webhook": lambda asked: replace(asked, webhook_events=("job.terminal",)),
    "credits": lambda asked: replace(asked, max_credits=57_600),
    "credentials": lambda asked: replace(asked, credentials=CREDENTIALS),
    "high": lambda asked: replace(asked, priority=Priority.HIGH),
}
STATES: dict[str, Callable[[Account], object]] = {
    "suspended": lambda account: Account.objects.filter(pk=account.pk).update(suspended_at="2026-01-01T00:00Z"),
    "active-jobs": lambda account: make_job(default_client(account)),
    "poor": lambda account: ledger.correct(account, -ledger.available(account), reason="for the test"),
}


def asked_for(**changed: Any) -> Submission:
    return replace(from_json(BODY), **changed)


def sender_of(account: Account) -> Sender:
    return Sender(default_client(account))


def tried(account: Account | None = None, **changed: Any) -> DryRun:
    return dry_run.run(asked_for(**changed), sender=sender_of(account or make_account()))


def submitted(submission: Submission, account: Account) -> JobsError | None:
    """Submit a job; return the error with which it is refused, None if it is accepted."""
    key, _ = make_key(account)
    keyed = ByIdempotencyKey(key, None, submission, render=str)
    try:
        accept.submit(submission, sender=sender_of(account), once=keyed)
    except JobsError as error:
        return error
    return None


def as_fields(error: JobsError | None) -> Any:
    return error and (type(error), vars(error))


def stored() -> list[Any]:
    return [list(model.objects.order_by("pk").values()) for model in (Job, JobProfile, Hold, IdempotencyKey)]


@pytest.mark.parametrize("seed", range(60))
def test_a_submission_and_its_dry_run_are_refused_alike(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    account, submission = make_account(**PLAN, allows_build_pin=chance.random() < 0.5), asked_for()
    for name in chance.sample(sorted(FAULTS), chance.randint(0, 2)):
        submission = FAULTS[name](submission)
    # In order, because no job can be stored for a suspended account
    for name in sorted(chance.sample(sorted(STATES), chance.choice([0, 0, 1, 2]))):
        STATES[name](account)
    before = stored()
    found = dry_run.run(submission, sender=sender_of(account))
    assert stored() == before
    assert as_fields(found.refusal) == as_fields(submitted(submission, account))


@pytest.mark.parametrize("fault", sorted(FAULTS.keys() - {"credits", "credentials", "high"}))
def test_each_fault_is_refused(fault: str) -> None:
    submission = FAULTS[fault](asked_for())
    assert dry_run.run(submission, sender=sender_of(make_account(**PLAN))).refusal is not None


@pytest.mark.parametrize("state", STATES)
def test_each_state_is_refused(state: str) -> None:
    account = make_account(**PLAN)
    STATES[state](account)
    assert tried(account).refusal is not None


def test_a_full_queue_is_refused(settings: Settings) -> None:
    settings.MAX_QUEUE_LENGTH = 1
    make_job()
    forecast.publish()
    account = make_account()
    assert isinstance(tried(account).refusal, QueueFull)
    assert isinstance(submitted(asked_for(), account), QueueFull)


def test_credentials_need_redis_but_are_not_stored() -> None:
    assert tried(credentials=CREDENTIALS).refusal is None
    assert credentials.stored_job_ids() == []
    account = make_account()
    client.outage.record_failure(RedisError("down"))
    found = tried(account, credentials=CREDENTIALS).refusal
    assert isinstance(found, CredentialStoreUnavailable)
    assert as_fields(found) == as_fields(submitted(asked_for(credentials=CREDENTIALS), account))


def test_a_dry_run_describes_the_job() -> None:
    build = BuildFactory.create()
    profile = PROFILE + 'copy="Twin",Frosty\n' + SETS + "target_error=0.001\n"
    found = tried(profile_text=profile)
    assert (found.refusal, found.variants, found.actors, found.names) == (None, 4, 2, ("Frosty", "Twin"))
    assert (found.build, found.stages.reason) == (build, MultistageReason.DISABLED)
    assert [warning["line"] for warning in found.warnings] == [10]
    assert found.ceilings
    assert found.estimate is None


def test_refused_lines_are_listed() -> None:
    found = tried(profile_text=PROFILE + "output=/x\n")
    assert isinstance(found.refusal, ProfileRejected)
    assert [(refusal.line, refusal.reason) for refusal in found.refusals] == [(6, "it writes a file")]


def test_names_are_bounded() -> None:
    found = tried(profile_text="".join(f'mage="{number}{"x" * 500}"\n' for number in range(50)))
    assert len(found.names) == 20
    assert max(map(len, found.names)) == 100


@pytest.mark.parametrize(
    ("text", "error"), [("", NothingToSimulate), ("\n" * 120_001, ProfileTooComplex)], ids=["empty", "long"]
)
def test_an_unusable_profile_has_no_estimate(text: str, error: type[JobsError]) -> None:
    found = tried(profile_text=text)
    assert isinstance(found.refusal, error)
    assert (found.variants, found.estimate, found.ceilings) == (0, None, None)


@pytest.mark.parametrize(("sets", "reason"), [(3, "below_min_candidates"), (4, "eligible_profileset_only")])
def test_a_dry_run_says_whether_stages_would_run(sets: int, reason: str) -> None:
    profile = PROFILE + "".join(f'profileset."S{number}"+=intellect={number}\n' for number in range(sets))
    assert tried(profile_text=profile, multi_stage=True).stages.reason == reason


def test_the_fee_is_the_one_of_a_submission() -> None:
    account = make_account()
    worker_heartbeats.report("sim@here", slots=1)
    make_job()
    found = tried(account, priority=Priority.HIGH)
    assert submitted(asked_for(priority=Priority.HIGH), account) is None
    job = Job.objects.get(account=account)
    assert found.fee_credits == job.priority_fee_credits == 320
    assert found.ceilings
    assert found.ceilings.credits == job.ceiling_credits


def test_the_expected_start_counts_waiting_jobs() -> None:
    assert tried().start is None
    make_job()
    worker_heartbeats.report("sim@here", slots=1)
    forecast.publish()
    start = tried().start
    assert start
    assert start.ahead == 1


def test_a_dry_run_takes_no_lock() -> None:
    """No statement locks or writes, so no other submission waits."""
    sender = sender_of(make_account())
    with CaptureQueriesContext(connection) as queries:
        dry_run.run(asked_for(priority=Priority.HIGH), sender=sender)
    for query in queries:
        assert not {"UPDATE", "INSERT", "DELETE", "SHARE"} & set(query["sql"].upper().split()), query["sql"]


def test_a_dry_run_needs_few_queries() -> None:
    BuildFactory.create()
    sender = sender_of(make_account(allows_build_pin=True))
    costly = {"priority": Priority.HIGH, "build_id": uuid4(), "webhook_events": ("job.terminal",)}
    for changed, limit in (({}, 4), (costly, 10)):
        with traffic() as sent:
            dry_run.run(asked_for(**changed), sender=sender)
        assert len(sent.statements) <= limit, sent.statements


@pytest.mark.parametrize(("points", "is_allowed"), [(10, True), (12, False)])
def test_the_points_of_plots_count_as_variants(points: int, *, is_allowed: bool) -> None:
    BuildFactory.create()
    account = make_account(max_variants=20)
    text = f"{PROFILE}dps_plot_stat=crit,haste\ndps_plot_points={points}\n"
    submission = asked_for(profile_text=text)
    found, error = tried(account, profile_text=text), submitted(submission, account)
    assert found.variants == 2 * points
    # They are no candidates for stages.
    assert found.stages.reason in (MultistageReason.DISABLED, MultistageReason.NO_VARIANTS)
    expected = None if is_allowed else (VariantLimitExceeded, {"variants": 24, "limit": 20})
    assert as_fields(error) == as_fields(found.refusal) == expected
