"""Texts of shards, and what the built-in simulator does with them."""

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.execution.shard_plan import (
    ONE_ITERATION,
    CutProfile,
    cut,
    first_input,
    shard_input,
    shard_text,
)
from simc.profiles.analysis import Analysis, analyse
from simc.profiles.grammar import tokens
from simc.profiles.numbers import Bounds, Precision
from simc.profiles.policy import Rules
from tests.minisim.conftest import EXECUTABLE

BOUNDS = Bounds(iterations=250_000, target_error=0.01)
PROFILE = """\ufeff# A mage with an enemy, which starts another scope
mage="Ada Lovelace"
level=80 spec=frost main_hand=staff,id=7,ilevel=640
max_time=60
profileset."head of fire"+=head=fire,id=1,ilevel=600
profileset.b+=neck=amulet,id=2,ilevel=300
"profileset.head of fire+=legs=ice,id=3,ilevel=610"
enemy="Fluffy Pillow"
iterations=150 target_error=0
profileset.b=neck=amulet,id=4,ilevel=620
profileset.#c+=level=79
profileset.empty=
desired_targets=2 seed=5 report_details=0
"""
NAMES = ["head of fire", "b", "#c", "empty"]
PIECES = [
    *("a", "b=", "=", '"', " ", "\t", "\r", "\n", "#", "\v", "\ufeff", "é", "iterations=5\n", "seed=", "enemy=B\n"),
    *(
        "profileset.a+=",
        "profileset.b=",
        "profileset.c d+=",
        '"profileset.c d=x"\n',
        "profileset.a.b=",
        "Profileset.a=",
    ),
]
NUMBERS = Precision(iterations=120, target_error=0)
Simulate = Callable[[str], dict[str, Any]]


def analysed(text: str) -> Analysis:
    return analyse(text, rules=Rules(), bounds=BOUNDS)


def cut_whole(text: str, *, keeps_final_options: bool = True) -> CutProfile:
    return cut(text, culled=frozenset(), replicates={}, keeps_final_options=keeps_final_options)


def texts(text: str) -> list[str]:
    return [token.text for token in tokens(text)]


@pytest.fixture
def simulate(tmp_path: Path) -> Simulate:
    """Return a function that runs the built-in simulator as the service does, and returns `sim` of its report."""

    def run(text: str) -> dict[str, Any]:
        (tmp_path / "profile.simc").write_text(text, encoding="utf-8", newline="")
        command: list[str | Path] = [
            EXECUTABLE,
            "profile.simc",
            "debug=0",
            "threads=1",
            "json2=report.json",
            "html=",
        ]
        process = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, timeout=60, check=False)
        assert (process.returncode, process.stderr) == (0, b"")
        sim: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())["sim"]
        return sim

    return run


