"""Analysis of profiles: actors, variants, and numbers beyond the platform's limits."""

import time
import tracemalloc
from collections.abc import Container

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from simc.profiles.analysis import (
    LISTED_WARNINGS,
    MAX_OPTIONS,
    Analysis,
    analyse,
    analyse_submitted,
    profile_warnings,
    with_limits,
)
from simc.profiles.numbers import Bounds
from simc.profiles.policy import Rules

BOUNDS = Bounds(iterations=250_000, target_error=0.01)


class Bundled(Container[str]):
    """An empty set of names that counts lookups."""

    def __init__(self) -> None:
        self.lookups = 0

    def __contains__(self, name: object) -> bool:
        self.lookups += 1
        return False


BUNDLED = Rules(
    bundled=frozenset({"mage.simc", "apl.simc"}), profiles=frozenset({"mage.simc"}), has_credentials=True
)


def analysed(text: str) -> Analysis:
    return analyse(text, rules=BUNDLED, bounds=BOUNDS)


def clamps(text: str) -> list[tuple[str, int, object, float, str | None]]:
    return [
        (clamp.name, clamp.line, clamp.requested, clamp.applied, clamp.profileset)
        for clamp in analysed(text).clamps
    ]


@pytest.mark.parametrize(
    ("text", "actors", "copies", "variants"),
    [
        ("", 0, 0, 0),
        ("mage=a", 1, 0, 0),
        ("mage=a\nwarrior=b\nplayer_simplified=c", 3, 0, 2),
        ("mage=a copy=b copy=c,a", 1, 2, 2),
        ("mage=a enemy=b enemy=c tank_dummy=d pet=wolf guardian=e", 1, 0, 0),
        ("MAGE=a Mage=b death_knight=c", 0, 0, 0),
        ("armory=eu,somewhere,a,b,c,spec=frost,cache=1", 3, 0, 2),
        ("armory=eu", 1, 0, 0),
        ("mage.simc\ninput=mage.simc mage=a", 1, 0, 2),
        ("mage=a apl.simc input=apl.simc", 1, 0, 0),
        ('name="x" mage=a', 0, 0, 0),
        ("# mage=a", 0, 0, 0),
    ],
)
def test_actors_and_copies_are_counted(text: str, actors: int, copies: int, variants: int) -> None:
    analysis = analysed(text)
    assert (analysis.actors, analysis.copies, analysis.variants) == (actors, copies, variants)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("profileset.a=level=1", ["a"]),
        ("profileset.a+=level=1 profileset.a+=race=orc", ["a"]),
        ("profileset.a=level=1 profileset.a+=race=orc profileset.a=level=2", ["a"]),
        ("profileset.b+=level=1 profileset.a+=level=1", ["b", "a"]),
        ("profileset.a+=", ["a"]),
        ("profileset.a=", ["a"]),
        ("profileset.a=level=1 profileset.A=level=1", ["a", "A"]),
        ('profileset."a b"+=level=1\n"profileset.a b+=level=2"\nprofile"set.a b"+=x=1', ["a b"]),
        ("profileset.a++=level=1 profileset.a+=level=1", ["a+", "a"]),
        ("profileset.Ä+=level=1 profileset.Ä+=level=1", ["Ä"]),
    ],
)
def test_profilesets_are_counted_as_they_are_built(text: str, names: list[str]) -> None:
    analysis = analysed(f"mage=a\n{text}")
    assert list(analysis.profilesets) == names
    assert analysis.variants == len(names)


def test_variants_are_profilesets_copies_and_actors() -> None:
    text = "mage=a\nwarrior=b\ncopy=c\nprofileset.d+=level=1\nprofileset.e+=level=1\nprofileset.e+=race=orc"
    assert analysed(text).variants == 4


@pytest.mark.parametrize(
    ("text", "has_actor"),
    [
        ("mage=a", True),
        ("mage.simc", True),
        ("tinker=a\nspec=pistols", True),
        ("tinker=a\nhead=,id=5", True),
        ("tinker=a\nring1=,id=5", True),
        ("tinker=a\nactions+=/shoot", True),
        ("tinker=a\nactions.precombat=wait", True),
        ("tinker=a", False),
        ("enemy=a\niterations=100", False),
        ("profileset.a+=spec=frost", False),
        ("actionsx=1", False),
        ("# mage=a", False),
        ("", False),
    ],
)
def test_a_text_without_an_actor_is_recognized(text: str, has_actor: bool) -> None:  # noqa: FBT001
    assert analysed(text).has_actor is has_actor


