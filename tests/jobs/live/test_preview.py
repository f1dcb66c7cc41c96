"""Previews of running jobs in Redis."""

import json
from dataclasses import replace

import pytest
from redis.connection import AbstractConnection
from redis.exceptions import RedisError

from jobs.lifecycle import job_moves
from jobs.live import preview, progress
from jobs.live.preview import Figures, Preview, RankedProfileset, preview_key_of, preview_of
from jobs.live.progress import Progress, Publisher
from jobs.models import Job
from sandbox.streams import LONGEST_LINE_BYTES
from simservice.redis.client import outage, redis
from tests.factories import make_running_job, start_attempt

pytestmark = pytest.mark.django_db(transaction=True)


def ranked(name: str, mean: float = 100.0) -> RankedProfileset:
    return RankedProfileset(name=name, mean=mean, error=1.5, stage=1)


def known(*names: str, seconds_left: int | None = 90) -> Preview:
    baseline, best = Figures(mean=95, error=0.5), [ranked(name) for name in names]
    return Preview(seconds_left=seconds_left, baseline=baseline, finished=len(best), count=9, best=best)


class Source:
    """The worker's side: what it knows, and how often it was asked."""

    def __init__(self, job: Job) -> None:
        self.known: Preview | None = None
        self.asked = 0
        self.publisher = Publisher(job, scrub=lambda text: text.replace("secret", "***"), preview=self.read)

    def read(self) -> Preview | None:
        self.asked += 1
        return self.known

    def publish(self, *, percent: float = 0, after_a_second: bool = True) -> None:
        """Publish without waiting for the rate limit of the progress, and by default that of the preview."""
        self.publisher.next_at = 0
        if after_a_second:
            self.publisher.next_preview_at = 0
        self.publisher.publish(Progress(percent=percent, stage=None))


@pytest.fixture
def job() -> Job:
    return make_running_job()


@pytest.fixture
def source(job: Job) -> Source:
    return Source(job)


def test_a_preview_can_be_read_again(job: Job, source: Source) -> None:
    source.known = known("a", "\u05d0\u05d1")
    source.publish()
    assert preview_of(job) == source.known
    assert 0 < int(str(redis().ttl(preview_key_of(job)))) <= progress.KEPT_SECONDS


def test_a_preview_grows_at_most_once_a_second(job: Job, source: Source) -> None:
    source.known = known()
    source.publish(percent=1)
    source.known = known("a")
    source.publish(percent=2, after_a_second=False)
    assert preview_of(job) == known()
    source.publish(percent=3)
    assert preview_of(job) == known("a")


def test_nothing_known_is_not_stored(job: Job, source: Source) -> None:
    source.publish()
    assert source.asked == 1
    assert preview_of(job) is None
    assert not redis().exists(preview_key_of(job))


def test_an_unchanged_preview_is_not_stored_again(job: Job, source: Source) -> None:
    source.known = known("a")
    source.publish(percent=1)
    redis().delete(preview_key_of(job))
    source.publish(percent=2)
    assert preview_of(job) is None
    source.publisher.refresh_at = 0
    source.publish(percent=3)
    assert preview_of(job) == source.known


def test_a_preview_that_redis_refused_is_stored_later(
    job: Job, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise RedisError

    source.known = known("a")
    with monkeypatch.context() as patch:
        patch.setattr(progress, "redis", refuse)
        source.publish()
    outage.record_success()
    source.publish()
    assert preview_of(job) == source.known


def test_web_processes_of_the_version_before_can_read_a_preview() -> None:
    fields = {"seconds_left", "baseline", "finished", "count", "best", "updated_at"}
    assert json.loads(known("a").as_json(clean=str)).keys() == fields
    assert json.loads(replace(known("a"), metric="raid_dps").as_json(clean=str))["metric"] == "raid_dps"


def test_names_are_whole_and_cleaned(job: Job, source: Source) -> None:
    source.known = known("x" * 396, "<b>\x00secret\u202e")
    source.publish()
    stored = preview_of(job)
    assert stored is not None
    assert [entry.name for entry in stored.best] == ["x" * 396, "<b>***"]


def test_the_largest_preview_is_small(job: Job, source: Source) -> None:
    # The name of a line as long as any that is read
    source.known = known(*["\U0001f600" * (LONGEST_LINE_BYTES // 4)] * preview.LISTED_PROFILESETS)
    source.publish()
    assert int(str(redis().strlen(preview_key_of(job)))) < 420_000


def test_the_preview_of_a_lost_attempt_is_not_shown(job: Job, source: Source) -> None:
    source.known = known("a")
    source.publish()
    job_moves.requeue(job, reason="lost")
    assert preview_of(job) is None
    start_attempt(job, worker="w2")
    job.status = "running"
    assert preview_of(job) is None


def test_a_redis_outage_only_hides_the_preview(job: Job, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RedisError

    source.known = known("a")
    source.publish()
    monkeypatch.setattr(preview, "redis", fail)
    assert preview_of(job) is None


def test_a_preview_costs_no_extra_request(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, send = list[object](), AbstractConnection.send_packed_command

    def record(connection: AbstractConnection, command: object, *args: object) -> None:
        sent.append(command)
        send(connection, command, *args)  # type: ignore[no-untyped-call]

    source.publish()
    monkeypatch.setattr(AbstractConnection, "send_packed_command", record)
    source.known = known("a")
    source.publish(percent=1)
    assert len(sent) == 1
