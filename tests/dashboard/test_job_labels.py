"""Numbers on pages."""

import math
from collections.abc import Callable

import pytest

from dashboard.templatetags import job_labels

NUMBERS = [
    job_labels.decimal,
    job_labels.whole,
    job_labels.part,
    job_labels.percent,
]


@pytest.mark.parametrize(
    ("shown", "number", "expected"),
    [
        (job_labels.whole, -1234.5, "\N{MINUS SIGN}1,234"),
        (job_labels.whole, -0.4, "0"),
        (job_labels.decimal, -0.04, "0.0"),
        (job_labels.decimal, -2.5, "\N{MINUS SIGN}2.5"),
        (job_labels.whole, -7.0, "\N{MINUS SIGN}7"),
        (job_labels.percent, 99.6, "100 %"),
        (job_labels.part, -0.25, "\N{MINUS SIGN}25.0 %"),
    ],
)
def test_numbers_have_minus_signs_but_zero_has_none(
    shown: Callable[[float], str], number: float, expected: str
) -> None:
    assert shown(number) == expected


@pytest.mark.parametrize("shown", NUMBERS)
def test_an_unknown_number_is_a_dash(shown: Callable[[float | None], str]) -> None:
    assert shown(None) == "\N{EN DASH}"


@pytest.mark.parametrize("shown", [*NUMBERS, job_labels.signed])
@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_number_out_of_range_is_a_dash(shown: Callable[[float], str], number: float) -> None:
    assert shown(number) == "\N{EN DASH}"
