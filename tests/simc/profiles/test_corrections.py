"""The text that runs: profilesets change a character, pictures are removed, and limits hold for the defaults."""

import pytest

from simc.profiles.analysis import LISTED_WARNINGS, Analysis, analyse, corrected, profile_warnings, with_limits
from simc.profiles.numbers import Bounds
from simc.profiles.policy import Rules

BOUNDS = Bounds(iterations=250_000, target_error=0.01)
SET = "profileset.B+=level=70\n"


def analysed(text: str) -> Analysis:
    return analyse(text, rules=Rules(has_credentials=True), bounds=BOUNDS)


def ran(text: str) -> str:
    analysis = analysed(text)
    return with_limits(corrected(text, analysis), analysis)


@pytest.mark.parametrize(
    ("text", "line", "index"),
    [
        ("enemy=E\nmage=A\n", 1, 1),
        ("tank_dummy=D\nenemy=E\nmage=A\nwarrior=B\n", 1, 2),
        ("level=1\ntmi_boss=D\narmory=us,x,y\n", 2, 1),
        ("enemy=E\nmage=A\nprofileset_main_actor_index=0\n", 3, 1),
        ("mage=A\nenemy=E\nprofileset_main_actor_index=1\n", 3, 0),
        ("mage=A\nprofileset_main_actor_index=7\n", 2, 0),
        ("enemy=E\ntinker=A\nspec=pistols\n", 1, 1),
        ("mage=A\nenemy=E\n", None, None),
        ("mage=A\npet=wolf\ncopy=C\nprofileset_main_actor_index=2\n", None, None),
        ("enemy=E\nmage=A\nprofileset_main_actor_index=1\n", None, None),
    ],
)
def test_profilesets_change_a_character(text: str, line: int | None, index: int | None) -> None:
    found = [each for each in profile_warnings(analysed(text + SET)) if each["kind"] == "option_replaced"]
    assert [(each["line"], each["applied"]) for each in found] == ([] if line is None else [(line, index)])
    options = [each for each in ran(text + SET).split("\n") if each.startswith("profileset_main_actor_index=")]
    if index is not None:
        assert options[-1] == f"profileset_main_actor_index={index}"
        assert text.split("\n")[found[0]["line"] - 1] in found[0]["message"]
    # Without profilesets, the index has no effect.
    assert corrected(text, analysed(text)) == text


def test_a_picture_is_removed_with_a_warning() -> None:
    text = '\ufeffmage="A"\nthumbnail=https://x.example/1.jpg level=60\nprofileset.B=THUMBNAIL=x\niterations=5\n'
    assert corrected(text, analysed(text)) == 'mage="A"\nlevel=60\nprofileset.B=\niterations=5\n'
    assert [(each["kind"], each["line"], each["requested"]) for each in profile_warnings(analysed(text))] == [
        ("option_replaced", 2, "https://x.example/1.jpg"),
        ("option_replaced", 3, "x"),
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("mage=A", ["iterations=250000", "target_error=0.2", "mage=A"]),
        ("mage=A\ntarget_error=0.3", ["iterations=250000", "mage=A", "target_error=0.3"]),
        ("mage=A calculate_scale_factors=1", ["iterations=250000", "target_error=0.05", "mage=A calculate_scale_"]),
        ("mage=A iterations=0", ["iterations=250000", "target_error=0.2", "mage=A"]),
        ("iterations=-3\nmage=A\ntarget_error=0", ["iterations=250000", "target_error=0.2", "mage=A"]),
        ("iterations=0\nmage=A\ntarget_error=1", ["iterations=250000", "mage=A", "target_error=1"]),
        ("mage=A\niterations=7", ["mage=A", "iterations=7"]),
    ],
)
def test_the_limits_hold_for_the_default_iterations(text: str, lines: list[str]) -> None:
    options = [line for line in ran(text).split("\n") if line and line[0] != "#"]
    assert len(options) == len(lines)
    assert all(option.startswith(line) for option, line in zip(options, lines, strict=True))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("iterations=50\nprofileset.B+=iterations=0", (250_000, 0.2)),
        ("iterations=50 target_error=0.3\nprofileset.B+=iterations=0", (250_000, 0.3)),
        ("profileset.B+=target_error=0", (250_000, 0.2)),
        ("profileset.B+=target_error=0.001", (250_000, 0.01)),
        ("profileset.B+=target_error=0.7", (250_000, 0.7)),
        ("profileset.B+=iterations=5", (5, 0)),
        ("target_error=0.3\nprofileset.B+=iterations=5", (5, 0.3)),
        ("iterations=50\nprofileset.B+=iterations=900000", (250_000, 0)),
    ],
)
def test_the_limits_hold_for_profilesets_too(text: str, numbers: tuple[int, float]) -> None:
    after = analysed(ran(f"mage=A\n{text}"))
    written = after.effective_numbers("B")
    assert (written.iterations, written.target_error) == numbers
    assert not after.uses_defaults()
    assert not after.uses_defaults("B")
    assert list(after.clamps) == []


def test_the_default_number_does_not_override_a_profilesets_own() -> None:
    lines = ran("mage=A\nenemy=E\nprofileset.B+=iterations=50").split("\n")
    assert lines.index("iterations=250000") < lines.index("mage=A")


def test_important_warnings_come_first_and_the_rest_is_counted() -> None:
    sets = "".join(f"profileset.{number}+=iterations=900000\n" for number in range(LISTED_WARNINGS + 5))
    text = f"enemy=E\nmage=A\n{sets}iterations=800000\nthumbnail=x\n"
    found = profile_warnings(analysed(text))
    assert len(found) == LISTED_WARNINGS
    assert [each["requested"] for each in found[:4]] == [None, 800_000, "x", 900_000]
    assert found[-1]["message"].endswith(" 8 more warnings are not listed.")
    assert not any("not listed" in each["message"] for each in found[:-1])