def test_the_main_actor_is_the_first_one() -> None:
    assert analysed('enemy=e\nmage="A B"\nwarrior=b').main_actor == "A B"
    assert analysed("enemy=e").main_actor is None


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        ("", "dps"),
        ("profileset_metric=hps", "hps"),
        ("profileset_metric=HPS/dps", "hps"),
        ("profileset_metric=/:,dtps:dps", "dtps"),
        ("profileset_metric=", "dps"),
        ("profileset_metric=dps profileset_metric=deaths,dps", "deaths"),
        ("profileset.a+=profileset_metric=hps", "dps"),
    ],
)
def test_the_first_profileset_metric_counts(text: str, metric: str) -> None:
    assert analysed(text).metric == metric


@pytest.mark.parametrize(
    ("text", "sensitive"),
    [
        ("calculate_scale_factors=1 iterations=5 target_error=1 report_details=0 profileset.a+=level=1", False),
        ("profileset.a+=iterations=5", True),
        ("profileset.a+=target_error=1", True),
        ("profileset.a+=report_details=1", True),
        ("profileset.a+=profileset_metric=hps", True),
        ("profileset.a+=deterministic=1", True),
        ("deterministic=1", True),
        ("profileset_controller.set_bonus_enabled=tier,30", True),
    ],
)
def test_options_that_prevent_stages_are_recognized(text: str, sensitive: bool) -> None:  # noqa: FBT001
    assert analysed(text).stage_sensitive is sensitive


def test_profileset_controllers_cancel_profilesets() -> None:
    assert analysed("profileset_controller.set_bonus_enabled=tier,30").cancels_profilesets
    assert not analysed("deterministic=1").cancels_profilesets


@pytest.mark.parametrize(
    ("text", "changing"),
    [
        ("profileset.a+=level=1", ["a"]),
        ("profileset.a+=", []),
        ("profileset.a+=level=1 profileset.a+=", ["a"]),
        ("profileset.a+=level=1 profileset.a=", []),
        ("profileset.a= profileset.a+=level=1 profileset.b=", ["a"]),
    ],
)
def test_profilesets_without_changes_are_recognized(text: str, changing: list[str]) -> None:
    assert [name for name, changes in analysed(text).profilesets.items() if changes] == changing


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("iterations=250000 target_error=0.01", []),
        ("iterations=1e9 target_error=0", []),
        ("iterations=-1 target_error=-0.5", []),
        ("iterations=99999999999999 target_error=x", []),
        ("iterations= target_error=", []),
        ("ITERATIONS=900000 iterations+=900000", []),
        ("iterations=250001", [("iterations", 1, 250_001, 250_000, None)]),
        ('\n"iterations= +0900000,000"', [("iterations", 2, 900_000, 250_000, None)]),
        (f"iterations={'0' * 500}900000", [("iterations", 1, 900_000, 250_000, None)]),
        ("iterations=900000\niterations=5", []),
        ("iterations=5\niterations=900000", [("iterations", 2, 900_000, 250_000, None)]),
        ("$(n)=900000\niterations=$(n)", [("iterations", 2, 900_000, 250_000, None)]),
        ("target_error=.005", [("target_error", 1, 0.005, 0.01, None)]),
        ("target_error=0x1p-9junk", [("target_error", 1, 2.0**-9, 0.01, None)]),
        ("target_error=nan", [("target_error", 1, "nan", 0.01, None)]),
        ("target_error=inf", []),
        ("profileset.a+=iterations=900000", [("iterations", 1, 900_000, 250_000, "a")]),
        ('\nprofileset."a b"+=target_error=1e-5', [("target_error", 2, 1e-5, 0.01, "a b")]),
        ("profileset.a+=iterations=900000 profileset.a+=iterations=5", []),
        ("profileset.a+=iterations=900000 profileset.a=level=1", []),
        ("profileset.a=iterations=900000 profileset.a=", []),
        ("profileset.a+=iterations=900000 profileset.b=level=1", [("iterations", 1, 900_000, 250_000, "a")]),
        ("iterations=900000 profileset.a+=iterations=5", [("iterations", 1, 900_000, 250_000, None)]),
    ],
)
def test_numbers_beyond_the_limits_are_clamped(text: str, expected: list[object]) -> None:
    assert clamps(text) == expected


def test_a_warning_has_a_line_a_number_and_a_message() -> None:
    first, second = profile_warnings(analysed("iterations=900000\nprofileset.a+=target_error=nan"))
    assert first == {
        "kind": "iterations_clamped",
        "line": 1,
        "requested": 900_000,
        "applied": 250_000,
        "message": "iterations=900000 is outside the service's limits. The job uses 250000 instead.",
    }
    assert (second["kind"], second["line"], second["requested"]) == ("target_error_floored", 2, "nan")
    assert "for one profileset" in second["message"]


def test_all_clamps_apply_although_not_all_are_listed() -> None:
    text = "\n".join(f"profileset.{number}+=iterations=900000" for number in range(LISTED_WARNINGS + 1))
    analysis = analysed(text)
    assert len(profile_warnings(analysis)) == LISTED_WARNINGS
    assert list(analysed(with_limits(text, analysis)).clamps) == []


