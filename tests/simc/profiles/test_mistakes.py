"""Refusals name the person's mistake, once for each line, and who is simulated is known before a job runs."""

import pytest

from jobs.submission.validation import _require_runnable
from simc.characters import visible
from simc.profiles.analysis import Analysis, analyse_submitted, profile_warnings
from simc.profiles.mistakes import seems_without_line_breaks
from simc.profiles.numbers import Bounds
from simc.profiles.policy import Rules

RULES = Rules(bundled=frozenset({"mage.simc", "apl.simc"}), profiles=frozenset({"mage.simc"}), has_credentials=True)


def analysed(text: str) -> Analysis:
    return analyse_submitted(text, rules=RULES, bounds=Bounds(iterations=250_000, target_error=0.01))


def reasons(text: str) -> list[tuple[int, str]]:
    return [(refusal.line, refusal.reason) for refusal in analysed(text).refusals]


@pytest.mark.parametrize(
    "text",
    [
        'mage="A"level=60profileset.B+=gear_intellect=4000',
        "mage=Alevel=60iterations=100",
        'mage="A" level=60',
        "level=60\nenemy=Eiterations=5\nmage=A",
        "mage=A\ncopy=B,Alevel=70",
        "mage=A\nname=Blevel=70",
        "armory=us,illidan,alevel=60",
        "guild=some,region=us,server=xiterations=5",
        "mage=A\nprofileset.B+=gear_intellect=4profileset.C+=gear_intellect=5",
        'warrior="A"talents=XY# Saved Loadout: Two targets# talents=CAE',
    ],
)
def test_a_name_that_contains_an_option_is_refused(text: str) -> None:
    ((line, reason),) = reasons(text)
    assert "lost its line breaks" in reason
    assert "--data-binary" in reason
    assert line in (1, 2)


@pytest.mark.parametrize(
    "text",
    [
        "mage=A level=60 spec=frost iterations=100",
        'level=60 mage="A B"',
        "mage=\"San'layn\"\nname=T29_Death_Knight_San'layn",
        'warrior="Élan Ðør"\nprofileset."it\'s a = b?"=',
        "armory=eu,somewhere,a,b,spec=frost,cache=1",
        "guild=some,region=us,server=x,class=mage,max_rank=3",
        "mage=A\nactions.aoe's-list+=/frostbolt,if=a=b",
        "mage=A\n" + "profileset.B+=override.spell_data=spell.1.x=2",
        "mage=A\nset_bonus=tier30_2pc=1\nprofileset.B+=set_bonus=tier31_2pc=1",
        "mage=A\nprofileset.a= profileset.b+=level=80",
        "\ufeffmage=A\nname=\u200bB\u00a0C",
    ],
)
def test_a_plausible_name_is_accepted(text: str) -> None:
    if "it's a = b" in text:
        # Such a name contains an option for the simulator.
        assert "profileset" in reasons(text)[0][1]
        return
    assert reasons(text) == []
    assert _require_runnable(analysed(text))


@pytest.mark.parametrize("character", ["\ufeff", "\xa0", "\u200b", "\u2060", "\xad", "\u202e", "\u200f", "\x0b"])
def test_an_invisible_character_in_a_name_is_named(character: str) -> None:
    code = f"U+{ord(character):04X}"
    for option in ("warrior=B", "level=5", "profileset.A+=level=5"):
        for text in (character + option, option[0] + character + option[1:]):
            ((line, reason),) = reasons(f"mage=A\n{text}")
            assert (line, code in reason) == (2, True), text
    ((line, reason),) = reasons(f"mage=A\nprofileset.S+={character}level=5")
    assert code in reason


def test_a_no_break_space_does_not_separate_options() -> None:
    for text in ("level=60\xa0spec=frost", "profileset.S+=head=,id=1\u3000neck=,id=2", "spec=frost\u200blevel=5"):
        assert "does not separate options" in reasons(f"mage=A\n{text}")[0][1]


