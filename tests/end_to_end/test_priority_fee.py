"""High priority is free while real workers have idle slots."""

from pathlib import Path

import pytest

from tests.stack import Stack, running_stack

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("stack"), pytest.mark.timeout(400)]

SLOTS = 3
ROUNDS = 5


def fees_of(stack: Stack, *lanes: str) -> list[int]:
    """Submit a job of each priority at once, wait for them to end, and return their fees."""
    jobs = [stack.submit(priority=lane) for lane in lanes]
    return [stack.wait_for_end(job_id)["runtime"]["priorityFeeCredits"] for job_id in jobs]


def test_idle_slots_make_high_priority_free(tmp_path: Path) -> None:
    with running_stack(tmp_path / "stack", SIM_SLOTS=str(SLOTS)) as stack:
        fees = [fees_of(stack, "standard", "high") for _ in range(ROUNDS)]
    assert fees == [[0, 0]] * ROUNDS
