"""Verdicts about results: each sentence, on constructed results."""

import math
from random import Random
from statistics import NormalDist
from typing import Any

import pytest

from jobs.enums import VerdictKind
from jobs.planning.multistage import beaten, one_run, plan, pooled, replicates, widening
from jobs.results import verdicts
from jobs.results.rankings import LISTED, Entry
from jobs.results.verdicts import EVEN, GAIN, LOSS, Compared, Verdict, verdict_in, widened
from simc.reports import CONFIDENCE, Profileset
from tests.jobs.planning import stage_trials as trials

OWN = Entry(0, "Frosty", 1000.0, 1.0)


def ranked(*means: float, error: float = 1.0, stages: tuple[int, ...] = ()) -> list[Entry]:
    """Return entries with these means, best first, named A, B and so on."""
    found = [Entry(0, chr(65 + at), mean, error, stages[at] if stages else 1) for at, mean in enumerate(means)]
    found.sort(key=lambda entry: -entry.mean)
    return [entry._replace(number=number) for number, entry in enumerate(found, 1)]


def verdict(*means: float, error: float = 1.0, **options: Any) -> Verdict:
    return Compared(ranked(*means, error=error), OWN, **options).verdict()


def said(*means: float, error: float = 1.0, **options: Any) -> tuple[str, str]:
    found = verdict(*means, error=error, **options)
    return found.kind.value, found.text


def test_a_clear_winner_is_best() -> None:
    found = verdict(1025, 1001, 990)
    assert (found.kind, found.text) == (VerdictKind.BEST, "Best: A, +2.5 % ± 0.2")
    assert (found.names, found.count) == (["A"], 1)
    assert found.change == pytest.approx(2.5)
    assert found.margin == pytest.approx(0.1 * math.sqrt(2) * widened(3))


def test_variants_that_cannot_be_told_apart_are_tied() -> None:
    found = verdict(1027, 1026.5, 1027.5, 1010, 990)
    assert (found.kind, found.text) == (VerdictKind.TIED, "3 variants are tied for best, about +2.7 %")
    assert (found.names, found.count) == (["C", "A", "B"], 3)


def test_equal_variants_are_not_better() -> None:
    assert said(1000, 1000, 1000) == ("none_better", "No variant is clearly better than your baseline")


@pytest.mark.parametrize("means", [(990, 980), (999,), (1001, 999)], ids=str)
def test_no_variant_wins_with_a_loss_or_within_the_margin(means: tuple[float, ...]) -> None:
    found = verdict(*means)
    assert found.kind == VerdictKind.NONE_BETTER
    assert (found.names, found.count, found.change, found.margin) == ((), 0, None, None)
    assert "est" not in found.text.removeprefix("No variant is clearly better")


def test_the_only_clear_upgrade_is_not_the_best_if_others_may_be_better() -> None:
    assert said(1003, 1001.5) == ("upgrade", "Clear upgrade: A, +0.3 % ± 0.2")


def test_a_vague_best_mean_does_not_hide_a_clear_upgrade() -> None:
    entries = [Entry(1, "vague", 1030.0, 100.0), Entry(2, "clear", 1020.0, 1.0)]
    assert Compared(entries, OWN).verdict().text == "Clear upgrade: clear, +2.0 % ± 0.2"


@pytest.mark.parametrize(
    "vague", [Entry(1, "C", 1030.0, 35.0), Entry(1, "C", 1030.0, 0.0)], ids=["wide", "unknown"]
)
def test_a_vague_best_mean_does_not_tie_variants_that_clearly_differ(vague: Entry) -> None:
    entries = [vague, Entry(2, "A", 1025.0, 1.0), Entry(3, "B", 1010.0, 1.0)]
    assert Compared(entries, OWN, partial=True).verdict().text == "Clear upgrade: A, +2.5 % ± 0.2 (partial result)"


def test_a_vague_clear_upgrade_is_tied_only_with_variants_that_nothing_exceeds() -> None:
    entries = [Entry(1, "C", 1030.0, 10.0), Entry(2, "A", 1025.0, 1.0), Entry(3, "B", 1015.0, 1.0)]
    assert Compared(entries, OWN).verdict().names == ["C", "A"]


def test_a_chosen_baseline_is_compared_with_the_others() -> None:
    entries = ranked(1025, 1020, 990)
    assert Compared(entries, OWN, base=2).verdict().text == "Best: A, +0.5 % ± 0.2"
    assert Compared(entries, OWN, base=1).verdict().text == "No variant is clearly better than the chosen baseline"


