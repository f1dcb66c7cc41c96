"""The combat model: better gear means more damage, and fights vary realistically."""

import numpy as np
import pytest

from minisim.configuration import Configuration
from minisim.progress import Progress
from minisim.samples import Samples
from minisim.sheet import sheet_of
from minisim.simulation import Phase, StopFlag
from simc.profiles.grammar import Option, tokens

ITERATIONS = 4000
ADA = f"mage=Ada level=80 iterations={ITERATIONS} seed=3 neck=a,id=1,ilevel=640 main_hand=b,id=2,ilevel=640 "


def configured(profile: str) -> Configuration:
    configuration = Configuration()
    configuration.apply_all(Option(1, token.name, token.value or "") for token in tokens(profile))
    return configuration


def dps(profile: str) -> Samples:
    configuration = configured(profile)
    progress = Progress(phases=1, tabular=True)
    result = Phase(configuration, configuration.settings.completed()).run(progress, StopFlag())
    return result.actors[0].dps


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        ("main_hand=b,id=2,ilevel=640", "main_hand=b,id=2,ilevel=660"),
        ("neck=a,id=1,ilevel=640", "neck=a,id=1,ilevel=680"),
        ("", "head=c,id=3,ilevel=600"),
        ("head=c,stats=3000int_2000crit", "head=c,stats=4500int_2000crit"),
        ("head=c,stats=3000int_2000haste", "head=c,stats=3000int_6000haste"),
        ("gear_crit_rating=5000", "gear_crit_rating=9000"),
        ("gear_mastery_rating=5000", "gear_mastery_rating=9000"),
        ("gear_versatility_rating=5000", "gear_versatility_rating=9000"),
        ("gems.ruby_power=100", "gems.ruby_power=2400"),
        ("weapon_trait.diamond_strike=1", "weapon_trait.diamond_strike=4"),
        ("", "set_bonus=tier_2pc=1"),
        ("flask=disabled", "flask=big_flask"),
    ],
)
def test_better_gear_means_more_damage(worse: str, better: str) -> None:
    low, high = dps(ADA + worse), dps(ADA + better)
    assert high.mean - low.mean > 3 * np.hypot(low.mean_std_dev, high.mean_std_dev)


def test_only_the_last_item_of_a_slot_counts() -> None:
    twice = configured(ADA + "neck=a,id=1,ilevel=700 neck=a,id=1,ilevel=640")
    assert sheet_of(twice.players()[0]) == sheet_of(configured(ADA).players()[0])


@pytest.mark.parametrize("change", ["talents=BBB", "race=gnome", "neck=a,id=1,ilevel=640,gem_id=5", "spec=fire"])
def test_small_changes_affect_the_damage(change: str) -> None:
    base, other = (sheet_of(configured(profile).players()[0]) for profile in (ADA, ADA + change))
    assert (base.multiplier, base.crit, base.haste, base.mastery, base.versatility) != (
        (other.multiplier, other.crit, other.haste, other.mastery, other.versatility)
    )


def test_a_missing_item_level_depends_on_the_bonus_ids() -> None:
    levels = []
    for bonus in ("1/2", "1/2", "1/3"):
        players = configured(f"mage=Ada level=80 neck=,id=9,bonus_id={bonus}").players()
        levels.append(sheet_of(players[0]).gear["neck"].ilevel)
    assert levels[0] == levels[1] != levels[2]
    assert all(610 <= level <= 684 for level in levels)


def test_actions_come_from_the_action_list() -> None:
    lists = "actions=auto_attack/a,if=x actions+=/b/call_action_list,name=y actions.y=c/a actions.precombat=d"
    assert list(sheet_of(configured(ADA + lists).players()[0]).actions) == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["frost_mage", "fury_warrior", "unholy_death_knight"])
def test_one_fight_varies_by_a_few_percent(kind: str) -> None:
    samples = dps(ADA.replace("Ada", kind))
    assert 0.03 < samples.std_dev / samples.mean < 0.06


def test_more_targets_take_more_damage() -> None:
    assert dps(ADA + "desired_targets=3").mean > 1.5 * dps(ADA).mean
    assert dps(ADA + "enemy=a enemy=b").mean > 1.3 * dps(ADA).mean


def test_extreme_numbers_stay_finite() -> None:
    absurd = dps(ADA + "gear_intellect=1e300 gear_haste_rating=1e300 gems.x=1e300 neck=a,ilevel=999999999")
    assert np.isfinite(absurd.std_dev)


def test_running_statistics_match_the_values() -> None:
    samples, rng = Samples(), np.random.default_rng(1)
    for size in (1, 7, 250):
        samples.add(rng.normal(1e6, 3, size))
    assert samples.mean == pytest.approx(samples.values().mean())
    assert samples.std_dev == pytest.approx(samples.values().std())
