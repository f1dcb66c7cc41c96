"""One stack for all end-to-end tests, and receivers of its webhooks and traces."""

from collections.abc import Iterator

import pytest

from tests.http_receiver import HttpReceiver, http_receiver
from tests.stack import Stack, running_stack
from tests.webhooks.receivers import Receiver, make_authority, receiving

METRICS_TOKEN = "the token of Prometheus"


@pytest.fixture(scope="session")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    """A receiver on this machine with its own certificate authority."""
    with receiving(make_authority(tmp_path_factory.mktemp("authority"))) as running:
        yield running


@pytest.fixture(scope="session")
def collector() -> Iterator[HttpReceiver]:
    """A receiver of the traces."""
    with http_receiver() as running:
        yield running


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver, collector: HttpReceiver) -> Iterator[Stack]:
    """A stack with one simulation slot, whose processes send traces every half second."""
    chosen = {
        "SIM_SLOTS": "1",
        # Short leases, so that lost workers are noticed soon.
        "LEASE_SECONDS": "6",
        "HEARTBEAT_SECONDS": "2",
        "WEBHOOK_SECRETS_KEYS": "for the tests' stack",
        "WEBHOOK_ALLOWED_ADDRESSES": receiver.address,
        "WEBHOOK_CA_FILE": str(receiver.ca_file),
        "METRICS_TOKEN": METRICS_TOKEN,
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "500",
    }
    with running_stack(tmp_path_factory.mktemp("stack"), **chosen) as started:
        yield started