def results(sim: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the profilesets of a report by name."""
    return {row["name"]: row for row in sim["profilesets"]["results"]}


def iterations(sim: dict[str, Any]) -> dict[str, int]:
    return {name: row["iterations"] for name, row in results(sim).items()}


@pytest.mark.parametrize(
    ("text", "iterations", "target_error"),
    [
        ("", 250_000, 0.2),
        ("calculate_scale_factors=1", 250_000, 0.05),
        ("calculate_scale_factors=1 calculate_scale_factors=0", 250_000, 0.2),
        ("iterations=500", 500, 0),
        ("iterations=500 calculate_scale_factors=1", 500, 0),
        ("iterations=1e4", 1, 0),
        ("iterations=500 target_error=0.3", 500, 0.3),
        ("target_error=0.3", 250_000, 0.3),
        ("iterations=0 target_error=0.3", 250_000, 0.3),
        ("iterations=-5 target_error=0", 250_000, 0.2),
        ("iterations=9 iterations= target_error=", 250_000, 0.2),
        ("iterations=300000 target_error=0.001", 250_000, 0.01),
        ("$(n)=700\niterations=$(n)", 700, 0),
        ("profileset.a+=iterations=7", 250_000, 0.2),
        ("iterations=7 target_error=nan", 7, 0.01),
        ("iterations=junk target_error=junk", 250_000, 0.2),
    ],
)
def test_numbers_of_a_single_pass(text: str, iterations: int, target_error: float) -> None:
    numbers = analysed(text).effective_numbers()
    assert numbers == Precision(iterations=iterations, target_error=target_error)


@pytest.mark.parametrize(("target_error", "line"), [(0, "0"), (0.0, "0"), (0.2828, "0.2828"), (1e-05, "1e-05")])
def test_both_numbers_are_written(target_error: float, line: str) -> None:
    assert Precision(iterations=7, target_error=target_error).lines == f"iterations=7\ntarget_error={line}"


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join), st.data())
def test_every_token_is_in_one_shard(text: str, data: st.DataObject) -> None:
    profile = cut_whole(text, keeps_final_options=False)
    border = data.draw(st.integers(0, len(profile.profilesets)))
    parts = [profile.profilesets[:border], profile.profilesets[border:]]
    shards = [texts(shard_input("", shard_text(part, numbers=None), numbers="")) for part in parts]
    kept = [token for token in texts(text) if token.partition("=")[0] not in {"iterations", "seed"}]
    assert Counter(texts(f"#\n{profile.base}") + shards[0] + shards[1]) == Counter(kept)


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_tokens_stay_in_order(text: str) -> None:
    profile = cut_whole(text)
    own = {entry.name: texts(entry.lines) for entry in profile.profilesets}
    base = texts(f"#\n{profile.first_base}")
    for token in texts(text):
        queues = [queue for queue in (base, *own.values()) if queue[:1] == [token]]
        assert queues or token.startswith("iterations=")
        if queues:
            queues[0].pop(0)
    assert not any([base, *own.values()])


def test_options_of_the_baseline_are_in_the_first_base_only() -> None:
    text = "mage=A seed=1 deterministic=1 calculate_scale_factors=1 report_details=0 profileset.a+=level=1"
    assert texts(cut_whole(text).first_base) == text.split()[:-1]
    assert texts(cut_whole(text).base) == ["mage=A", "deterministic=1"]
    early = cut_whole(text, keeps_final_options=False)
    assert early.first_base == early.base


def test_culled_profilesets_are_left_out() -> None:
    text = "mage=A profileset.a+=level=1 profileset.b+=level=2"
    profile = cut(text, culled={"a"}, replicates={}, keeps_final_options=True)
    assert [entry.name for entry in profile.profilesets] == ["b"]


def test_a_replicate_follows_its_original() -> None:
    text = 'profileset."a b"=level=1 \n profileset.c+=level=3\nprofileset."a b"+=role=x'
    profile = cut(text, culled=frozenset(), replicates={"a b": "a b~2"}, keeps_final_options=False)
    assert [(entry.name, texts(entry.lines)) for entry in profile.profilesets] == [
        ("a b", ["profileset.a b=level=1", "profileset.a b+=role=x"]),
        ("a b~2", ["profileset.a b~2=level=1", "profileset.a b~2+=role=x"]),
        ("c", ["profileset.c+=level=3"]),
    ]


def test_a_comment_precedes_a_byte_order_mark() -> None:
    profile = cut_whole("#\n\ufeffmage=A")
    assert texts(first_input(profile, numbers=NUMBERS))[-1] == "\ufeffmage=A"
    assert texts(shard_input("", "\ufeffx=1", numbers=""))[-1] == "\ufeffx=1"


def test_each_profileset_of_the_first_input_has_one_iteration(simulate: Simulate) -> None:
    sim = simulate(first_input(cut_whole(PROFILE), numbers=NUMBERS))
    assert iterations(sim) == dict.fromkeys(NAMES, 1)
    assert (sim["options"]["iterations"], sim["options"]["seed"]) == (120, 5)


@pytest.mark.parametrize("target_error", [0, 0.5])
def test_each_profileset_of_a_shard_has_its_iterations(simulate: Simulate, target_error: float) -> None:
    profile = cut_whole(PROFILE)
    text = shard_text(profile.profilesets, numbers=Precision(iterations=120, target_error=target_error))
    sim = simulate(shard_input(profile.base, text, numbers=ONE_ITERATION))
    assert iterations(sim) == dict.fromkeys(NAMES, 120)
    assert sim["options"]["iterations"] == 1


def test_the_target_error_of_a_shard_is_reached(simulate: Simulate) -> None:
    profile = cut_whole(PROFILE)
    text = shard_text(profile.profilesets, numbers=Precision(iterations=100_000, target_error=0.5))
    rows = results(simulate(shard_input(profile.base, text, numbers=ONE_ITERATION))).values()
    assert all(100 <= row["iterations"] < 100_000 for row in rows)
    assert all(row["mean_error"] <= 0.005 * row["mean"] for row in rows)


def test_without_overrides_profilesets_inherit_the_numbers(simulate: Simulate) -> None:
    profile = cut_whole(PROFILE)
    sim = simulate(shard_input(profile.base, shard_text(profile.profilesets, numbers=None), numbers=NUMBERS.lines))
    assert iterations(sim) == dict.fromkeys(NAMES, 120)
    assert sim["options"]["iterations"] == 120


def test_numbers_after_an_enemy_override_those_of_shards(simulate: Simulate) -> None:
    profile = cut_whole(PROFILE)
    text = shard_text(profile.profilesets, numbers=NUMBERS)
    sim = simulate(shard_input(profile.base, f"{ONE_ITERATION}\n{text}", numbers=""))
    assert iterations(sim) == dict.fromkeys(NAMES, 1)


@pytest.mark.slow
def test_deterministic_shards_equal_one_pass(simulate: Simulate) -> None:
    text = f"{PROFILE}\ndeterministic=1"
    whole = simulate(text)
    profile = cut_whole(text)
    numbers = analysed(text).effective_numbers()
    first = simulate(first_input(profile, numbers=numbers))
    found: dict[str, Any] = {}
    for part in (profile.profilesets[:1], profile.profilesets[1:3], profile.profilesets[3:]):
        sim = simulate(shard_input(profile.base, shard_text(part, numbers=numbers), numbers=ONE_ITERATION))
        found |= results(sim)
    assert found == results(whole)
    assert first["players"] == whole["players"]
