"""Statistics of past jobs in stages."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clients.accounts import default_client
from clients.models import Client
from jobs.enums import Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Run
from jobs.planning import past_jobs
from simc.reports import fights_of
from tests.factories import make_account, make_running_job
from tests.jobs.plans import reindex_jobs

pytestmark = pytest.mark.django_db


def end_funnel(client: Client, *, remaining: int, of: int = 10) -> None:
    """Complete a job of two stages: 100 and 900 fights in 30 and 110 ms, after a start of one second."""
    job = make_running_job(client=client, multi_stage=True)
    run = job_moves.start_run(job, build=job.build, stage=2)  # type: ignore[arg-type]
    assert run is not None
    for stage, seconds in ((1, 1 + (1 + 2 * of) * 0.03), (2, 1 + (1 + remaining) * 0.11)):
        rows = Run.objects.filter(job=job, stage=stage)
        assert rows.update(wall_ms=round(1000 * seconds), ended_at=job.started_at)
    results = [{"stage": 1, "stddev": 10, "mean_stddev": 10 / 200**0.5}] * (of - remaining)
    results += [{"stage": 2, "stddev": 10, "mean_stddev": 10 / 900**0.5}] * remaining
    stages = [
        {"stage": 1, "label": "initial", "profilesets": of, "culled": of - remaining},
        {"stage": 2, "label": "final", "profilesets": remaining, "culled": 0},
    ]
    summary = {"mainActor": {"profilesets": {"results": results}}, "multiStage": {"stages": stages}}
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, summary=summary))


def client() -> Client:
    return default_client(make_account())


def test_past_jobs_give_shares_and_setup_costs() -> None:
    own_client = client()
    end_funnel(own_client, remaining=2)
    known = past_jobs.recent(own_client.account_id, stages=2)
    assert known.share(1) == pytest.approx(0.2)
    assert known.setup_fights(startup_seconds=1) == pytest.approx(200, rel=0.01)


def test_the_time_of_a_stage_is_that_of_its_shards() -> None:
    """A stage runs as one process or in shards. Of each shard, only the last try counts."""
    own_client = client()
    end_funnel(own_client, remaining=2)
    expected = past_jobs.recent(own_client.account_id, stages=2).costs
    run = Run.objects.get(stage=1)
    for shard, try_number, wall_ms in ((1, 1, None), (1, 2, 70), (2, 1, 9999), (2, 2, 30)):
        run.pk, run.shard, run.try_number, run.wall_ms = None, shard, try_number, wall_ms
        run.save(force_insert=True)
    ((first, last),) = past_jobs.recent(own_client.account_id, stages=2).costs
    ((alone, last_alone),) = expected
    assert first.seconds == pytest.approx(alone.seconds + 0.1)
    assert last == last_alone


def test_defaults_apply_without_past_jobs() -> None:
    known = past_jobs.recent(client().account_id, stages=2)
    assert (known.share(1), known.setup_fights(startup_seconds=1)) == (past_jobs.DEFAULT_SHARE, 0)


def test_jobs_with_other_numbers_of_stages_are_ignored() -> None:
    own_client = client()
    end_funnel(own_client, remaining=2)
    assert past_jobs.recent(own_client.account_id, stages=3) == past_jobs.StageStatistics()


def test_three_jobs_of_the_account_are_enough() -> None:
    own_client, others = client(), client()
    for remaining in (8, 8, 8, 8):
        end_funnel(others, remaining=remaining)
    end_funnel(own_client, remaining=1)
    end_funnel(own_client, remaining=1)
    assert past_jobs.recent(own_client.account_id, stages=2).share(1) == pytest.approx(0.8)
    end_funnel(own_client, remaining=1)
    assert past_jobs.recent(own_client.account_id, stages=2).share(1) == pytest.approx(0.1)


def test_one_outlier_does_not_change_the_expectation() -> None:
    own_client = client()
    for remaining in (2, 2, 10):
        end_funnel(own_client, remaining=remaining)
    assert past_jobs.recent(own_client.account_id, stages=2).share(1) == pytest.approx(0.2)


def test_jobs_without_a_summary_of_stages_are_skipped() -> None:
    job = make_running_job(multi_stage=True)
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, summary={}))
    assert past_jobs.recent(job.account_id, stages=2) == past_jobs.StageStatistics()


def test_stored_errors_near_zero_are_handled() -> None:
    stages = [{"stage": number, "profilesets": 10, "culled": 5} for number in (1, 2)]
    results = [{"stage": number, "stddev": 1e30, "mean_stddev": 1e-170} for number in (1, 2)]
    cost = past_jobs.costs_of(stages, results, [1000, 1000])
    assert cost is not None
    assert cost[0].fights == fights_of(1e30, 1e-170) / 2 < 1e13


def nodes(plan: dict[str, Any]) -> list[str]:
    """Return the scans of a query plan with their indexes."""
    own = f"{plan['Node Type']} {plan.get('Index Name', '')}".strip()
    return [own, *(node for below in plan.get("Plans", []) for node in nodes(below))]


def test_statistics_take_one_indexed_query() -> None:
    own_client = client()
    end_funnel(own_client, remaining=2)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        past_jobs.recent(own_client.account_id, stages=2)
    assert len(queries) == 1
    reindex_jobs()
    with connection.cursor() as cursor:
        # Few rows are cheaper to scan sequentially.
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_sort = off")
        cursor.execute(f"EXPLAIN (FORMAT JSON) {past_jobs.RECENT}", [past_jobs.READ_JOBS])
        (explained,) = cursor.fetchone() or ([],)
    plan = explained if isinstance(explained, list) else json.loads(explained)
    plan_nodes = nodes(plan[0]["Plan"])
    assert plan_nodes[0] == "Limit"
    assert "Index Scan job_staged" in plan_nodes
    assert not [node for node in plan_nodes if node.startswith("Seq Scan")], plan_nodes
