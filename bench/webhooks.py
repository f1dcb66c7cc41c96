"""Signed webhook deliveries per second from one worker to a local receiver over TLS. Takes one minute.

Three rates: to a receiver that keeps connections open, to one that closes them after each response, and to one that
keeps them open while every fifth client's receiver hangs.

Receiver and database run in their own processes; the database writes to disk before it responds, as in production.
"""

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.api import processor_seconds
from bench.figures import Value, Values
from bench.stores import django_on_stores
from tests.webhooks.receivers import Authority, make_authority

CLIENTS = 50
EVENTS_EACH = 300
SECONDS = 12.0
# The hanging receivers are detected during the warm-up.
WARM_UP_SECONDS = 2.0
PAYLOAD = {"id": "1" * 18, "status": "completed", "statusReason": None, "errorCode": None}


def fill(url: str, *, hanging: int = 0, path: str = "/hook") -> None:
    """Make due events for many clients, to be sent to a path; the receivers of the first ones hang."""
    from django.db import connection

    from billing.models import Account
    from clients.models import Client
    from webhooks import endpoints, events
    from webhooks.models import Endpoint, Event

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE webhooks_delivery, webhooks_event, webhooks_endpoint, clients_client CASCADE")
    encrypted = endpoints.encrypt_secret(endpoints.new_secret())
    for number, account in enumerate(Account.objects.order_by("pk")):
        client = Client.objects.create(account=account, name="bench")
        own_path = "/hang" if number < hanging else path
        Endpoint.objects.create(client=client, url=url + own_path, secret=encrypted)
        one = events.record(client.pk, job_id=None, payload=PAYLOAD)
        due = {"client": client, "body": one.body, "created_at": one.created_at, "next_attempt_at": one.created_at}
        Event.objects.bulk_create(Event(**due) for _ in range(EVENTS_EACH - 1))


def rate(seconds: float) -> tuple[float, float]:
    """Deliver for a while; return successes per second after the warm-up, and CPU milliseconds per success.

    The CPU time includes worker, database and receiver.
    """
    from webhooks.dispatcher import Dispatcher
    from webhooks.models import Event

    def delivered() -> int:
        return Event.objects.filter(state=Event.State.DELIVERED).count()

    stop = threading.Event()
    worker = threading.Thread(target=Dispatcher(stop).run)
    worker.start()
    time.sleep(WARM_UP_SECONDS)
    while not delivered():
        assert worker.is_alive(), "nothing is delivered"
        time.sleep(0.1)
    before, worked, started = delivered(), _worked_seconds(), time.perf_counter()
    time.sleep(seconds)
    done, elapsed = delivered() - before, time.perf_counter() - started
    cost = (_worked_seconds() - worked) / done * 1000
    stop.set()
    worker.join()
    return done / elapsed, cost


def _worked_seconds() -> float:
    """Return the CPU time of this process, which delivers, and of the servers below it."""
    return time.process_time() + processor_seconds()


def open_accounts() -> None:
    """Make an account for each client."""
    from billing.models import Account, Plan

    plan = Plan.objects.create(name="bench")
    Account.objects.bulk_create([Account(name=f"bench-{number}", plan=plan) for number in range(CLIENTS)])


@contextmanager
def receiver(certificate: Path) -> Iterator[int]:
    """Run the receiver in a new process and yield its port."""
    command = [sys.executable, "-m", "bench.receiver", str(certificate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def measure(*, quick: bool) -> Values:
    """Return the rate of deliveries, with new connections, and while one receiver in five hangs."""
    seconds = SECONDS / 3 if quick else SECONDS
    with tempfile.TemporaryDirectory() as directory:
        authority = make_authority(Path(directory))
        with receiver(authority.server_file) as port, django_on_stores(**_settings(port, authority)):
            open_accounts()
            url = f"https://localhost:{port}"
            fill(url)
            healthy, cost = rate(seconds)
            fill(url, path="/close")
            closing, closing_cost = rate(seconds)
            fill(url, hanging=CLIENTS // 5)
            with_hanging, _ = rate(seconds)
    return {
        "webhooks.rate": Value(healthy, f"{cost:.1f} CPU ms each"),
        "webhooks.closing": Value(closing, f"{closing_cost:.1f} CPU ms each"),
        "webhooks.hanging": Value(with_hanging),
    }


def _settings(port: int, authority: Authority) -> dict[str, str]:
    return {"WEBHOOK_ALLOWED_ADDRESSES": f"localhost:{port}", "WEBHOOK_CA_FILE": str(authority.ca_file)}
