"""Numbers are read as C++ reads them."""

import pytest

from minisim.values import SimulatorError, to_bool, to_float, to_int, to_uint64


@pytest.mark.parametrize(("text", "number"), [("1e4", 1), ("10,000", 10), (" \t4abc", 4), ("-3", -3), ("", 0)])
def test_integers_are_read_like_stoi(text: str, number: int) -> None:
    assert to_int(text) == number


@pytest.mark.parametrize("text", ["x", "-", "2147483648", "9" * 5000, "٣"])
def test_other_texts_are_no_integers(text: str) -> None:
    with pytest.raises(SimulatorError):
        to_int(text)


@pytest.mark.parametrize(("text", "number"), [("1e4", 1e4), (".5x", 0.5), ("0,5", 0.0), ("", 0.0), ("1e", 1.0)])
def test_numbers_are_read_like_stod(text: str, number: float) -> None:
    assert to_float(text) == number


@pytest.mark.parametrize("text", ["x", ".", "1e999", "nan", "inf"])
def test_other_texts_are_no_finite_numbers(text: str) -> None:
    with pytest.raises(SimulatorError):
        to_float(text)


def test_seeds_have_64_bits() -> None:
    assert to_uint64(str(2**64 - 1)) == 2**64 - 1
    with pytest.raises(SimulatorError):
        to_uint64(str(2**64))


@pytest.mark.parametrize("text", ["", "2", "true"])
def test_booleans_are_0_or_1(text: str) -> None:
    assert to_bool("1")
    assert not to_bool("0")
    with pytest.raises(SimulatorError):
        to_bool(text)