def test_a_letter_of_another_alphabet_is_named() -> None:
    assert "\u0430 (U+0430)" in reasons("m\u0430ge=A")[0][1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('mage = "A"', "remove the spaces around ="),
        ("level= 60", "remove the spaces around ="),
        ("level =60", "remove the spaces around ="),
        ("profileset.B += level=5", "remove the spaces around ="),
        ("profileset.B+= level=5", "remove the spaces around ="),
        ("c# A - Frost - 2026", "comments must begin with # at the start of a line"),
        ("iterations=5 # x", "comments must begin with # at the start of a line"),
        ("iterations=5 #x=1", "comments must begin with # at the start of a line"),
        ("// a note", "comments must begin with #"),
        ("; a=b note", "comments must begin with #"),
        ("https://www.example.com/report/rEpOrT1", "this is a link; paste"),
        ("https://www.example.com/report?id=5", "this is a link; paste"),
        ("www.example.com/x", "this is a link; paste"),
        ("profileset.B+=https://example.com/x", "this is a link; paste"),
        ("<p>mage=A</p>", "this is HTML"),
        ('<div class="a">', "this is HTML"),
        ("{", "this is JSON"),
        ('  "name": "A",', "this is JSON"),
        ("```simc", "this is Markdown"),
        (r"C:\Users\me\profile.simc", "a path on your computer"),
        (r'"C:\Users\me and you\profile.simc"', "a path on your computer"),
        ("mage%3DA%0Alevel%3D60", "URL-encoded"),
        ("--iterations=100", "remove the dashes"),
        ("profileset.“A B”+=level=5", "curly quotes"),
        ("level: 60", "write = instead of :"),
        ("armory:us,illidan,a", "write armory=region,server,name"),
        ("hello there", "“hello” is not an option"),
        ("T26_Mage.simc", "only files that come with the build"),
        ("=5", "not an option name"),
        ("na$me=5", "not an option name"),
        ('profileset."a == b"+=level=5', "must be followed by an option"),
        ('profileset."a=b"+=level=5', "must not be blank or contain '.' or '='"),
        ('profileset."a=b"=level=5', "must not be blank or contain '.' or '='"),
        ('profileset." "+=level=5', "must not be blank"),
        ("profileset.1.5+=level=5", "must not be blank or contain '.'"),
        ("Profileset.a+=level=5", "write profileset. in lowercase"),
        ("Mage=B", "write mage= to start a character of this class"),
        ("death_knight=B", "write deathknight= to start a character of this class"),
        ("mage=", "the character has no name"),
        (r"warrior=B\nlevel=60", r"contains \n instead of line breaks"),
        ("default_region=us", "guild=name,region=us,server=…"),
        ("default_server=x", "armory=us,server,name"),
    ],
)
def test_a_refusal_names_the_mistake_in_its_line(line: str, words: str) -> None:
    ((number, reason),) = reasons(f"mage=A\n{line}\nlevel=60")
    assert number == 2
    assert words in reason


def test_each_line_has_its_own_reason() -> None:
    text = 'mage = "A"\nc# a note here\nhttps://example.com/x\nhtml=x threads=2\n'
    assert [(line, reason.split()[0]) for line, reason in reasons(text)] == [
        (1, "remove"), (2, "comments"), (3, "this"), (4, "it"), (4, "the"),
    ]  # fmt: skip
    assert analysed(text).refused == 5


def test_a_mistake_is_the_only_refusal_of_its_line() -> None:
    analysis = analysed("html=x threads=2 oops json=y\nhtml=x\n")
    assert [refusal.line for refusal in analysis.refusals] == [1, 2]
    assert analysis.refused == 2


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("mage=A", True),
        ("mage.simc", True),
        ("apl.simc", True),
        ("armory=us,illidan,a", True),
        ("tinker=Someone\nspec=pistols", True),
        ("level=60", False),
        ("level=60\nspec=frost\nhead=,id=1\nactions=frostbolt", False),
        ("region=us\nserver=somewhere\nlevel=60", False),
        ("enemy=E\nlevel=60", False),
        ("copy=B\nlevel=60", False),
        ("tinker=1\nspec=pistols", False),
        ("profileset.A+=spec=frost", False),
    ],
)
def test_something_must_start_a_character(text: str, runs: bool) -> None:  # noqa: FBT001
    assert analysed(text).has_actor is runs


@pytest.mark.parametrize(
    ("text", "line"), [("tinker=Someone\nspec=pistols", 1), ("level=60\napl.simc", 2), ("mage=A\napl.simc", None)]
)
def test_an_unknown_character_is_a_warning(text: str, line: int | None) -> None:
    found = [warning["line"] for warning in profile_warnings(analysed(text)) if warning["kind"] == "actor_unknown"]
    assert found == ([] if line is None else [line])


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ('# A - Frost#mage="A"level=60', True),
        ("# A - Frost\r# mage=A\rlevel=60", True),
        ("iterations=5mage=A", True),
        (r"# A\nmage=A", True),
        ("# a note", False),
        ("level=60", False),
        ("# A\nlevel=60", False),
    ],
)
def test_a_text_that_lost_its_line_breaks_is_recognized(text: str, lost: bool) -> None:  # noqa: FBT001
    assert seems_without_line_breaks(text) is lost


def test_invisible_characters_are_shown_by_their_code() -> None:
    assert visible("\ufeffa\u202eb\u3000c\x00") == "<U+FEFF>a<U+202E>b<U+3000>c<U+0000>"
    assert visible("Ünïcödé 😀 ⚔\ufe0f it's\tfine\r\n") == "Ünïcödé 😀 ⚔\ufe0f it's\tfine\r\n"
