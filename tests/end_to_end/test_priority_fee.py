"""High priority is free while real workers have idle slots."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.end_to_end.test_metrics import scrape
from tests.jobs import simulation_workers
from tests.stack import ROOT, Stack
from tests.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(240)]

ROUNDS = 5
# The command with which an operator adds a worker to a stack
WORKER = 'set -a; . "$0"; exec "$@" --hostname second@%h --concurrency 2'


@pytest.fixture
def three_slots(stack: Stack) -> Iterator[None]:
    """A second worker, with two more slots."""
    command = ["/bin/sh", "-c", WORKER, str(stack.data / "stack.env"), sys.executable, *simulation_workers.WORKER]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as worker:
        try:
            wait_for_slots(stack, 3)
            yield
            worker.terminate()
            assert worker.wait(30) == 0
        finally:
            worker.kill()
    wait_for_slots(stack, 1)


def wait_for_slots(stack: Stack, count: int) -> None:
    wait_until(lambda: scrape(stack)["slots",] == count)


def fees_of(stack: Stack, *lanes: str) -> list[int]:
    """Submit a job of each priority at once, wait for them to end, and return their fees."""
    jobs = [stack.submit(priority=lane) for lane in lanes]
    return [stack.wait_for_end(job_id)["runtime"]["priorityFeeCredits"] for job_id in jobs]


def test_idle_slots_make_high_priority_free(stack: Stack, three_slots: None) -> None:
    fees = [fees_of(stack, "standard", "high") for _ in range(ROUNDS)]
    assert fees == [[0, 0]] * ROUNDS
