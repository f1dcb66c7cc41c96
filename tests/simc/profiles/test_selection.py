"""Profiles from which some tokens are removed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simc.profiles.grammar import tokens
from simc.profiles.selection import remaining_lines

PIECES = [
    "a",
    "b=",
    "=",
    '"',
    " ",
    "\t",
    "\r",
    "\n",
    "#",
    "profileset.a+=",
    "profileset.b=",
    "spec=",
    "\v",
    "\ufeff",
    "é",
]


def remaining(text: str, *, profilesets: str = "", options: str = "") -> list[str]:
    """Return the tokens of a profile without some profilesets and options."""
    lines = remaining_lines(
        text,
        without_profilesets=frozenset(profilesets.split()),
        without_options=frozenset(options.split()),
        replicates={},
    )
    return [token.text for token in tokens("\n".join(["# heading", *lines]))]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_all_tokens_remain_if_none_is_removed(text: str) -> None:
    assert remaining(text) == [token.text for token in tokens(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mage=A\nprofileset.a+=level=1\nprofileset.b+=level=2", ["mage=A", "profileset.b+=level=2"]),
        ('"profileset.a=x=1 y=2"\nprofileset.b+=x=1', ["profileset.b+=x=1"]),
        ('profileset."a"+=x=1\nprofile"set.a+"=x=1', []),
        ("profileset.A+=x=1", ["profileset.A+=x=1"]),
        ("profileset.a", ["profileset.a"]),
    ],
)
def test_a_profileset_is_removed_in_every_spelling(text: str, expected: list[str]) -> None:
    assert remaining(text, profilesets="a") == expected


def test_options_are_removed_from_the_base_only() -> None:
    text = "report_details=1 level=5 profileset.a+=report_details=1 report_details=0"
    assert remaining(text, options="report_details") == ["level=5", "profileset.a+=report_details=1"]
