"""That the real processes tell when a job will start, and that it comes nearer."""

import time
from itertools import pairwise

import psycopg
import pytest

from tests.stack import Stack

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(240)]

SECONDS = 'mage="Seconds"\nlevel=80\niterations=250000\nmax_time=300\n'


def estimates(stack: Stack, job_id: str) -> list[int]:
    """Poll a waiting job until it starts; return the estimates it was told, repetitions left out."""
    told: list[int] = []
    while queue := stack.call("GET", f"jobs/{job_id}/status")["queue"]:
        seconds = queue["estimatedStartSeconds"]
        if seconds is not None and told[-1:] != [seconds]:
            told.append(seconds)
        time.sleep(0.2)
    return told


def test_the_estimate_falls_while_the_queue_drains(stack: Stack) -> None:
    with psycopg.connect(stack.ready["databaseUrl"]) as database:
        # What other tests ran was quicker.
        database.execute("UPDATE jobs_run SET wall_ms = NULL")
    stack.wait_for_end(stack.submit(SECONDS, runtime={"maxCredits": 32 * 2}))
    ids = [stack.submit(SECONDS, runtime={"maxCredits": 32 * 2}) for _ in range(5)]
    told = estimates(stack, ids[-1])
    # The first answers may be from a look at the queue before the other jobs came.
    told = told[told.index(max(told)) :]
    assert len(told) >= 3
    # Each run that ends is measured too and may shift what is expected of the others, but not for long.
    falls = [sooner - later for sooner, later in pairwise(told)]
    assert sum(fall > 0 for fall in falls) > sum(fall < 0 for fall in falls)
    assert told[-1] < told[0] / 2
