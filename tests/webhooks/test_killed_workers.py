"""Delivery workers killed at any point: every event arrives at least once, with one event id."""

import os
import signal
import subprocess
import sys
import time
from random import Random
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection

from clients.audit import SYSTEM
from clients.models import Client
from tests.billing.ledger_state import LONG
from tests.factories import make_account, make_client
from tests.waiting import wait_until
from tests.webhooks.fault_points import POINTS
from tests.webhooks.helpers import write_events
from tests.webhooks.receivers import Receiver
from webhooks import endpoints, retries, tasks
from webhooks.models import Delivery, Event

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

# The points of a short test run.
FEW = ["request sent", "outcome logged, not committed"]
KILLS = 40


def start_worker(receiver: Receiver, *point: str) -> subprocess.Popen[bytes]:
    """Start a worker process on the test's database."""
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    variables = {
        "DATABASE_URL": url,
        "LOG_LEVEL": "ERROR",
        **receiver.settings(),
        "WEBHOOK_PER_SECOND": "1000",
    }
    command = [sys.executable, "-m", "tests.webhooks.worker", *point]
    return subprocess.Popen(command, cwd=settings.BASE_DIR, env=os.environ | variables)


def deliver_rest() -> None:
    """Deliver the remaining events, like a new worker after the leases expire."""
    wait_until(lambda: retries.recover_lost() > 0 or not Event.objects.filter(state="sending").exists())
    tasks.deliver()


def require_all_delivered(receiver: Receiver) -> None:
    """Assert that each event arrived, and nothing else."""
    events = dict(Event.objects.values_list("name", "state"))
    assert set(events.values()) == {"delivered"}
    assert set(receiver.events()) == set(events)
    arrived = {(request.event, request.body) for request in receiver.received}
    assert len(arrived) == len(events)
    assert not Delivery.objects.filter(outcome="sending").exists()
    assert Delivery.objects.filter(outcome="delivered").count() == len(events)


@pytest.mark.parametrize("point", POINTS if LONG else FEW)
def test_a_killed_worker_loses_no_event(point: str, configured: tuple[Client, str], receiver: Receiver) -> None:
    write_events(configured[0], 6)
    assert start_worker(receiver, point).wait(60) == -signal.SIGKILL
    deliver_rest()
    # The killed worker may have used up the throughput or locked the endpoint.
    while Event.objects.exclude(state="delivered").exists():
        tasks.deliver()
    require_all_delivered(receiver)


@pytest.mark.skipif(not LONG, reason="kills many workers")
@pytest.mark.timeout(1800)
def test_many_killed_workers_lose_no_event(receiver: Receiver) -> None:
    random = Random(8)  # noqa: S311
    for _ in range(10):
        client = make_client(make_account())
        endpoints.configure(client, receiver.url(), by=SYSTEM)
    for _ in range(KILLS):
        for client in Client.objects.filter(is_default=False):
            write_events(client, 5)
        receiver.arrived.clear()
        worker = start_worker(receiver)
        assert receiver.arrived.wait(60)
        time.sleep(random.random() * 0.4)
        worker.kill()
        worker.wait()
    assert start_worker(receiver).wait(600) == 0
    require_all_delivered(receiver)
    repeated = len(receiver.received) - Event.objects.count()
    lost = Delivery.objects.filter(outcome="lost").count()
    sys.stdout.write(f"{Event.objects.count()} events, {lost} attempts lost, {repeated} delivered again\n")
    assert lost > KILLS