def test_a_profile_within_the_limits_runs_unchanged() -> None:
    text = "mage=a\niterations=100"
    assert with_limits(text, analysed(text)) is text


LIMITED_PIECES = st.sampled_from(
    [
        "mage=a",
        "iterations=900000",
        "iterations=5",
        "target_error=nan",
        'profileset."a b"+=iterations=900000',
        'profileset."a b"=target_error=0.001',
        'profileset."a\t#"+=target_error=0.001',
        'profileset."$ é"+=iterations=0900000',
        "profileset.a++=iterations=900000",
        "profileset.c=",
        'name="open',
        "# note",
        "\n",
    ]
)


@given(st.lists(st.tuples(LIMITED_PIECES, st.sampled_from([" ", "\n", "\r\n"]))))
def test_a_profile_with_limits_needs_no_more_clamps(pieces: list[tuple[str, str]]) -> None:
    text = "".join(piece + separator for piece, separator in pieces)
    before = analysed(text)
    assume(not before.refused)
    after = analysed(with_limits(text, before))
    assert list(after.clamps) == []
    assert (after.refused, after.variants, after.profilesets) == (0, before.variants, before.profilesets)


def test_all_refusals_count_although_not_all_are_listed() -> None:
    analysis = analysed("html=x\n" * 50)
    assert ([refusal.line for refusal in analysis.refusals], analysis.refused) == (list(range(1, 21)), 50)


@pytest.mark.parametrize(
    ("line", "limit", "excess"),
    [
        ("a=b", 60_000, "60,000 options"),
        ('"a b=c', 60_000, "60,000 options"),
        ("# a b", 120_000, "120,000 lines"),
        ('""', 60_000, "120,000 quotes"),
        ("# $", 20_000, "20,000 dollar signs"),
    ],
)
def test_a_submitted_profile_is_limited_in_size(line: str, limit: int, excess: str) -> None:
    both = [analyse_submitted(f"{line}\n" * count, rules=Rules(), bounds=BOUNDS) for count in (limit, limit + 1)]
    assert [analysis.excess for analysis in both] == [None, f"more than {excess}"]


def test_no_token_beyond_the_limit_is_checked() -> None:
    bundled = Bundled()
    analyse_submitted("x.simc\n" * 110_000, rules=Rules(bundled=bundled), bounds=BOUNDS)
    assert bundled.lookups == MAX_OPTIONS


def test_an_accepted_profile_of_any_size_is_read() -> None:
    assert analysed("copy=a\n" * 80_000).copies == 80_000


MEGABYTES = 2_000_000
BIG = "$(big)=" + "b" * 1_000_000 + "\n"


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("", 0),
        ("# only\n  # comments\r\n", 0),
        ("\0", 1),
        ("mage=\0\n\0html=1", 1),
        ('mage="open', 0),
        ("$(a)=$(a)\n" * 200_000, 200_000),
        ("$(a)=1\n" + "$(a)=$(a)$(a)\n" * 100_000, 99_979),
        (BIG + "$(more)=$(big)$(big)\n" + ("x=" + "$(more)" * 10 + "\n") * 10_000, 9_999 + 1),
        (BIG + "x=$(none)$(big)\n" * 10_000, 10_000),
        ("a=b " * 200_000, 0),
        ("a " * 200_000, 1),
        ("$(" * (MEGABYTES // 2), 1),
        ("x=" + "$(" * (MEGABYTES // 2), 1),
        ('"' * MEGABYTES, 0),
        ('" ' * (MEGABYTES // 2), 1),
        ('"a" ' * (MEGABYTES // 4), 1),
        ("iterations=" + "9" * MEGABYTES, 0),
        ("target_error=." + "0" * MEGABYTES + "1", 0),
        ("head=" + "," * MEGABYTES + "source", 1),
        ("\n" * MEGABYTES, 0),
        ("html" + "+" * MEGABYTES + "=1", 1),
    ],
    ids=lambda value: repr(value[:12]) if isinstance(value, str) else None,
)
def test_malicious_input_is_analysed_in_bounded_time(text: str, refused: int) -> None:
    started = time.process_time()
    analysis = analysed(text)
    assert time.process_time() - started < 10
    assert analysis.refused == refused
    assert all(len(refusal.reason) < 200 for refusal in analysis.refusals)


def test_a_large_profile_uses_little_memory() -> None:
    sets = "".join(
        f'profileset."Set number {n}"+=trinket1=orb,id={n},{"bonus_id=1/2/3," * 4}\n' for n in range(20_000)
    )
    tracemalloc.start()
    try:
        analysis = analysed("mage=a\n" + sets)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert analysis.variants == 20_000
    assert peak < 50_000_000
