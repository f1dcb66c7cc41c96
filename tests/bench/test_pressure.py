"""The load and the figures of `make pressure`."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from django.db import connection

from bench import pressure, soak
from bench.callers import Caller
from bench.disturbances import SCENARIOS, Site
from bench.lab import LocalStack, number
from bench.pressure import Load, pages_of_claim
from jobs.lifecycle import job_moves
from jobs.models import Job
from localstack.redis_server import free_port
from tests.factories import make_job, make_running_job
from tests.waiting import wait_until


class Unreliable(BaseHTTPRequestHandler):
    """Refuses the first submission with each idempotency key, and accepts the next one."""

    keys: Counter[str]

    def do_POST(self) -> None:
        key = self.headers["Idempotency-Key"]
        self.rfile.read(int(self.headers["Content-Length"]))
        self.keys[key] += 1
        self.send_response(503 if self.keys[key] == 1 else 200)
        self.end_headers()
        self.wfile.write(json.dumps({"id": key.rpartition("-")[2]}).encode())

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def unreliable_server() -> Iterator[tuple[str, Counter[str]]]:
    """Run the server during the block; yield its address and how often it received each key."""
    keys = Counter[str]()
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Unreliable,), {"keys": keys})) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", keys
        finally:
            server.shutdown()


def test_a_refused_submission_is_repeated_with_its_key() -> None:
    with unreliable_server() as (url, keys):
        load = Load(url, ["key"], rate=1000)
        thread = threading.Thread(target=load.work)
        thread.start()
        try:
            wait_until(lambda: len(load.accepted) >= 3)
        finally:
            load.close()
            thread.join()
    assert load.accepted == list(range(1, len(load.accepted) + 1))
    assert set(keys.values()) == {2}
    assert load.refused.total() == len(load.accepted)
    assert load.given_up == []


def test_a_caller_can_be_used_after_a_refused_connection() -> None:
    caller = Caller(f"http://127.0.0.1:{free_port()}", "key")
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            caller.submit()


def test_a_burst_is_due_at_once() -> None:
    load = Load("http://127.0.0.1", [], rate=0.001)
    load.add_burst(2)
    assert [load._wait_until_due() for _ in range(2)] == [1, 2]


@pytest.mark.django_db(transaction=True)
def test_the_pages_of_a_claim_are_read_without_claiming() -> None:
    job = make_job()
    with psycopg.connect(**connection.get_connection_params() | {"cursor_factory": None}) as database:
        assert pages_of_claim(psycopg.ClientCursor(database)) > 0
    assert Job.objects.get(pk=job.pk).status == "pending"


@pytest.mark.django_db
@pytest.mark.parametrize(("ends", "longest"), [([], 100), ([30], 70), ([40, 50], 50)])
def test_a_pause_can_begin_and_end_the_time_in_question(ends: list[int], longest: int) -> None:
    for end in ends:
        job = make_running_job()
        assert job_moves.finish(job, job_moves.INTERNAL)
        Job.objects.filter(pk=job.pk).update(completed_at=datetime.fromtimestamp(1000 + end, UTC))
    assert number(pressure.PAUSE, 1000, 1100, 1000, 1100) == longest


def test_the_jobs_of_a_burst_are_due_too() -> None:
    assert SCENARIOS["burst"].due_rate(20, seconds=100) == 25
    assert SCENARIOS["sustained"].due_rate(20, seconds=100) == 35


@pytest.mark.django_db
def test_two_submissions_with_one_job_are_a_loss() -> None:
    job = make_job()
    assert [soak.count_without_job(ids) for ids in ([job.pk], [job.pk] * 2, [job.pk, 1])] == [0, 1, 1]


def test_shares_are_judged_by_their_aims() -> None:
    assert pressure._judged(0.98, 0.98) == "98.0% ✓"
    assert pressure._judged(0.9, 0.98) == "90.0% ✗"


def test_the_extremes_of_samples() -> None:
    assert pressure._extremes([[1, 2], [3000], [5, 4]]) == "2, 3,000, 4"
    assert pressure._extremes([[1], [2], []]) == "1, 2, -"
    assert pressure._extremes([[], [], []]) == "-, -, -"


@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_a_round_begins_unless_the_disturbance_is_over(seconds: float) -> None:
    stack = LocalStack(url="", folder=Path(), supervisor=psutil.Process())
    site = Site(stack=stack, database_url="", seconds=seconds)
    assert len(list(site.rounds(60))) == (1 if seconds else 0)
