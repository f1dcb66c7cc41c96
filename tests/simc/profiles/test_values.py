"""Numbers are read as C++ reads them."""

import math

import pytest

from simc.profiles.numbers import LARGEST_INTEGER, read_integer, read_number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("5", 5),
        (" \t\n\v\f\r5", 5),
        ("+5", 5),
        ("-5", -5),
        ("5abc", 5),
        ("5 6", 5),
        ("1e9", 1),
        ("10,000", 10),
        ("1.9", 1),
        ("0x10", 0),
        ("007", 7),
        ("0" * 500 + "7", 7),
        ("2147483647", LARGEST_INTEGER),
        ("-2147483648", -LARGEST_INTEGER - 1),
        ("2147483648", None),
        ("-2147483649", None),
        ("9" * 100_000, None),
        (" ", None),
        ("abc", None),
        ("+-5", None),
        ("+ 5", None),
        ("\xa05", None),
        ("\N{FULLWIDTH DIGIT FIVE}", None),
        ("\0005", None),
        (".5", None),
    ],
)
def test_integers_are_read_like_stoi(text: str, expected: int | None) -> None:
    assert read_integer(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0.0),
        ("0.05", 0.05),
        (" \v.5", 0.5),
        ("5.", 5.0),
        ("+1e-3x", 0.001),
        ("1e", 1.0),
        ("1e+", 1.0),
        ("1,5", 1.0),
        ("0,01", 0.0),
        ("0x1p-9", 2.0**-9),
        ("0X.8", 0.5),
        ("0x", 0.0),
        ("0xg", 0.0),
        ("-0x1P1z", -2.0),
        ("inf", math.inf),
        ("-Infinity", -math.inf),
        ("1e400", None),
        ("-1e400", None),
        ("0x1p9999", None),
        ("9" * 100_000, None),
        (" ", None),
        (".", None),
        ("e5", None),
        ("\N{FULLWIDTH DIGIT FIVE}", None),
    ],
)
def test_decimals_are_read_like_stod(text: str, expected: float | None) -> None:
    assert read_number(text) == expected


@pytest.mark.parametrize("text", ["nan", "NaN(1)", "-nan"])
def test_the_simulator_accepts_nan_as_a_number(text: str) -> None:
    number = read_number(text)
    assert number is not None
    assert math.isnan(number)
