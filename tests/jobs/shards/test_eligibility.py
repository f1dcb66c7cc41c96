"""Stages that run as one process, and why."""

from dataclasses import dataclass
from typing import Any

import pytest

from jobs.execution.shard_plan import NotSharded, reason_not_sharded
from jobs.models import Job
from simc.profiles.analysis import analyse
from simc.profiles.numbers import Bounds
from simc.profiles.policy import Rules

SETS = "".join(f"profileset.s{number}+=level={number}\n" for number in range(1, 9))
MAGE = f"mage=A\nenemy=B\n{SETS}"


@dataclass(frozen=True, kw_only=True)
class Case:
    """The facts that decide. By default, the stage may be cut."""

    text: str = MAGE
    slots: int = 2
    count: int = 8
    iterations: int = 50
    seconds: float | None = None
    has_html: bool = False
    has_credentials: bool = False
    submitted_text: str | None = None

    @property
    def reason(self) -> NotSharded | None:
        analysis = analyse(
            self.text,
            rules=Rules(has_credentials=self.has_credentials),
            bounds=Bounds(iterations=250_000, target_error=0.01),
        )
        assert not analysis.refused
        return reason_not_sharded(
            Job(parallel_slots=self.slots, has_credentials=self.has_credentials),
            analysis,
            text=self.text,
            submitted_text=self.text if self.submitted_text is None else self.submitted_text,
            has_html=self.has_html,
            count=self.count,
            iterations=self.iterations,
            expected_seconds=self.seconds,
        )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"count": 2, "seconds": 4.0},
        {"text": f"$(x)=1\n$(y)=$(x)\n{MAGE}profileset.s1+=role=$(y)"},
        {"text": f"{MAGE}deterministic=1 seed=5 iterations=100 calculate_scale_factors=1"},
        {"text": f"{MAGE}iterations=-1 target_error=0"},
        {"text": f"{MAGE}target_error=0e-400"},
        {"text": f"{MAGE}target_error=0x0p-2000"},
        {"text": f"{MAGE}profileset.{'n' * 10_000}+=level=1"},
        {"text": f"{MAGE}profileset_metric=raid_dps/dps"},
        # A class that the service does not know.
        {"text": f"tinker=A\nspec=x\n{SETS}"},
    ],
)
def test_a_stage_with_many_profilesets_may_be_cut(changes: dict[str, Any]) -> None:
    assert Case(**changes).reason is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"slots": 1}, NotSharded.ONE_SLOT),
        ({"count": 1, "seconds": 100.0}, NotSharded.FEW_PROFILESETS),
        ({"count": 0, "text": "mage=A"}, NotSharded.FEW_PROFILESETS),
        ({"count": 7}, NotSharded.SHORT),
        ({"count": 1000, "seconds": 3.9}, NotSharded.SHORT),
        ({"iterations": 49}, NotSharded.FEW_ITERATIONS),
        ({"text": f"{MAGE}profileset.{'n' * 10_001}+=level=1"}, NotSharded.LONG_NAME),
        ({"text": f"{MAGE}warrior=C"}, NotSharded.SEVERAL_ACTORS),
        ({"text": f"{MAGE}copy=C"}, NotSharded.COPIES),
        ({"submitted_text": f"{MAGE}apl.simc"}, NotSharded.INCLUDES),
        ({"submitted_text": f"{MAGE}profileset.s1+=input=apl.simc"}, NotSharded.INCLUDES),
        ({"text": f"{MAGE}profileset.s1+=iterations=5"}, NotSharded.OWN_NUMBERS),
        ({"text": f"{MAGE}profileset.s1+=target_error=0.5"}, NotSharded.OWN_NUMBERS),
        ({"has_credentials": True, "text": f"armory=eu,a,B\n{SETS}"}, NotSharded.CREDENTIALS),
        ({"has_html": True}, NotSharded.HTML_REPORT),
        ({"text": f"{MAGE}profileset_controller.x=1"}, NotSharded.CONTROLLER),
        ({"text": f"{MAGE}profileset_metric=deaths"}, NotSharded.UNREPORTED_PROFILESETS),
        ({"text": f"{MAGE}profileset.s1+=seed=5"}, NotSharded.PROFILESET_OPTION),
        ({"text": f"{MAGE}profileset.s1+=deterministic=1"}, NotSharded.PROFILESET_OPTION),
        ({"text": f"{MAGE}profileset.s1+=iterations=5\nprofileset.s1=level=1"}, NotSharded.PROFILESET_OPTION),
        ({"text": f"$(x)=1\n$(x)=2\n{MAGE}"}, NotSharded.VARIABLES),
        ({"text": f"{MAGE}$(x)=1\nprofileset.s1+=level=$(x)"}, NotSharded.VARIABLES),
        ({"text": f"{MAGE}iterations=junk"}, NotSharded.UNCLEAR_NUMBER),
        ({"text": f"{MAGE}iterations=junk iterations=5"}, NotSharded.UNCLEAR_NUMBER),
        ({"text": f"{MAGE}target_error=-1"}, NotSharded.UNCLEAR_NUMBER),
        ({"text": f"{MAGE}target_error=101"}, NotSharded.UNCLEAR_NUMBER),
        ({"text": f"{MAGE}target_error=nan"}, NotSharded.UNCLEAR_NUMBER),
        ({"text": f"{MAGE}target_error=1e-400"}, NotSharded.UNCLEAR_NUMBER),
        ({"text": f"{MAGE}target_error=1e-310"}, NotSharded.UNCLEAR_NUMBER),
        ({"text": f"{MAGE}target_error=0x1p-2000"}, NotSharded.UNCLEAR_NUMBER),
        ({"text": f"$(n)=5\n{MAGE}iterations=$(n)"}, NotSharded.UNCLEAR_NUMBER),
        ({"text": f"$(n)=0000000000\n{MAGE}iterations=5$(n) iterations=5"}, NotSharded.UNCLEAR_NUMBER),
    ],
)
def test_a_stage_runs_as_one_process(changes: dict[str, Any], reason: NotSharded) -> None:
    assert Case(**changes).reason is reason


def test_every_reason_is_tested() -> None:
    (marker,) = test_a_stage_runs_as_one_process.pytestmark
    assert {reason for _, reason in marker.args[1]} == set(NotSharded)
