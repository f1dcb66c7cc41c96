"""The stored list of all profilesets of a job."""

import json
import os
import zlib
from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from jobs.artifacts import retention
from jobs.enums import MoveResult, Status
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job, JobRanking
from jobs.results import rankings
from jobs.results.rankings import LISTED, Entry
from simc.reports import Profileset, Statistics
from tests.factories import make_running_job


def profilesets(count: int, *, name: str = "set {}") -> list[Profileset]:
    """Return profilesets, the worst first."""
    figures = {"mean_stddev": 0.5, "stddev": 9.0, "min": 1.0, "max": 2.0}
    return [
        Profileset(name=name.format(number), statistics=Statistics(mean=100.0 + number, **figures), stage=2)
        for number in range(count)
    ]


def test_a_short_list_is_not_stored() -> None:
    assert rankings.packed(profilesets(LISTED)) is None


def test_a_long_list_is_stored_best_first() -> None:
    content = rankings.packed(profilesets(LISTED + 1))
    assert content is not None
    entries = rankings.unpacked(content)
    assert entries[0] == Entry(1, "set 200", 300.0, 0.98, 2)
    assert [entry.number for entry in entries] == list(range(1, LISTED + 2))


def test_a_long_list_keeps_which_errors_are_unknown() -> None:
    many = profilesets(LISTED + 1)
    many[0] = replace(many[0], statistics=replace(many[0].statistics, stddev=4.0))
    content = rankings.packed(many)
    assert content is not None
    assert [entry.name for entry in rankings.unpacked(content) if entry.has_few_fights] == ["set 0"]
    columns = json.loads(zlib.decompress(content))
    del columns["fewFights"]
    earlier = rankings.unpacked(zlib.compress(json.dumps(columns).encode()))
    assert (len(earlier), any(entry.has_few_fights for entry in earlier)) == (LISTED + 1, False)


def test_a_list_that_does_not_fit_is_cut_at_its_end() -> None:
    names = [os.urandom(150).hex() for _ in range(12_000)]
    many = [
        Profileset(name=name, statistics=each.statistics, stage=1)
        for name, each in zip(names, profilesets(12_000), strict=True)
    ]
    content = rankings.packed(many)
    assert content is not None
    assert len(content) <= rankings.MAX_BYTES
    assert rankings.unpacked(content)[0].name == names[-1]


@pytest.mark.parametrize("content", [b"", b"x", zlib.compress(b"[]"), zlib.compress(b'{"names": 1}')], ids=repr)
def test_an_unreadable_list_is_empty(content: bytes) -> None:
    assert rankings.unpacked(content) == []


def stored_for(job: Job, *, summary_count: int) -> list[Entry]:
    job.summary = {"mainActor": {"profilesets": {"count": summary_count, "results": [{}] * LISTED}}}
    return rankings.entries_of(job)


@pytest.mark.django_db
def test_the_end_of_a_job_stores_the_list() -> None:
    job = make_running_job()
    content = rankings.packed(profilesets(LISTED + 1))
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, summary={}, ranking=content))
    assert len(stored_for(job, summary_count=LISTED + 1)) == LISTED + 1
    assert stored_for(job, summary_count=LISTED) == []


@pytest.mark.django_db
def test_a_lost_attempt_stores_nothing() -> None:
    job = make_running_job()
    Job.objects.filter(pk=job.pk).update(attempt=2)
    lost = job_moves.finish(job, Outcome(status=Status.COMPLETED, summary={}, ranking=b"x"))
    assert (lost, JobRanking.objects.count()) == (MoveResult.TAKEN, 0)


@pytest.mark.django_db
def test_the_list_is_unavailable_after_retention_even_before_it_is_removed() -> None:
    job = make_running_job()
    content = rankings.packed(profilesets(LISTED + 1))
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, summary={}, ranking=content))
    job.created_at = timezone.now() - timedelta(days=30, seconds=1)
    assert stored_for(job, summary_count=LISTED + 1) == []


@pytest.mark.django_db
def test_a_cleared_job_has_no_list() -> None:
    job = make_running_job()
    assert job_moves.finish(job, Outcome(status=Status.COMPLETED, summary={}, ranking=b"x"))
    retention.clear_jobs([job.pk], until=float("inf"))
    assert not JobRanking.objects.exists()
