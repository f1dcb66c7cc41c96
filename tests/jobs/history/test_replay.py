"""The replay of possible histories finds nothing, and is bounded and consistent."""

import pytest

from tests.jobs.history.histories import (
    claimed_job,
    found,
    run_job,
    run_shard,
    run_sharded_job,
    running_job,
    sharded_job,
    submitted,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_every_job_is_possible_at_every_step() -> None:
    submitted()
    claimed_job()
    running_job()
    run_job(wants_webhook=True, priority_fee_credits=5)
    assert found() == []


def test_a_job_in_shards_is_possible_at_every_step() -> None:
    stage = sharded_job()
    assert found() == []
    run_shard(stage, conducts=True)
    run_shard(stage)
    assert found() == []
    run_sharded_job()
    assert found() == []
