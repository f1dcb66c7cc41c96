"""The stages of a job, and the profilesets that survive them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.enums import MultistageReason
from jobs.planning.multistage import (
    MANY_VARIANTS,
    StagePlan,
    beaten,
    by_default,
    names_for,
    plan,
    replicates,
    stage_text,
    suffix_for,
)
from simc.profiles.analysis import analyse
from simc.profiles.grammar import tokens
from simc.profiles.numbers import Bounds
from simc.profiles.policy import Rules
from simc.reports import Profileset, Statistics
from tests.jobs.planning import stage_trials as trials

BOUNDS = Bounds(iterations=250_000, target_error=0.01)
RULES = Rules(bundled=frozenset({"mage.simc"}))
FOUR = "".join(f"profileset.s{number}+=level={number}\n" for number in range(4))


def planned(text: str, *, requested: bool = True) -> StagePlan:
    return plan(analyse(text, rules=RULES, bounds=BOUNDS), wanted=requested, bounds=BOUNDS)


def profileset(name: str, mean: float, error: float = 1.0, *, fights: int = 100) -> Profileset:
    statistics = Statistics(mean=mean, mean_stddev=error, stddev=error * fights**0.5, min=0, max=2 * mean)
    return Profileset(name=name, statistics=statistics, stage=1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"mage=A\n{FOUR}", "eligible_profileset_only"),
        (f"mage.simc\n{FOUR}", "eligible_profileset_only"),
        ("mage=A", "no_variants_in_input"),
        ("mage=A\nmage=B", "unsupported_multi_actor"),
        ("mage=A\ncopy=B", "unsupported_copy_set_only"),
        (f"mage=A\ncopy=B\n{FOUR}", "unsupported_mixed_profileset_copy_set"),
        ("mage=A\nprofileset.a+=\nprofileset.b=", "no_profileset_candidates"),
        ("mage=A\nprofileset.a+=level=1\nprofileset.b+=level=2\nprofileset.c+=level=3", "below_min_candidates"),
        (f"mage=A\n{FOUR}deterministic=1", "unsupported_stage_sensitive_directive"),
        (f"mage=A\n{FOUR}profileset.s1+=iterations=100", "unsupported_stage_sensitive_directive"),
        (f"mage=A\n{FOUR}profileset.s1+=seed=7", "unsupported_stage_sensitive_directive"),
        (f"mage=A\n{FOUR}profileset_metric=dtps", "unsupported_stage_sensitive_directive"),
        (f"mage=A\n{FOUR}profileset_metric=raid_dps", "eligible_profileset_only"),
    ],
)
def test_the_reason_for_or_against_stages_is_reported(text: str, reason: str) -> None:
    stage_plan = planned(text)
    assert (stage_plan.reason, stage_plan.enabled) == (reason, reason == "eligible_profileset_only")
    assert stage_plan.enabled == (len(stage_plan.stages) > 1)


@pytest.mark.parametrize(("count", "expected"), [(MANY_VARIANTS - 1, False), (MANY_VARIANTS, True)])
def test_many_variants_run_in_stages_by_default(count: int, *, expected: bool) -> None:
    sets = "".join(f"profileset.s{number}+=level=1\n" for number in range(count))
    assert by_default(analyse(f"mage=A\n{sets}", rules=RULES, bounds=BOUNDS)) is expected


def test_stages_run_only_on_request() -> None:
    assert planned(f"mage=A\n{FOUR}", requested=False) == StagePlan(MultistageReason.DISABLED)


@pytest.mark.parametrize(
    ("own", "errors", "labels"),
    [
        ("", [1.0, 0.2, 0.05], ["initial", "intermediate", "final"]),
        ("target_error=0", [1.0, 0.2, 0.05], ["initial", "intermediate", "final"]),
        ("target_error=nan", [1.0, 0.2, 0.05], ["initial", "intermediate", "final"]),
        ("target_error=0.1", [1.0, 0.2, 0.1], ["initial", "intermediate", "final"]),
        ("target_error=0.001", [1.0, 0.2, 0.01], ["initial", "intermediate", "final"]),
        ("target_error=0.2", [1.0, 0.2], ["initial", "final"]),
        ("target_error=0.5", [1.0, 0.5], ["initial", "final"]),
        ("target_error=1", [1.0], ["initial"]),
        ("target_error=3 target_error=0.3", [1.0, 0.3], ["initial", "final"]),
    ],
)
def test_the_profiles_own_precision_ends_the_funnel(own: str, errors: list[float], labels: list[str]) -> None:
    stages = planned(f"mage=A\n{FOUR}{own}").stages
    assert [stage.target_error for stage in stages] == errors
    assert [stage.label for stage in stages] == labels
    assert [stage.is_last for stage in stages] == [False] * (len(errors) - 1) + [True]


@pytest.mark.parametrize(
    ("own", "iterations"),
    [("", 250_000), ("iterations=500", 500), ("iterations=0", 250_000), ("iterations=900000", 250_000)],
)
def test_iterations_limit_every_stage(own: str, iterations: int) -> None:
    assert {stage.iterations for stage in planned(f"mage=A\n{FOUR}{own}").stages} == {iterations}


def staged(text: str, *, number: int, culled: frozenset[str] = frozenset()) -> str:
    """Return the text that a stage of a profile runs."""
    analysis = analyse(text, rules=RULES, bounds=BOUNDS)
    stage = plan(analysis, wanted=True, bounds=BOUNDS).stages[number - 1]
    twice = replicates(stage, analysis, culled=culled)
    return stage_text(stage, text, analysis, culled=culled, replicates=twice)


def test_a_stage_runs_the_profile_with_its_profilesets() -> None:
    text = f"mage=A\ncalculate_scale_factors=1\nseed=7\niterations=900000\n{FOUR}"
    first_stage = staged(text, number=1)
    assert "calculate_scale_factors" not in first_stage
    assert "seed" not in first_stage
    assert staged(text, number=3, culled=frozenset({"s0", "s3"})).splitlines() == [
        "# Stage 3 of 3",
        "mage=A",
        "calculate_scale_factors=1",
        "seed=7",
        "iterations=900000",
        "profileset.s1+=level=1",
        "profileset.s2+=level=2",
        "target_error=0.05",
        "iterations=250000",
    ]


def test_a_culling_stage_runs_each_set_twice_at_half_the_fights() -> None:
    text = f'mage=A\n{FOUR}profileset."s2"+="name=a b"\n'
    assert staged(text, number=2, culled=frozenset({"s0", "s3"})).splitlines() == [
        "# Stage 2 of 3",
        "mage=A",
        "profileset.s1+=level=1",
        "profileset.s1~replicate+=level=1",
        "profileset.s2+=level=2",
        "profileset.s2~replicate+=level=2",
        '"profileset.s2+=name=a b"',
        '"profileset.s2~replicate+=name=a b"',
        "target_error=0.2828",
        "iterations=125000",
    ]


@pytest.mark.parametrize(("own", "run"), [(50, 50), (100, 100), (150, 100), (1000, 500)])
def test_half_the_fights_suffice_to_estimate_an_error(own: int, run: int) -> None:
    assert staged(f"mage=A\n{FOUR}iterations={own}\n", number=1).endswith(f"\niterations={run}\n")


def test_over_a_thousand_sets_only_the_first_run_twice() -> None:
    sets = "".join(f"profileset.s{number}+=level=1\n" for number in range(1001))
    lines = staged(f"mage=A\n{sets}", number=1).splitlines()
    assert sum("~replicate" in line for line in lines) == 1000
    assert "target_error=1.0" in lines


def test_no_token_changes_at_the_start_of_a_stage() -> None:
    text = f"#\n\ufeffjson2=/tmp/more.json\nmage=A\n{FOUR}"
    for number in (1, 2, 3):
        ran = [token.text for token in tokens(staged(text, number=number))]
        assert [line for line in ran[:-2] if "~replicate" not in line] == [token.text for token in tokens(text)]


def test_a_single_pass_runs_the_text_unchanged() -> None:
    text = f"mage=A\niterations=100\n{FOUR}"
    analysis = analyse(text, rules=RULES, bounds=BOUNDS)
    stage = StagePlan(MultistageReason.DISABLED).stages[0]
    assert replicates(stage, analysis, culled=frozenset()) == {}
    assert stage_text(stage, text, analysis, culled=frozenset(), replicates={}) == text


@pytest.mark.parametrize(
    ("means", "lost"),
    [
        ([100, 99, 95, 90], {"90"}),
        ([100, 80, 60], {"80", "60"}),
        ([100, 100, 100], set()),
        ([100], set()),
        ([], set()),
    ],
)
def test_clearly_worse_profilesets_are_culled(means: list[float], lost: set[str]) -> None:
    assert beaten([profileset(str(mean), mean) for mean in means]) == lost


def test_results_with_zero_error_are_not_compared() -> None:
    assert beaten([profileset("a", 100, 0), profileset("b", 1, 1), profileset("c", 1, 0)]) == set()
    assert beaten([profileset("a", 100, 1), profileset("b", 1, 0), profileset("c", 1, 1)]) == {"c"}


@pytest.mark.parametrize(("fights", "lost"), [(2, set()), (50, set()), (100, {"b"})])
def test_results_of_few_fights_are_not_compared(fights: int, lost: set[str]) -> None:
    assert beaten([profileset("a", 100, fights=fights), profileset("b", 50)]) == lost
    assert beaten([profileset("a", 100), profileset("b", 50, fights=fights)]) == lost


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=40), st.floats(0.01, 100))
def test_the_best_is_never_culled(means: list[float], error: float) -> None:
    profilesets = [profileset(str(number), mean, error) for number, mean in enumerate(means)]
    assert str(means.index(max(means))) not in beaten(profilesets)


@pytest.mark.slow
def test_the_funnel_keeps_the_best_and_saves_most_of_the_work() -> None:
    outcome = trials.run(trials=300, seed=6)
    assert outcome.lost == 0
    assert outcome.share_of_single_pass < 0.2


@pytest.mark.slow
def test_a_reach_that_is_too_short_loses_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.planning.multistage.LOSS_PROBABILITY", 2.0)
    assert trials.run(trials=300, seed=6).lost > 0


@pytest.mark.parametrize("offset", [1, 2, 7])
@pytest.mark.parametrize("candidates", [12, 64])
def test_the_best_survives_seed_effects_above_the_errors(candidates: int, offset: float) -> None:
    outcome = trials.run(trials=100, seed=6, candidates=candidates, offset=offset)
    assert outcome.lost == 0
    assert outcome.share_of_single_pass < 1


def test_seed_effects_lose_the_best_without_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "widening", lambda *_: 1.0)
    assert trials.run(trials=100, seed=6, candidates=64, offset=7).lost > 50


def test_replicates_cost_little_if_errors_are_honest(monkeypatch: pytest.MonkeyPatch) -> None:
    with_replicates = trials.run(trials=100, seed=6, candidates=64).share_of_single_pass
    monkeypatch.setattr(trials, "replicates", lambda *_, **__: {})
    assert with_replicates < 1.1 * trials.run(trials=100, seed=6, candidates=64).share_of_single_pass


@pytest.mark.parametrize(
    "names",
    [
        ["a", "b"],
        ["a", "a~replicate", "b~replicate", "b"],
        ["a~replicate2_", "a~replicate", "a~replicate~replicate", "a~replicate3", "~replicate4_", "a~"],
    ],
)
def test_removing_the_suffix_restores_every_name(names: list[str]) -> None:
    text = "".join(f"profileset.{name}+=level=1\n" for name in names)
    suffix = suffix_for(text)
    assert suffix not in text
    replicates = names_for(names, suffix=suffix)
    assert not set(names) & set(replicates.values())
    assert [replicate.replace(suffix, "") for replicate in replicates.values()] == names


def test_a_profile_full_of_suffixes_is_no_problem() -> None:
    text = "".join(f"~replicate{number}_" for number in range(2, 150_000))
    assert suffix_for(text) == "~replicate150000_"