def test_a_chosen_baseline_was_picked_by_looking_so_margins_cover_all_pairs() -> None:
    entries = ranked(1025, 1020, 990)
    assert Compared(entries, OWN).comparisons == 3
    # The profile's baseline takes part.
    assert Compared(entries, OWN, base=2).comparisons == 6


def test_one_comparison_has_its_own_margin() -> None:
    compared = Compared(ranked(1001.5, error=1.0), OWN)
    assert compared.factor == 1.0
    assert compared.kinds == [GAIN]
    assert Compared(ranked(1001.4, error=1.0), OWN).kinds == [EVEN]
    assert Compared(ranked(998.5, error=1.0), OWN).kinds == [LOSS]


@pytest.mark.parametrize(("comparisons", "probability"), [(2, 0.025), (600, 0.05 / 600)])
def test_many_comparisons_are_right_together(comparisons: int, probability: float) -> None:
    two_sided = 2 * (1 - NormalDist().cdf(1.96 * widened(comparisons)))
    assert two_sided == pytest.approx(probability)


def test_variants_that_are_not_listed_count_as_comparisons() -> None:
    assert Compared(ranked(1025), OWN, count=5_000).factor == widened(5_000)


def test_the_margin_contains_what_replicates_showed() -> None:
    assert said(1003.0, widening=2.0)[0] == "best"
    assert said(1003.0, widening=3.0)[0] == "none_better"
    built = summary([figures("A", 1003.0)])
    built["multiStage"]["widening"] = 3.0
    assert found_in(built).kind == VerdictKind.NONE_BETTER


def without_effect(draw: Random) -> Compared:
    """Return 600 variants that change nothing, each with its own random error."""
    means = [draw.gauss(1000, 1 / CONFIDENCE) for _ in range(601)]
    return Compared(ranked(*means[1:]), OWN._replace(mean=means[0]))


def test_variants_without_effect_rarely_name_a_winner() -> None:
    draw = Random(1)  # noqa: S311 - a reproducible simulation
    jobs = [without_effect(draw) for _ in range(200)]
    assert sum(bool(job.verdict().names) for job in jobs) <= 10
    for job in jobs:
        job.factor = 1.0
    # With the margin of a single comparison
    assert sum(job.kind_of(job.entries[0]) == GAIN for job in jobs) > 100


def staged_without_effect(draw: Random, *, offset: float) -> Compared:
    """Return 60 equal variants after all stages. The seed of each run shifts its mean by about `offset` errors."""
    analysis = trials.profile(60)
    stages = plan(analysis, wanted=True, bounds=trials.BOUNDS).stages
    culled, found, widest = set[str](), dict[str, Profileset](), 1.0
    for stage in stages:
        twice = replicates(stage, analysis, culled=culled)
        names = [name for name in analysis.profilesets if name not in culled]
        names += [twice[name] for name in names if name in twice]
        single = one_run(stage, replicated=bool(twice))
        raw = [trials.simulated(name, 1000, single, draw, offset=offset) for name in names]
        found |= {each.name: each for each in pooled(raw, twice)}
        if not stage.is_last:
            widest = max(widest, widening(raw, twice))
            culled |= beaten(pooled(raw, twice), widening=widening(raw, twice))
    own = trials.simulated("own", 1000, stages[-1], draw, offset=offset)
    ordered = sorted(found.values(), key=lambda each: -each.statistics.mean)
    return Compared([entry_of(each, at) for at, each in enumerate(ordered, 1)], entry_of(own, 0), widening=widest)


def entry_of(profileset: Profileset, number: int) -> Entry:
    statistics = profileset.statistics
    return Entry(number, profileset.name, statistics.mean, statistics.mean_error, profileset.stage)


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_stages_of_variants_without_effect_rarely_name_a_winner(offset: float) -> None:
    draw = Random(3)  # noqa: S311 - a reproducible simulation
    jobs = [staged_without_effect(draw, offset=offset) for _ in range(200)]
    assert sum(bool(job.verdict().names) for job in jobs) <= 10
    for job in jobs:
        job.factor = 1.0
    # With the margin of a single comparison
    assert sum(job.kind_of(job.entries[0]) == GAIN for job in jobs) > 50


