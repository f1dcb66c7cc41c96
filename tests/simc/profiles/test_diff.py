"""The difference between two profiles."""

import random
import time
import tracemalloc

import pytest

from simc.profiles import diff
from simc.profiles.diff import Diff, DiffLine, Kind, Lines

PROFILE = 'mage="Frosty"\nlevel=80\nhead=,id=1\nneck=,id=5\nback=,id=3\nwaist=,id=9\nfeet=,id=4\n'


def compare(old: str, new: str) -> Diff:
    return diff.compare(Lines.of(old), Lines.of(new))


def shown(found: Diff) -> list[str]:
    """Return the lines of a difference with a sign."""
    signs = {Kind.SAME: " ", Kind.REMOVED: "-", Kind.ADDED: "+"}
    lines = [line for group in found.groups for line in group]
    return [signs[line.kind] + line.before + line.changed + line.after for line in lines]


def test_equal_profiles_have_no_difference() -> None:
    assert compare(PROFILE, PROFILE) == Diff(groups=[], removed=0, added=0, unlisted=0, is_cut=False)


def test_a_changed_line_has_two_lines_of_context() -> None:
    found = compare(PROFILE, PROFILE.replace("id=3", "id=8"))
    assert shown(found) == [
        " head=,id=1",
        " neck=,id=5",
        "-back=,id=3",
        "+back=,id=8",
        " waist=,id=9",
        " feet=,id=4",
    ]
    assert (found.removed, found.added) == (1, 1)


def test_only_the_changed_part_of_a_line_is_marked() -> None:
    found = compare("talents=ABCDE", "talents=ABXXDE")
    assert found.groups[0] == [
        DiffLine(Kind.REMOVED, 1, "talents=AB", "C", "DE"),
        DiffLine(Kind.ADDED, 1, "talents=AB", "XX", "DE"),
    ]


def test_lines_that_set_the_same_options_are_in_pairs() -> None:
    assert shown(compare("a=1\nb=1", "a=2\nb=2")) == ["-a=1", "+a=2", "-b=1", "+b=2"]
    assert shown(compare("a=1\nb=1", "a=2\nc=2")) == ["-a=1", "-b=1", "+a=2", "+c=2"]


def test_lines_of_different_options_are_not_marked() -> None:
    assert compare("x=1", "y=1").groups[0] == [DiffLine(Kind.REMOVED, 1, "x=1"), DiffLine(Kind.ADDED, 1, "y=1")]


def test_moved_and_new_lines_keep_the_others_aligned() -> None:
    found = compare("a\nb\nc\nd\ne\nf\ng\nh", "new\na\nb\nc\nd\ne\nf\nh\ng")
    assert [line for line in shown(found) if line[0] != " "] == ["+new", "-g", "+g"]


def test_comments_and_empty_lines_do_not_count() -> None:
    assert compare("# one\n\na=1\r\n", "\ufeff  a=1\n   # two").groups == []


def test_line_numbers_are_those_of_the_profiles() -> None:
    found = compare("# x\na\nb", "a\n\n\nc")
    assert [(line.kind, line.number) for line in found.groups[0]] == [
        (Kind.SAME, 1),
        (Kind.REMOVED, 3),
        (Kind.ADDED, 4),
    ]


def test_every_change_leads_from_one_profile_to_the_other() -> None:
    chance = random.Random(7)  # noqa: S311 - reproducible
    for _ in range(500):
        old, new = ([chance.choice("abcdefgh") for _ in range(chance.randrange(30))] for _ in range(2))
        place = new_place = 0
        for change in diff._changes(old, new, diff._Change(0, len(old), 0, len(new)), rounds=4):
            assert old[place : change.start] == new[new_place : change.new_start]
            place, new_place = change.stop, change.new_stop
        assert old[place:] == new[new_place:]


def test_many_changes_are_counted_but_not_all_listed() -> None:
    found = compare(
        "\n".join(f"a{n}\nsame{n}" for n in range(999)), "\n".join(f"b{n}\nsame{n}" for n in range(999))
    )
    listed = [line for line in shown(found) if line[0] != " "]
    assert (found.removed, found.added, found.unlisted, len(listed)) == (999, 999, 1998 - 120, 120)


def test_a_long_change_lists_its_first_lines() -> None:
    found = compare("\n".join(f"a{n}" for n in range(999)), "\n".join(f"b{n}" for n in range(999)))
    assert (len(found.groups[0]), found.unlisted) == (60, 1938)


@pytest.mark.parametrize("text", ["x\n" * 20_001, "x=" + "y" * (1 << 20)])
def test_a_long_profile_is_cut(text: str) -> None:
    assert compare(text, "x=").is_cut
    assert not compare("x", "x=").is_cut


def test_lines_beyond_the_limits_take_no_memory() -> None:
    many, long = "\n" * diff.MAX_CHARACTERS, "x" * (2 * diff.MAX_CHARACTERS)
    tracemalloc.start()
    lines = Lines.of(many)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (lines.texts, lines.is_cut) == ([], True)
    assert peak < 4 << 20
    assert len(Lines.of(long).texts[0]) == diff.MAX_CHARACTERS


def test_a_late_difference_of_a_long_line_is_not_marked_exactly() -> None:
    found = compare(f"x={'a' * 5000}b", f"x={'a' * 5000}c")
    assert found.groups[0][0].changed == "a" * 200 + "…"


def test_a_long_line_is_cut_around_its_change() -> None:
    found = compare(f"x={'a' * 500}b{'c' * 500}", f"x={'a' * 500}d{'c' * 500}")
    assert found.groups[0][0] == DiffLine(Kind.REMOVED, 1, "…" + "a" * 60, "b", "c" * 60 + "…")


def test_characters_that_change_the_direction_are_replaced() -> None:
    found = compare("a=\u202ex", "a=\u202ey")
    assert shown(found) == ["-a=\ufffdx", "+a=\ufffdy"]


HOSTILE = {
    "repeated": ("a\nb\n" * 10_000, "b\na\n" * 10_000),
    "reversed": ("\n".join(map(str, range(20_000))), "\n".join(map(str, range(20_000, 0, -1)))),
    "endless lines": ("\n".join("x=" + "a" * 5000 + str(n) for n in range(200)), "x=" + "a" * 1_000_000),
    "every third": (
        "\n".join(map(str, range(20_000))),
        "\n".join(f"z{n}" if n % 3 == 0 else str(n) for n in range(20_000)),
    ),
}


@pytest.mark.parametrize(("old", "new"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_profiles_take_little_time(old: str, new: str) -> None:
    started = time.process_time()
    compare(old, new)
    assert time.process_time() - started < 1
