"""Axes of pictures."""

import math

import pytest

from dashboard.results.scale import WIDTH, Scale, around, rounded, step_of


@pytest.mark.parametrize("value", [-1e308, -1.0, 11.0, math.inf], ids=str)
def test_positions_stay_on_the_axis(value: float) -> None:
    assert Scale(low=0.0, high=10.0).at(value) in (0, WIDTH)


@pytest.mark.parametrize("high", [0.0, -1.0, math.inf], ids=str)
def test_an_axis_without_a_finite_span_has_one_position(high: float) -> None:
    assert Scale(low=0.0, high=high).at(5.0) == 0
    assert Scale(low=0.0, high=high).ticks(4) == []


@pytest.mark.parametrize(
    ("span", "expected"), [(0, 0), (1e-320, 0), (math.inf, 0), (10, 2.5), (30, 10), (38_000, 10_000), (4, 1)]
)
def test_steps_are_round(span: float, expected: float) -> None:
    assert step_of(span, 4) == expected


def test_an_axis_ends_at_round_values() -> None:
    assert rounded(-5.3, 28.7, count=4) == Scale(low=-10.0, high=30.0)


def test_ticks_are_multiples_of_a_step() -> None:
    ticks = Scale(low=-15.0, high=30.0).ticks(4)
    assert [tick.value for tick in ticks] == [0.0, 20.0]
    assert ticks[0].at == "33.3%"


def test_a_few_rows_are_never_cut() -> None:
    assert around(0.0, [(0.0, 1.0), (0.0, 2.0), (0.0, 1000.0)]).contains(1000.0)