def test_the_worst_variant_as_baseline_rarely_makes_a_winner() -> None:
    draw = Random(2)  # noqa: S311 - a reproducible simulation
    jobs = [without_effect(draw) for _ in range(200)]
    chosen = [Compared(job.entries, job.own, base=600) for job in jobs]
    assert sum(bool(job.verdict().names) for job in chosen) <= 10
    for job in chosen:
        job.factor = widened(600)
    # With the margin of a baseline that was not chosen
    assert sum(job.kind_of(job.entries[0]) == GAIN for job in chosen) > 20


def test_variants_dropped_by_a_stage_are_not_tied() -> None:
    entries = [
        Entry(1, "final", 1025.0, 1.0, 3),
        Entry(2, "dropped", 1024.0, 10.0, 1),
        Entry(3, "other", 1020.0, 1.0, 3),
    ]
    assert Compared(entries, OWN).verdict().text == "Best: final, +2.5 % ± 0.2"


def test_a_dropped_variant_that_has_the_highest_mean_after_all_is_tied() -> None:
    entries = [Entry(1, "dropped", 1026.0, 5.0, 1), Entry(2, "final", 1025.0, 1.0, 3)]
    assert Compared(entries, OWN).verdict().names == ["dropped", "final"]


def test_variants_that_a_stopped_job_did_not_simulate_further_are_tied() -> None:
    entries = [Entry(1, "early", 1027.0, 3.0, 1), Entry(2, "later", 1025.0, 1.0, 2)]
    found = Compared(entries, OWN, partial=True).verdict()
    assert found.text == "2 variants are tied for best, about +2.6 % (partial result)"


def test_a_partial_result_says_that_it_is_partial() -> None:
    for means in ((1025,), (1027, 1027), (990,)):
        assert verdict(*means, partial=True).text.endswith(" (partial result)")
    assert Compared([], OWN, partial=True).verdict().text == "1,000 ± 1 DPS (partial result)"


def test_a_capped_list_has_at_least_its_length_of_tied_variants() -> None:
    entries = [Entry(number, f"set {number}", 1100.0, 1.0, 1) for number in range(1, 301)]
    capped, whole = Compared(entries[:LISTED], OWN, count=300), Compared(entries, OWN)
    assert capped.verdict() == whole.verdict()
    assert capped.verdict().text == "At least 200 variants are tied for best, about +10.0 %"
    assert len(capped.verdict().names) == verdicts.MAX_NAMES


def test_a_profile_without_variants_says_its_mean() -> None:
    assert said() == ("no_variants", "1,000 ± 1 DPS")
    assert Compared([], OWN).verdict(unit="Raid DPS").text == "1,000 ± 1 Raid DPS"
    assert Compared([], OWN._replace(mean=0.0, error=0.0)).verdict().text == "No damage"


def test_several_actors_have_a_best_one() -> None:
    others = ranked(1025, 990)
    assert Compared(others, OWN, is_candidate=True).verdict().text == "Best actor: A, 1,025 ± 1 DPS"
    first = OWN._replace(mean=2000.0)
    assert Compared(others, first, is_candidate=True).verdict().text == "Best actor: Frosty, 2,000 ± 1 DPS"


def test_actors_can_be_tied() -> None:
    found = Compared(ranked(1000.5, 990), OWN, is_candidate=True).verdict()
    assert (found.kind, found.names) == (VerdictKind.TIED_ACTORS, ["A", "Frosty"])
    assert found.text == "2 actors are tied for best, about 1,000 DPS"


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf], ids=str)
def test_figures_that_are_not_finite_decide_nothing(odd: float) -> None:
    entries = [Entry(1, "odd", odd, 1.0), Entry(2, "unsure", 1100.0, odd), *ranked(1025, 990)]
    found = Compared(entries, OWN).verdict()
    assert found.kind in (VerdictKind.BEST, VerdictKind.UPGRADE)
    assert found.names == ["A"]
    assert Compared(ranked(1025), OWN._replace(mean=odd)).verdict().kind == VerdictKind.UNKNOWN
    assert Compared([], OWN._replace(mean=odd)).verdict().kind == VerdictKind.UNKNOWN
    assert Compared([], OWN._replace(error=odd)).verdict().text == "1,000 DPS"


def test_a_baseline_without_damage_is_compared_without_percent() -> None:
    own = Entry(0, "Idle", 0.0, 0.0)
    assert Compared(ranked(1025, 900), own).verdict().text == "Best: A, 1,025 ± 1 DPS"
    assert Compared(ranked(1025, 1025), own).verdict().text == "2 variants are tied for best, about 1,025 DPS"
    assert Compared(ranked(0.0, error=0.0), own).verdict().kind == VerdictKind.NONE_BETTER


