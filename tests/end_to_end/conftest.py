"""One stack for all end-to-end tests, and a receiver of its traces."""

from collections.abc import Iterator

import pytest

from tests.http_receiver import HttpReceiver, http_receiver
from tests.stack import Stack, running_stack

METRICS_TOKEN = "the token of Prometheus"


@pytest.fixture(scope="session")
def collector() -> Iterator[HttpReceiver]:
    """A receiver of the traces."""
    with http_receiver() as running:
        yield running


@pytest.fixture(scope="session")
def stack(
    tmp_path_factory: pytest.TempPathFactory, webhook_settings: dict[str, str], collector: HttpReceiver
) -> Iterator[Stack]:
    """A stack with one simulation slot, whose processes send traces every half second."""
    chosen = {
        "SIM_SLOTS": "1",
        # Short leases, so that lost workers are noticed soon.
        "LEASE_SECONDS": "6",
        "HEARTBEAT_SECONDS": "2",
        **webhook_settings,
        "METRICS_TOKEN": METRICS_TOKEN,
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "500",
    }
    with running_stack(tmp_path_factory.mktemp("stack"), **chosen) as started:
        yield started
