"""The registry of figures."""

import importlib

import pytest

from bench import whole_path
from bench.figures import FIGURES, SCENARIOS, Aim, at_least, at_most

# Every row of the table of aims, with its limits.
AIMS = {
    "path.rate": at_least(45),
    "post.rate": at_least(120),
    "post.p99": at_most(100),
    "path.sim_cpu": at_most(25),
    "bare.sim_cpu": at_most(18),
    "path.web_cpu": at_most(6),
    "path.postgres_cpu": at_most(6),
    "start.idle_p50": at_most(25),
    "start.idle_p99": at_most(80),
    "start.burst_p50": at_most(25),
    "start.burst_p99": at_most(80),
    "moves.rate": at_least(300),
    "moves.cpu": at_most(1),
    "moves.ratio": at_least(0.5),
    "ledger.pairs": at_least(600),
    "webhooks.rate": at_least(400),
    "reads.list": at_most(10),
    "reads.job": at_most(10),
    "reads.status": at_most(10),
    "idle.statements": at_most(5),
    "idle.cpu": at_most(2),
    "memory.idle": at_most(150),
    "slots.claimed": at_most(50),
    "queue.claim_p99": at_most(10),
}


def test_every_aim_has_its_figure() -> None:
    assert {figure.key: figure.aim for figure in FIGURES.values() if figure.aim} == AIMS


def test_keys_and_titles_are_unique() -> None:
    figures = [figure for scenario in SCENARIOS for figure in scenario.figures]
    assert len({figure.key for figure in figures}) == len({figure.title for figure in figures}) == len(figures)


# A module whose import needs Django would break the other modules.
@pytest.mark.parametrize("function", [scenario.function for scenario in SCENARIOS])
def test_functions_of_scenarios_exist(function: str) -> None:
    module, _, name = function.partition(":")
    assert callable(getattr(importlib.import_module(module), name))


@pytest.mark.parametrize(
    ("aim", "value", "is_met"),
    [
        (at_least(30), 30, True),
        (at_least(30), 29.9, False),
        (at_most(25), 25, True),
        (at_most(25), 25.1, False),
    ],
)
def test_an_aim_includes_its_limit(aim: Aim, value: float, is_met: bool) -> None:  # noqa: FBT001
    assert aim.is_met_by(value) is is_met


def test_costs_are_per_job() -> None:
    load = whole_path.Load(jobs=10, seconds=2, cpu={"sim": 0.25, "web": 0.1}, unexplained=0)
    costs = [load.cost("sim"), load.cost("sim", "web"), load.cost("missing")]
    assert costs == pytest.approx([25, 35, 0])
    assert load.rate == 5
