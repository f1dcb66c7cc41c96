"""Signed webhook deliveries per second from one worker to a local receiver over TLS.

Three rates: to a receiver that keeps connections open, to one that closes them after each response, and to one that
keeps them open while every fifth client's receiver hangs. Receiver and database run in their own processes.
"""

import functools
import threading
import time
from contextlib import ExitStack

import psutil
from django.db import connection
from django.test import override_settings

from bench import processes, receiver
from bench.accounts import open_accounts
from bench.figures import Value, Values
from bench.lab import LocalStack
from clients.models import Client
from webhooks import endpoints, events
from webhooks.dispatcher import Dispatcher
from webhooks.models import Endpoint, Event

CLIENTS = 50
EVENTS_EACH = 300
SECONDS, QUICK_SECONDS = 12.0, 4.0
# The hanging receivers are detected during the warm-up.
WARM_UP_SECONDS = 2.0
PAYLOAD = {"id": "1" * 18, "status": "completed", "statusReason": None, "errorCode": None}


def measure(stack: LocalStack, *, quick: bool) -> Values:
    """Return the rate of deliveries, with new connections, and while one receiver in five hangs."""
    seconds, certificate = QUICK_SECONDS if quick else SECONDS, stack.folder / "receiver.pem"
    clients = [Client.objects.create(account=account, name="bench") for account in open_accounts(CLIENTS)]
    with receiver.running(certificate) as address, ExitStack() as stop:
        stop.enter_context(processes.suspended(stack.supervisor))
        load = functools.partial(_rate, stack, clients, address, seconds=seconds)
        stop.enter_context(override_settings(WEBHOOK_ALLOWED_ADDRESSES=[address], WEBHOOK_CA_FILE=str(certificate)))
        rates = {"rate": load(), "closing": load(path="close"), "hanging": load(hanging=CLIENTS // 5)}
    return {f"webhooks.{name}": rate for name, rate in rates.items()}


def _rate(
    stack: LocalStack, clients: list[Client], address: str, *, seconds: float, path: str = "hook", hanging: int = 0
) -> Value:
    """Deliver for a while; return the successes per second after the warm-up. The first receivers hang."""
    fill([f"https://{address}/{'hang' if number < hanging else path}" for number in range(len(clients))], clients)
    stop = threading.Event()
    worker = threading.Thread(target=Dispatcher(stop).run)
    worker.start()
    time.sleep(WARM_UP_SECONDS)
    while not _delivered():
        assert worker.is_alive(), "nothing is delivered"
        time.sleep(0.1)
    before, worked, started = _delivered(), _worked_seconds(stack), time.perf_counter()
    time.sleep(seconds)
    done, elapsed = _delivered() - before, time.perf_counter() - started
    cost = (_worked_seconds(stack) - worked) / done * 1000
    stop.set()
    worker.join()
    return Value(done / elapsed, f"{cost:.1f} CPU ms each")


def fill(urls: list[str], clients: list[Client]) -> None:
    """Replace all endpoints, and make due events for each."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE webhooks_delivery, webhooks_event, webhooks_endpoint")
    secret = endpoints.encrypt_secret(endpoints.new_secret())
    for url, client in zip(urls, clients, strict=True):
        Endpoint.objects.create(client=client, url=url, secret=secret)
        one = events.record(client.pk, job_id=None, payload=PAYLOAD)
        due = {"client": client, "body": one.body, "created_at": one.created_at, "next_attempt_at": one.created_at}
        Event.objects.bulk_create(Event(**due) for _ in range(EVENTS_EACH - 1))


def _delivered() -> int:
    return Event.objects.filter(state=Event.State.DELIVERED).count()


def _worked_seconds(stack: LocalStack) -> float:
    """Return the CPU seconds of this process, which delivers, of its child, the receiver, and of the stack."""
    times = [each.cpu_times() for each in (psutil.Process(), *psutil.Process().children())]
    own = sum(each.user + each.system for each in times)
    return float(own) + sum(processes.cpu_seconds(stack.supervisor).values())
