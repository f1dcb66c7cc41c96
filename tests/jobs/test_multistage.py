"""Which stages a job runs in, which profilesets survive them, and how far it is."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import trials
from jobs.multistage import Course, Plan, Stage, beaten, plan, stage_text
from jobs.profiles.analysis import Bounds, analyse
from jobs.profiles.grammar import tokens
from jobs.profiles.policy import Rules
from jobs.simulator.reports import Profileset, Statistics

BOUNDS = Bounds(iterations=250_000, target_error=0.01)
RULES = Rules(bundled=frozenset({"mage.simc"}))
FOUR = "".join(f"profileset.s{number}+=level={number}\n" for number in range(4))


def planned(text: str, *, wanted: bool = True) -> Plan:
    return plan(analyse(text, rules=RULES, bounds=BOUNDS), wanted=wanted, bounds=BOUNDS)


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
        (f"mage=A\n{FOUR}profileset_metric=dtps", "unsupported_stage_sensitive_directive"),
        (f"mage=A\n{FOUR}profileset_metric=raid_dps", "eligible_profileset_only"),
    ],
)
def test_why_a_job_runs_in_stages_or_does_not(text: str, reason: str) -> None:
    found = planned(text)
    assert (found.reason, found.enabled) == (reason, reason == "eligible_profileset_only")
    assert found.enabled == (len(found.stages) > 1)


def test_nobody_gets_stages_who_did_not_ask() -> None:
    assert planned(f"mage=A\n{FOUR}", wanted=False) == Plan("disabled_by_option")


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
def test_iterations_cap_every_stage(own: str, iterations: int) -> None:
    assert {stage.iterations for stage in planned(f"mage=A\n{FOUR}{own}").stages} == {iterations}


def test_what_a_stage_runs() -> None:
    text = f"mage=A\ncalculate_scale_factors=1\niterations=900000\n{FOUR}"
    analysis = analyse(text, rules=RULES, bounds=BOUNDS)
    first, _, last = plan(analysis, wanted=True, bounds=BOUNDS).stages
    begun = stage_text(first, text, analysis, culled=frozenset())
    ended = stage_text(last, text, analysis, culled={"s0", "s3"})
    assert "calculate_scale_factors" not in begun
    assert begun.endswith("target_error=1.0\niterations=250000\n")
    assert ended.splitlines() == [
        "# Stage 3 of 3",
        "mage=A",
        "calculate_scale_factors=1",
        "iterations=900000",
        "profileset.s1+=level=1",
        "profileset.s2+=level=2",
        "target_error=0.05",
        "iterations=250000",
    ]


def test_no_token_becomes_another_at_the_start_of_a_stage() -> None:
    text = f"#\n\ufeffjson2=/tmp/more.json\nmage=A\n{FOUR}"
    analysis = analyse(text, rules=RULES, bounds=BOUNDS)
    for stage in plan(analysis, wanted=True, bounds=BOUNDS).stages:
        ran = [token.text for token in tokens(stage_text(stage, text, analysis, culled=frozenset()))]
        assert ran[:-2] == [token.text for token in tokens(text)]


def test_a_single_pass_runs_the_text_as_it_is() -> None:
    text = f"mage=A\n{FOUR}"
    analysis = analyse(text, rules=RULES, bounds=BOUNDS)
    assert stage_text(Plan("disabled_by_option").stages[0], text, analysis, culled=frozenset()) == text


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
def test_what_is_clearly_beaten_is_culled(means: list[float], lost: set[str]) -> None:
    assert beaten([profileset(str(mean), mean) for mean in means]) == lost


def test_an_error_of_zero_neither_beats_nor_is_beaten() -> None:
    assert beaten([profileset("a", 100, 0), profileset("b", 1, 1), profileset("c", 1, 0)]) == set()
    assert beaten([profileset("a", 100, 1), profileset("b", 1, 0), profileset("c", 1, 1)]) == {"c"}


@pytest.mark.parametrize(("fights", "lost"), [(2, set()), (50, set()), (100, {"b"})])
def test_few_fights_neither_beat_nor_are_beaten(fights: int, lost: set[str]) -> None:
    assert beaten([profileset("a", 100, fights=fights), profileset("b", 50)]) == lost
    assert beaten([profileset("a", 100), profileset("b", 50, fights=fights)]) == lost


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=40), st.floats(0.01, 100))
def test_the_best_is_never_beaten(means: list[float], error: float) -> None:
    found = [profileset(str(number), mean, error) for number, mean in enumerate(means)]
    assert str(means.index(max(means))) not in beaten(found)


def test_the_funnel_keeps_the_true_best_and_saves_most_of_the_work() -> None:
    outcome = trials.run(trials=300, seed=6)
    assert outcome.lost == 0
    assert outcome.share_of_single_pass < 0.2


def test_a_reach_that_is_too_short_loses_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.multistage.LOSS_PROBABILITY", 2.0)
    assert trials.run(trials=300, seed=6).lost > 0


def test_the_percent_of_all_stages_never_falls_and_ends_at_100() -> None:
    stages = planned(f"mage=A\n{FOUR}").stages
    draw = random.Random(4)  # noqa: S311 - repeatable, not secret
    for _ in range(50):
        course, seen, left = Course(stages), [0.0], 200
        for stage in stages:
            course.enter(stage, profilesets=left)
            seen += [course.advance(percent) for percent in (0, 1, 50, 49, 100)]
            left = draw.randint(0, left)
        assert seen == sorted(seen)
        assert seen[-1] == 100


def test_early_stages_weigh_little() -> None:
    course = Course(planned(f"mage=A\n{FOUR}").stages)
    course.enter(course.stages[0], profilesets=200)
    assert 0 < course.advance(100) < 10


def test_a_single_pass_is_as_far_as_its_process() -> None:
    course = Course([Stage(number=1, count=1)])
    course.enter(course.stages[0], profilesets=7)
    assert [course.advance(percent) for percent in (0, 33.3, 99.9)] == [0, 33.3, 99.9]
