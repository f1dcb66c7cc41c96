"""The fight and its precision, read from a profile and written into it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simc.profiles.analysis import MAX_OPTIONS
from simc.profiles.fight_options import OPTIONS, number_of, read, write
from simc.profiles.grammar import BOM, tokens

MAGE = 'mage="A"\nlevel=80\n'


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {}),
        ("max_time=300\nmax_time=200\n", {"max_time": "200"}),
        (f"{MAGE}copy=B\ndesired_targets=5\n", {"desired_targets": "5"}),
        ("max_time=300\nprofileset.a+=max_time=100\n", {"max_time": "300"}),
        ('profileset."a b"=max_time=100\n', {}),
        ("# max_time=300\n  # max_time=300\n", {}),
        ("Max_time=300 max_time+=9 xmax_time=9\n", {}),
        ("seed=1\tmax_time=300 iterations=5\r\n", {"max_time": "300", "iterations": "5"}),
        ('"max_time=300"\nfight_style="Heavy Movement\n', {"max_time": "300", "fight_style": "Heavy Movement"}),
        ("max_time=1+2\ntarget_error=$(x)\n", {"max_time": "1+2", "target_error": "$(x)"}),
        ("fight_style=\n", {"fight_style": ""}),
        ("max_time=300\ninput=raid.simc\n", {}),
        ("max_time=300\nraid.simc\niterations=9\n", {"iterations": "9"}),
        (f"{BOM}max_time=300", {"max_time": "300"}),
        ("max_time\n=300", {}),
    ],
)  # fmt: skip
def test_the_values_in_effect_are_read(text: str, options: dict[str, str]) -> None:
    assert read(text) == options


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (MAGE, f"max_time=200\n{MAGE}"),
        (f"{BOM}{MAGE}", f"{BOM}max_time=200\n{MAGE}"),
        ("mage=A\r\n\r\n", "max_time=200\r\nmage=A\r\n\r\n"),
        ("max_time=300\nmage=A\nmax_time=1+2 seed=3\n", "max_time=300\nmage=A\nmax_time=200 seed=3\n"),
        (f"{BOM}max_time=300", f"{BOM}max_time=200"),
        ("seed=1\tmax_time=300  level=8\r\n", "seed=1\tmax_time=200  level=8\r\n"),
        ("max_time=300 max_time=300\n", "max_time=300 max_time=200\n"),
        ('"max_time=300" level=80\nend=1\n', '"max_time=300" level=80\nmax_time=200\nend=1\n'),
        ('max_time="300"\r\nend=1\r\n', 'max_time="300"\r\nmax_time=200\r\nend=1\r\n'),
        ("max_time=300\nraid.simc\nend=1", "max_time=300\nraid.simc\nmax_time=200\nend=1"),
        ("raid.simc", "raid.simc\nmax_time=200"),
        ("# max_time=300\n" + MAGE, "max_time=200\n# max_time=300\n" + MAGE),
        (
            f"{MAGE}profileset.a+=max_time=100\n",
            f"max_time=200\n{MAGE}profileset.a+=max_time=100\n",
        ),
        (f"max_time=200\n{MAGE}", f"max_time=200\n{MAGE}"),
    ],
)
def test_only_one_option_changes(text: str, written: str) -> None:
    assert write(text, {"max_time": "200"}) == written
    assert read(written)["max_time"] == "200"


def test_an_option_is_switched_off_only_where_it_may_be_set() -> None:
    off = {"iterations": "0"}
    assert write(MAGE, off) == MAGE
    assert write(f"iterations=9\n{MAGE}", off) == f"iterations=0\n{MAGE}"
    assert write("raid.simc\n", off) == "raid.simc\niterations=0\n"
    assert write(MAGE, {"vary_combat_length": "0"}) == f"vary_combat_length=0\n{MAGE}"


def test_a_profile_with_too_many_options_is_left_alone() -> None:
    text = "max_time=300\n" + "a=1 " * MAX_OPTIONS
    assert (read(text), write(text, {"max_time": "200"})) == ({}, text)


@pytest.mark.parametrize(
    ("value", "number"),
    [("300", 300), ("0.2", 0.2), (".5", 0.5), ("1+2", None), ("300s", None), ("", None), ("-1", None),
     ("1e3", None), ("nan", None), ("٣", None), ("9" * 5000, None), ("0x10", None)],
)  # fmt: skip
def test_only_plain_numbers_are_read(value: str, number: float | None) -> None:
    assert number_of(value) == number


PIECES = st.sampled_from(
    [*(f"{name}=1" for name in OPTIONS), "max_time=$(x)", "profileset.a+=max_time=1", "raid.simc", "input=x",
     "mage=A", '"', "#", " ", "\t", "\r", "\n", BOM, "\v", "\u2028", "=", "é"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join), st.dictionaries(st.sampled_from(sorted(OPTIONS)), st.just("7")))
def test_written_values_are_in_effect_and_nothing_else_changes(text: str, values: dict[str, str]) -> None:
    written = write(text, values)
    assert read(written) == read(text) | values
    assert others(written) == others(text)
    assert write(written, values) == written


def others(text: str) -> list[str]:
    """Return the tokens of a text that set none of the options."""
    return [token.text for token in tokens(text) if token.name not in OPTIONS]
