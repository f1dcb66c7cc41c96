"""A self-hosted front end that sends its chunks to the service, as the API's resource `simc`."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from tests.end_to_end.front_end import Chunk, Crash, FrontEnd, make_chunks
from tests.sdk.fault_proxy import FaultProxy, disturbing, lose_answer, refuse, truncate
from tests.stack import ROOT, Stack, running_stack

pytestmark = [pytest.mark.xdist_group("front end"), pytest.mark.timeout(420)]

CHUNKS, SIZE, FIRST = 48, 8, 30
# Answers that the network loses, and the reservations that a new account holds at least
LOST, SEVERAL = 3, 4
# Far fewer than the chunks, so that the limit is met on any machine
MAX_ACTIVE_JOBS = 10
# Opens an account with the credits of a sign-up, and prints its key.
OPEN_ACCOUNT = """
from django.conf import settings
from billing import ledger
from billing.models import GrantReason, Plan
from clients.accounts import default_client, open_account
from clients.audit import COMMAND_LINE
from clients.keys import create_key
account = open_account("raiders", plan=Plan.objects.get(name="standard"))
ledger.grant(account, settings.SIGNUP_CREDITS, reason=GrantReason.ONBOARDING)
print(create_key(default_client(account), by=COMMAND_LINE)[1])
"""
LIMIT = "UPDATE billing_plan SET max_active_jobs = %s"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack of a self-hosted service with two slots."""
    chosen = {
        "API_RESOURCE": "simc",
        "SIM_SLOTS": "2",
        "SWEEP_SECONDS": "1",
    }
    with running_stack(tmp_path_factory.mktemp("front end"), **chosen) as started:
        with psycopg.connect(started.ready["databaseUrl"]) as database:
            database.execute(LIMIT, [MAX_ACTIVE_JOBS])
        yield started


def open_account(stack: Stack) -> str:
    """Open an account like a sign-up, and return its API key."""
    environment = os.environ | {"DATABASE_URL": stack.ready["databaseUrl"], "REDIS_URL": stack.ready["redisUrl"]}
    command = [sys.executable, "manage.py", "shell", "-v0", "-c", OPEN_ACCOUNT]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()[-1]


@dataclass(frozen=True)
class Night:
    """What a front end has done: its chunks, their jobs by key, and the credits before it began."""

    stack: Stack
    network: FaultProxy
    chunks: list[Chunk]
    crashed: FrontEnd
    restarted: FrontEnd
    jobs: dict[str, str]
    statuses: dict[str, str]
    credits_before: int

    @property
    def cancelled(self) -> Chunk:
        return self.chunks[-1]


@pytest.fixture(scope="module")
def night(stack: Stack) -> Iterator[Night]:
    """The work of a front end that crashes, starts again and cancels a chunk, over a network that loses answers."""
    chunks = make_chunks(CHUNKS, size=SIZE, prefix="droptimizer")
    key = open_account(stack)
    with disturbing(stack.ready["url"]) as network:
        crashed, restarted = FrontEnd(network.url, key), FrontEnd(network.url, key)
        credits_before = crashed.credits()
        network.disturb("/jobs", *[lose_answer] * LOST, refuse(503, **{"Retry-After": "1"}))
        with pytest.raises(Crash):
            crashed.submit_all(chunks, crash_after=FIRST)
        jobs = restarted.submit_all(chunks)
        restarted.cancel(jobs[chunks[-1].key])
        network.disturb("/status", *[lose_answer] * LOST)
        statuses = restarted.wait_for([*jobs.values()], seconds=300)
        network.disturb("/artifacts/", lose_answer, truncate(50))
        yield Night(stack, network, chunks, crashed, restarted, jobs, statuses, credits_before)


def test_every_chunk_is_one_job(night: Night) -> None:
    assert len(set(night.jobs.values())) == CHUNKS
    # A lost answer came later, as the response to the same key. A busy machine can lose more of them.
    assert night.crashed.replayed >= LOST
    assert night.restarted.replayed >= FIRST
    listed = night.restarted.call("GET", "jobs?limit=100").json()["jobs"]
    assert {job["metadata"]["chunk"]: job["id"] for job in listed} == night.jobs
    ended = Counter(night.statuses.values())
    assert ended == {"completed": CHUNKS - 1, "cancelled": 1}
    assert night.statuses[night.jobs[night.cancelled.key]] == "cancelled"


def test_the_front_end_met_the_limits_and_went_on(night: Night) -> None:
    met = night.crashed.answers + night.restarted.answers
    assert met.keys() >= {429, 503}
    assert night.restarted.log_lines > 0


def test_a_new_account_holds_several_long_reservations(night: Night) -> None:
    assert max(night.crashed.most_active, night.restarted.most_active) >= SEVERAL


def test_every_combination_is_reported_once(night: Night) -> None:
    expected = [name for chunk in night.chunks if chunk is not night.cancelled for name in chunk.names]
    reports = {
        chunk.key: night.restarted.report(night.jobs[chunk.key])
        for chunk in night.chunks
        if chunk is not night.cancelled
    }
    found = [entry["name"] for report in reports.values() for entry in report["sim"]["profilesets"]["results"]]
    assert sorted(found) == sorted(expected)
    assert all(
        entry["mean"] > 0 for report in reports.values() for entry in report["sim"]["profilesets"]["results"]
    )


def test_the_bills_are_the_change_of_the_balance(night: Night) -> None:
    bills = [night.restarted.call("GET", f"jobs/{job_id}").json()["runtime"] for job_id in night.jobs.values()]
    spent = sum(bill["creditsConsumed"] for bill in bills)
    assert night.restarted.credits() == night.credits_before - spent
    assert all(bill["creditsConsumed"] % bill["creditsPerSecond"] == 0 for bill in bills)
    assert spent > 0
    night.stack.manage("verifyledger")