def test_a_variant_without_damage_loses() -> None:
    assert Compared([Entry(1, "idle", 0.0, 0.0)], OWN).kinds == [LOSS]


def test_an_error_of_zero_is_unknown() -> None:
    assert Compared([Entry(1, "once", 1500.0, 0.0)], OWN).verdict().kind == VerdictKind.NONE_BETTER
    once = Compared(ranked(1025), OWN._replace(error=0.0)).verdict()
    assert (once.kind, once.text) == (VerdictKind.UNKNOWN, "Too few fights to compare variants")


def test_names_that_differ_only_in_case_or_blanks_are_different_variants() -> None:
    entries = [Entry(at, name, 1025.0, 1.0) for at, name in enumerate(("Ring", "ring", "ring ", " ring"), 1)]
    found = Compared(entries, OWN).verdict()
    assert (found.count, found.names) == (4, ["Ring", "ring", "ring ", " ring"])


def test_a_long_name_is_cut_in_the_sentence_only() -> None:
    found = Compared([Entry(1, "x" * 5_000, 1025.0, 1.0)], OWN).verdict()
    assert len(found.text) < 150
    assert found.names == ["x" * 5_000]


def figures(name: str, mean: float, error: float = 1.0, fights: int = 1000) -> dict[str, Any]:
    deviation = error / 1.96 * math.sqrt(fights)
    return {
        "name": name, "mean": mean, "mean_error": error, "mean_stddev": error / 1.96, "stddev": deviation,
        "min": 0, "max": 2 * mean,
    }  # fmt: skip


def summary(profilesets: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    actor = figures("Frosty", 1000)
    if profilesets:
        actor["profilesets"] = {"count": len(profilesets), "results": profilesets}
    return {"metric": "dps", "mainActor": actor, "multiStage": {"enabled": False, "stages": []}} | fields


def found_in(built: dict[str, Any]) -> Verdict:
    found = verdict_in(built)
    assert found is not None
    return found


def test_a_summary_has_a_verdict() -> None:
    assert verdict_in(None) is None
    assert found_in(summary([])).text == "1,000 ± 1 DPS"
    assert found_in(summary([figures("A", 1025)], metric="raid_dps")).text == "Best: A, +2.5 % ± 0.1"
    actors = {"count": 2, "results": [figures("A", 900), figures("B", 1000)]}
    assert found_in(summary([], mainActor=None, actors=actors)).text == "Best actor: B, 1,000 ± 1 DPS"
    assert verdict_in(summary([], mainActor=None)) is None


def test_a_summary_that_lists_only_some_actors_says_so() -> None:
    actors = {"count": 300, "results": [figures(f"a {number}", 1000 + 9 * number) for number in range(LISTED)]}
    assert found_in(summary([], mainActor=None, actors=actors)).text == (
        "Best actor of the first 200: a 199, 2,791 ± 1 DPS"
    )


def test_errors_of_few_fights_are_unknown() -> None:
    assert found_in(summary([figures("A", 1500, 1.0, fights=79)])).kind == VerdictKind.NONE_BETTER
    assert found_in(summary([figures("A", 1500, 1.0, fights=80)])).kind == VerdictKind.BEST


@pytest.mark.parametrize(
    ("change", "margin", "text"),
    [
        (2.79, 0.23, "+2.8 % ± 0.2"),
        (2.79, 0.023, "+2.79 % ± 0.02"),
        (2.794, 0.002, "+2.79 % ± 0.01"),
        (2.79, 0.096, "+2.8 % ± 0.1"),
        (2.79, 0.96, "+3 % ± 1"),
        (-45.3, 23.4, "\N{MINUS SIGN}45 % ± 23"),
        (0.04, 0.2, "0.0 % ± 0.2"),
        (-0.04, 0.2, "0.0 % ± 0.2"),
        (1234.5, 0.3, "+1,234.5 % ± 0.3"),
        (3e7, 1e6, "+3e+07 % ± 1e+06"),
        (2.79, None, "+2.8 %"),
        (2.79, 0.0, "+2.79 % ± 0.01"),
    ],
)
def test_a_change_is_rounded_to_its_margin(change: float, margin: float | None, text: str) -> None:
    assert verdicts.percent_with_margin(change, margin) == text
