"""PositionSamples of a queue that is longer than a sweep reads."""

import random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.enums import WAITING
from jobs.lifecycle import job_moves
from jobs.models import Job
from jobs.queue import forecast, position_samples
from jobs.queue.position_samples import ExpectedSeconds, Key, PositionSample, PositionSamples
from tests.factories import make_job
from tests.jobs.queue_states import COPIES

EXPECTED = ExpectedSeconds([10.0], 10.0)


@pytest.fixture
def _short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each sweep read 40 jobs from the front and 60 after it."""
    monkeypatch.setattr(position_samples, "FRONT_JOBS", 40)
    monkeypatch.setattr(position_samples, "PART_JOBS", 60)


def fill_queue(length: int) -> None:
    """Make a queue of this many jobs in all lanes."""
    job = make_job()
    with connection.cursor() as cursor:
        cursor.execute(COPIES, [length - 1, job.pk])


def read_often(times: int, queue: PositionSamples | None = None) -> PositionSamples:
    """Return the marks after a number of sweeps."""
    queue = queue or PositionSamples()
    for _ in range(times):
        queue = position_samples.read(queue, EXPECTED)
    return queue


def keys_in_order() -> list[Key]:
    """Return the keys of the waiting jobs in queue order."""
    return list(Job.objects.filter(status__in=WAITING).order_by("priority", "id").values_list("priority", "id"))


def assert_exact(queue: PositionSamples) -> None:
    """Check the position and the work of every waiting job."""
    for position, key in enumerate(keys_in_order()):
        assert position_samples.ahead_of(queue.marks, key) == (position, position * 10)


@pytest.mark.django_db
@pytest.mark.usefixtures("_short_parts")
def test_a_long_queue_is_known_after_several_sweeps() -> None:
    fill_queue(400)
    assert [read_often(sweeps).marks[-1].position for sweeps in (1, 2, 6, 7)] == [100, 160, 400, 400]
    assert_exact(read_often(6))


@pytest.mark.django_db
@pytest.mark.usefixtures("_short_parts")
def test_positions_are_exact_while_the_front_is_claimed() -> None:
    fill_queue(400)
    queue = read_often(7)
    for _ in range(9):
        for _ in range(7):
            assert job_moves.claim_job("w")
        queue = read_often(1, queue)
        assert_exact(queue)


@pytest.mark.django_db
@pytest.mark.usefixtures("_short_parts")
def test_changes_behind_the_front_are_found_in_turn() -> None:
    fill_queue(400)
    queue = read_often(7)
    gone = random.Random(5).sample(keys_in_order()[100:], k=90)  # noqa: S311
    Job.objects.filter(pk__in=[job_id for _, job_id in gone]).delete()
    for _ in range(30):
        make_job(priority=2)
    assert_exact(read_often(7, queue))


@pytest.mark.django_db
@pytest.mark.usefixtures("_short_parts")
@pytest.mark.parametrize("length", [0, 39, 40, 41, 99, 100, 101])
def test_a_short_queue_is_read_at_once(length: int) -> None:
    if length:
        fill_queue(length)
    with CaptureQueriesContext(connection) as queries:
        queue = read_often(1)
    assert_exact(queue)
    assert len(queries) <= 2


@pytest.mark.django_db
@pytest.mark.usefixtures("_short_parts")
@pytest.mark.parametrize(
    ("length", "limit", "counted"), [(39, 30, 39), (40, 400, 40), (400, 1000, 400), (400, 300, 300), (400, 0, 0)]
)
def test_a_long_queue_is_counted_up_to_the_limit(settings: Any, length: int, limit: int, counted: int) -> None:
    """The first sweep reads only the marks of 100 jobs."""
    settings.MAX_QUEUE_LENGTH = limit
    fill_queue(length)
    assert forecast.take(slots=1).length == counted


def test_a_replaced_part_shifts_the_marks_behind_it() -> None:
    previous = [PositionSample(1, number, number, number * 2.0) for number in range(10, 101, 10)]
    front = position_samples._Part(position_samples.START, [PositionSample(1, 25, 5, 10.0)], (1, 25))
    part = position_samples._Part((1, 50), [PositionSample(1, 65, 3, 6.0)], (1, 65))
    spliced = position_samples.splice(previous, [front, part])
    # Of the ten jobs from 21 to 30, five are in the front; of those from 61 to 70, five are in the part.
    assert [(mark.job_id, mark.position) for mark in spliced] == [
        (25, 5),
        (30, 10),
        (40, 20),
        (50, 30),
        (65, 33),
        (70, 38),
        (80, 48),
        (90, 58),
        (100, 68),
    ]
    assert all(mark.work_seconds == mark.position * 2 for mark in spliced)
