"""Signed webhook deliveries per second from one worker to a local receiver, each over a new TLS connection, and
the same while every fifth client's receiver hangs. Takes 40 seconds.

Receiver and database run in their own processes; the database writes to disk before it responds, as in production.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.api import processor_seconds
from localstack.postgres import start_postgres
from localstack.supervisor import Supervisor
from tests.webhooks.receivers import make_authority

CLIENTS = 50
EVENTS_EACH = 200
SECONDS = 12.0
# The hanging receivers are detected during the warm-up.
WARM_UP_SECONDS = 2.0
PAYLOAD = {"id": "1" * 18, "status": "completed", "statusReason": None, "errorCode": None}


def fill(url: str, *, hanging: int) -> None:
    """Make due events for many clients; the receivers of the first ones hang."""
    from django.db import connection, transaction

    from billing.models import Account
    from clients.models import Client
    from webhooks import endpoints, events
    from webhooks.models import Endpoint

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE webhooks_delivery, webhooks_event, webhooks_endpoint, clients_client CASCADE")
    encrypted = endpoints.encrypt_secret(endpoints.new_secret())
    for number, account in enumerate(Account.objects.order_by("pk")):
        client = Client.objects.create(account=account, name="bench")
        path = "/hang" if number < hanging else "/hook"
        Endpoint.objects.create(client=client, url=url + path, secret=encrypted)
        with transaction.atomic():
            for _ in range(EVENTS_EACH):
                events.record(client.pk, job_id=None, payload=PAYLOAD)
            # The dispatcher polls, so it needs no announcement.
            connection.run_on_commit.clear()


def rate() -> tuple[float, float]:
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
    before, worked, started = delivered(), _worked_seconds(), time.perf_counter()
    time.sleep(SECONDS)
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


def measure(port: int) -> dict[str, str]:
    """Set up Django on the environment's database and return the rows."""
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    open_accounts()
    url = f"https://localhost:{port}"
    fill(url, hanging=0)
    healthy, cost = rate()
    fill(url, hanging=CLIENTS // 5)
    with_hanging, cost_with_hanging = rate()
    return {
        "signed deliveries": f"{healthy:.0f} / s, {cost:.1f} CPU ms each",
        "with one receiver in five hanging": f"{with_hanging:.0f} / s ({with_hanging / healthy - 1:+.0%}), "
        f"{cost_with_hanging:.1f} CPU ms each",
    }


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


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        authority = make_authority(folder)
        supervisor = Supervisor()
        try:
            url = start_postgres(
                supervisor,
                folder / "postgres",
                log=folder / "postgres.log",
                password="bench",  # noqa: S106
            )
            with receiver(authority.server_file) as port:
                os.environ |= {
                    "DATABASE_URL": url,
                    "REDIS_URL": "redis://127.0.0.1:1",
                    "SECRET_KEY": "bench",
                    "LOG_LEVEL": "ERROR",
                    "WEBHOOK_ALLOWED_ADDRESSES": f"localhost:{port}",
                    "WEBHOOK_CA_FILE": str(authority.ca_file),
                    "DJANGO_SETTINGS_MODULE": "simservice.settings",
                }
                rows = measure(port)
        finally:
            supervisor.stop()
    sys.stdout.writelines(f"{name:<34}{figure:>40}\n" for name, figure in rows.items())


if __name__ == "__main__":
    main()
