"""The last lines of a running job's output, published in Redis."""

from pathlib import Path

import pytest
from redis.exceptions import RedisError

from jobs.lifecycle import job_moves
from jobs.live import progress
from jobs.live.progress import LogEntry, Progress, Publisher, log_entries_of
from jobs.models import Job
from simservice.redis.client import outage, redis
from tests.factories import make_running_job, start_attempt
from tests.jobs.simulators import make_stand_in, run_with_action
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

NOTHING_YET = Progress(percent=0, stage=None)


@pytest.fixture
def job() -> Job:
    return make_running_job()


@pytest.fixture
def publisher(job: Job) -> Publisher:
    return Publisher(job)


def print_line(publisher: Publisher, text: str, stream: str = "stdout") -> None:
    """Print a complete line."""
    publisher.log.update(stream, text)
    publisher.log.end_line(stream)


def publish(publisher: Publisher) -> None:
    """Publish without waiting for the rate limit."""
    publisher.next_at = 0
    publisher.publish(NOTHING_YET)


def entries_of(job: Job) -> list[LogEntry]:
    return log_entries_of(job) or []


def messages(job: Job) -> list[str]:
    return [entry.message for entry in entries_of(job)]


def test_an_entry_has_its_stream_and_time(job: Job, publisher: Publisher) -> None:
    print_line(publisher, "out")
    print_line(publisher, "careful", "stderr")
    publish(publisher)
    first, second = entries_of(job)
    assert (first.source, first.message, second.source, second.message) == ("stdout", "out", "stderr", "careful")
    assert 1.7e12 < first.ts <= second.ts < 1e13


def test_only_the_last_two_hundred_lines_are_kept(job: Job, publisher: Publisher) -> None:
    for number in range(150):
        print_line(publisher, f"a{number}")
    publish(publisher)
    for number in range(150):
        print_line(publisher, f"b{number}")
    publish(publisher)
    assert messages(job) == [f"a{number}" for number in range(100, 150)] + [f"b{number}" for number in range(150)]
    assert redis().llen(progress.log_key_of(job)) == 200


def test_a_redrawn_line_is_one_entry(job: Job, publisher: Publisher) -> None:
    print_line(publisher, "Simulating...")
    for percent in range(300):
        publisher.log.update("stdout", f"{percent} %")
        if percent % 50 == 0:
            publish(publisher)
    print_line(publisher, "a warning", "stderr")
    publish(publisher)
    assert messages(job) == ["Simulating...", "a warning", "299 %"]
    print_line(publisher, "done")
    publish(publisher)
    assert messages(job) == ["Simulating...", "a warning", "done"]


def test_emptying_redis_loses_only_earlier_lines(job: Job, publisher: Publisher) -> None:
    print_line(publisher, "before")
    publisher.log.update("stdout", "10 %")
    publish(publisher)
    redis().flushdb()
    print_line(publisher, "after", "stderr")
    publish(publisher)
    assert messages(job) == ["after", "10 %"]


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("x" * 9000, "x" * 500),
        ("a\x1b[31mred\x00\x07\x7f\u202e\ud800b  ", "a[31mredb"),
        ("one\ttwo", "one two"),
        ("héllo \U0001f600", "héllo \U0001f600"),
    ],
    ids=["long", "control characters", "tab", "other scripts"],
)
def test_long_lines_are_cut_and_cleaned(job: Job, publisher: Publisher, printed: str, shown: str) -> None:
    print_line(publisher, printed)
    publish(publisher)
    assert messages(job) == [shown]


def test_secrets_are_hidden_even_in_cut_lines(job: Job) -> None:
    publisher = Publisher(job, scrub=lambda text: text.replace("secret", "***"))
    print_line(publisher, "x" * 497 + "secret")
    publish(publisher)
    assert messages(job) == ["x" * 497 + "***"]


def test_publishing_is_limited_however_much_is_printed(job: Job, publisher: Publisher) -> None:
    for _ in range(100_000):
        print_line(publisher, "\x00" * 8192)
    assert len(publisher.log.complete) == 200
    publish(publisher)
    assert messages(job) == [""] * 200


def test_output_is_published_at_most_twice_a_second(job: Job, publisher: Publisher) -> None:
    publisher.publish(NOTHING_YET)
    print_line(publisher, "too soon")
    publisher.publish(NOTHING_YET)
    assert messages(job) == []


def test_the_output_of_a_lost_attempt_is_not_shown(job: Job, publisher: Publisher) -> None:
    print_line(publisher, "old")
    publish(publisher)
    job_moves.requeue(job, reason="lost")
    assert log_entries_of(job) is None
    start_attempt(job, worker="w2")
    job.status = "running"
    assert log_entries_of(job) == []


def test_published_output_expires(job: Job, publisher: Publisher) -> None:
    print_line(publisher, "line")
    publish(publisher)
    assert 0 < int(str(redis().ttl(progress.log_key_of(job)))) <= progress.KEPT_SECONDS


def test_a_redis_outage_only_hides_the_output(
    job: Job, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RedisError

    monkeypatch.setattr(progress, "redis", fail)
    print_line(publisher, "line")
    publish(publisher)
    assert log_entries_of(job) == []


@pytest.mark.slow
def test_a_running_jobs_output_can_be_followed(tmp_path: Path) -> None:
    entries: list[LogEntry] = []
    make_stand_in(
        tmp_path,
        "print('one', flush=True); print('two', file=sys.stderr, flush=True)\n"
        "for n in range(30): print(f'{n} of 30', end='\\r', flush=True); time.sleep(0.1)",
    )

    def follow(job: Job) -> None:
        wait_until(lambda: len(entries_of(job)) > 2)
        entries.extend(entries_of(job))

    run_with_action(follow)
    lines = [(entry.source, entry.message) for entry in entries]
    assert len(lines) == 3
    assert {("stdout", "one"), ("stderr", "two")} < set(lines)
    assert lines[-1][1].endswith("of 30")


def writes_of(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> list[Progress]:
    """Return a list that each write of a publisher adds its progress to."""
    written, store = list[Progress](), publisher._store

    def write(progress: Progress) -> None:
        written.append(progress)
        store(progress)

    monkeypatch.setattr(publisher, "_store", write)
    return written


def test_only_changes_are_published(publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    written = writes_of(publisher, monkeypatch)
    publish(publisher)
    publish(publisher)
    assert len(written) == 1
    publisher.log.update("stdout", "an open line")
    publish(publisher)
    publish(publisher)
    assert len(written) == 2
    publisher.log.end_line("stdout")
    publish(publisher)
    publish(publisher)
    assert len(written) == 3
    publisher.next_at = 0
    publisher.publish(Progress(percent=1, stage=None))
    assert len(written) == 4


def test_unchanged_progress_returns_after_redis_was_emptied(
    job: Job, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "REFRESH_SECONDS", 0.0)
    publisher.publish(Progress(percent=61.5, stage=None))
    redis().flushdb()
    publisher.next_at = 0
    publisher.publish(Progress(percent=61.5, stage=None))
    assert progress.last_percent(job) == 61.5


def test_what_redis_did_not_store_is_published_again(
    job: Job, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise RedisError

    with monkeypatch.context() as patch:
        patch.setattr(progress, "redis", refuse)
        publish(publisher)
    outage.record_success()
    publish(publisher)
    assert redis().exists(progress.log_key_of(job).replace("log", "progress"))
