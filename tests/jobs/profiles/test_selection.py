"""A profile without some of its tokens is read as the same tokens without them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.profiles.grammar import tokens
from jobs.profiles.selection import without

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


def kept(text: str, *, profilesets: str = "", options: str = "") -> list[str]:
    left_out = frozenset(profilesets.split())
    lines = without(text, profilesets=left_out, options=frozenset(options.split()), replicates={})
    return [token.text for token in tokens("\n".join(["# heading", *lines]))]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_without_anything_left_out_the_tokens_stay_the_same(text: str) -> None:
    assert kept(text) == [token.text for token in tokens(text)]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("mage=A\nprofileset.a+=level=1\nprofileset.b+=level=2", ["mage=A", "profileset.b+=level=2"]),
        ('"profileset.a=x=1 y=2"\nprofileset.b+=x=1', ["profileset.b+=x=1"]),
        ('profileset."a"+=x=1\nprofile"set.a+"=x=1', []),
        ("profileset.A+=x=1", ["profileset.A+=x=1"]),
        ("profileset.a", ["profileset.a"]),
    ],
)
def test_a_profileset_is_left_out_in_every_spelling(text: str, left: list[str]) -> None:
    assert kept(text, profilesets="a") == left


def test_options_of_the_base_are_left_out_and_those_of_profilesets_stay() -> None:
    text = "report_details=1 level=5 profileset.a+=report_details=1 report_details=0"
    assert kept(text, options="report_details") == ["level=5", "profileset.a+=report_details=1"]
