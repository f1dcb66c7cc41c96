"""The restarted worker recovers the job of a killed worker at once."""

import statistics
import time
from datetime import datetime

import psutil
import psycopg
import pytest

from localstack.supervisor import STABLE_SECONDS
from tests.billing.ledger_state import LONG as IS_LONG
from tests.stack import LONG, Stack, below

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(900)]

KILLS = 20 if IS_LONG else 1
RUNNING = "SELECT min(at) FROM jobs_jobevent WHERE job_id = %s AND attempt = 2 AND to_status = 'running'"
RECOVERED = "SELECT count(*) FROM jobs_jobevent WHERE job_id = %s AND to_status = 'queued' AND reason LIKE %s"


def test_a_killed_workers_job_runs_again_at_once(stack: Stack) -> None:
    seconds = sorted(kill_while_running(stack) for _ in range(KILLS))
    print(  # noqa: T201 - the figures of the proof
        f"{KILLS} jobs of killed workers ran again after {seconds[0]:.1f} to {seconds[-1]:.1f} s, "
        f"median {statistics.median(seconds):.1f}"
    )


def kill_while_running(stack: Stack) -> float:
    """Kill the worker of a running job. Return the seconds until it runs again and its old simulator is gone."""
    worker = stack.worker()
    time.sleep(max(0.0, worker.create_time() + STABLE_SECONDS + 1 - time.time()))
    job_id = stack.submit(LONG)
    stack.wait(job_id, lambda job: job["status"] == "running", seconds=20)
    simulators = below(worker, "minisim")
    assert simulators
    killed_at = time.time()
    worker.kill()
    running_at = wait_for_second_attempt(stack, job_id)
    assert not [each for each in simulators if is_alive(each)]
    stack.call("POST", f"jobs/{job_id}/cancel")
    job = stack.wait_for_end(job_id)
    assert (job["status"], job["retried"]) == ("cancelled", True)
    return running_at.timestamp() - killed_at


def wait_for_second_attempt(stack: Stack, job_id: str) -> datetime:
    """Wait until the second attempt of a recovered job runs. Return when it started.

    The reason in its history shows that the restarted worker returned the job, and not the sweep after its lease.
    """
    deadline = time.monotonic() + 60
    with psycopg.connect(stack.ready["databaseUrl"], autocommit=True) as database:
        while True:
            (found,) = database.execute(RUNNING, [job_id]).fetchall()
            if found[0] is not None:
                assert database.execute(RECOVERED, [job_id, "% was killed"]).fetchall() == [(1,)]
                running_at: datetime = found[0]
                return running_at
            assert time.monotonic() < deadline, "the job is lost"
            time.sleep(0.05)


def is_alive(process: psutil.Process) -> bool:
    return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
