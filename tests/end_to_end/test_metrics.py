"""Metrics of jobs that real workers run, as Prometheus reads them."""

import time

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.end_to_end.conftest import METRICS_TOKEN
from tests.stack import Stack
from tests.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(240)]

COUNTED = {
    ("jobs_submitted_total", "standard"),
    ("job_wait_seconds_count", "standard"),
    ("job_run_seconds_count", "standard"),
    ("jobs_ended_total", "standard", "completed"),
}


def scrape(stack: Stack) -> dict[tuple[str, ...], float]:
    """Return the values of all series by name and label values."""
    headers = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    text = requests.get(f"{stack.ready['url']}/metrics", headers=headers, timeout=10).text
    families = text_string_to_metric_families(text)
    samples = [sample for family in families for sample in family.samples]
    return {(each.name.removeprefix("simservice_"), *each.labels.values()): each.value for each in samples}


def grown(before: dict[tuple[str, ...], float], after: dict[tuple[str, ...], float]) -> set[tuple[str, ...]]:
    """Return the series whose value is larger than before."""
    return {name for name, value in after.items() if value > before.get(name, 0)}


def test_the_work_of_all_processes_is_counted(stack: Stack) -> None:
    """The web server accepts the job, and a worker claims, runs and ends it."""
    before = scrape(stack)
    stack.wait_for_end(stack.submit())
    deadline = time.monotonic() + PATIENCE_SECONDS
    # A worker that another test killed counts for ten more seconds.
    while (missing := COUNTED - grown(before, after := scrape(stack))) or after["slots",] != 1:
        assert time.monotonic() < deadline, (missing, after["slots",])
        time.sleep(0.2)
    assert ("queue_depth_per_slot",) in after
