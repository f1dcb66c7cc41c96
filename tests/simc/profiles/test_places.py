"""The line of a profile that an error message is about."""

import pytest

from simc.profiles.places import locate

PROFILE = """# a comment
mage="A"
talents=CAEinvented
head=hood,id=10,ilevel=600
wrists=,id=990924
fight_style=Patchwerk
fight_style=Patchwork
warrior="B"
wrists=,id=7
profileset."one"+=neck=,id=33
profileset."two"+=neck=,id=34
profileset."two"+=level=x
"""


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("Actor 'A': Item 'inactive' Slot 'wrists': Cannot initialize data", (5, "wrists, item 990924")),
        ("Actor 'B': Item 'inactive' Slot 'wrists': Cannot initialize data", (9, "wrists, item 7")),
        ("Player 'Unknown': Slot 'wrists': Cannot initialize data", (9, "wrists, item 7")),
        ("Unable to download item id '10' at slot head", (4, "head, item 10")),
        ("Item 33 has no data", (10, "neck, item 33")),
        ("Option 'fight_style' with value 'Patchwork': Invalid", (7, "fight_style")),
        ("Option 'fight_style' with value 'Patchwerk': Invalid", (6, "fight_style")),
        ("Profileset 'two' Setup failure: Option 'level' with value 'x'", (12, "level")),
        ("Profileset 'one' Setup failure: Slot 'neck': no data", (10, "neck, item 33")),
        ("Player 'A': Hash 'CAEinvented': Selected node 990001", (3, "talents")),
        ("Slot 'feet': Cannot initialize data", None),
        ("Player 'A' has no weapon", None),
        ("", None),
    ],
)
def test_the_line_that_the_message_names_is_found(message: str, place: tuple[int, str] | None) -> None:
    assert locate(message, PROFILE) == place
