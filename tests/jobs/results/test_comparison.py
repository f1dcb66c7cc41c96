"""Comparisons of jobs: which jobs are chosen, and how they differ."""

import json
import zlib
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from billing.models import Account
from clients.accounts import default_client
from jobs.enums import Status
from jobs.errors import NotFound
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Build, Job, JobDetails, JobRanking
from jobs.results import comparison
from jobs.results.common_variants import CommonVariants, common_variants
from jobs.results.comparison import CannotCompare, Comparison, Missing, Problem, sides_of
from jobs.results.rankings import Entry
from jobs.results.verdicts import EVEN, GAIN, LOSS, Compared, widened
from simservice.ids import new_token, next_id
from tests.factories import make_account, make_job, make_running_job
from tests.jobs.results.compared_jobs import ITEM, ability, add_details, make_result, summary

pytestmark = pytest.mark.django_db

TOKEN = "Abcdefghij_-klmnopqr01"
HOSTS = {"sims.example.org"}


@pytest.mark.django_db
def test_jobs_keep_the_order_of_their_ids(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    client = default_client(make_account())
    jobs = [make_job(client) for _ in range(4)][::-1]
    with django_assert_num_queries(1):
        assert comparison.own_jobs(client.account, [str(job.pk) for job in jobs]) == jobs
    with django_assert_num_queries(1):
        assert comparison.shared_jobs([job.share_token for job in jobs]) == jobs


@pytest.mark.django_db
def test_unknown_jobs_and_those_of_others_are_not_found() -> None:
    own, other = make_job(), make_job()
    for wrong in (str(other.pk), str(next_id()), "x", "", "1" * 5000):
        with pytest.raises(NotFound):
            comparison.own_jobs(own.account, [str(own.pk), wrong])
    with pytest.raises(NotFound):
        comparison.shared_jobs([own.share_token, new_token()])


def test_too_many_and_repeated_jobs_are_refused_without_a_query() -> None:
    for names, problem in ((list("abcde"), Problem.TOO_MANY), (["a", "b", "a"], Problem.REPEATED)):
        with pytest.raises(CannotCompare) as refused:
            comparison.shared_jobs(names)
        assert refused.value.problem == problem
        with pytest.raises(CannotCompare):
            comparison.own_jobs(Account(), names)


@pytest.mark.django_db
def test_links_that_have_all_expired_are_not_found(settings: Settings) -> None:
    old, new = make_job(), make_job()
    expired = timezone.now() - timedelta(days=settings.RETENTION_DAYS, seconds=1)
    Job.objects.filter(pk=old.pk).update(created_at=expired)
    assert len(comparison.shared_jobs([old.share_token, new.share_token])) == 2
    with pytest.raises(NotFound):
        comparison.shared_jobs([old.share_token])


@pytest.mark.parametrize(
    "text",
    [
        TOKEN,
        f"  {TOKEN}\n",
        f"https://sims.example.org/share/{TOKEN}",
        f"http://sims.example.org/share/{TOKEN}/?q=a#results",
        f"sims.example.org/share/{TOKEN}",
    ],
)
def test_a_share_link_contains_a_token(text: str) -> None:
    assert comparison.token_of(text, hosts=HOSTS) == TOKEN


@pytest.mark.parametrize(
    "text",
    [
        "",
        TOKEN[1:],
        f"{TOKEN}x",
        f"https://elsewhere.example.org/share/{TOKEN}",
        f"https://sims.example.org@elsewhere.example.org/share/{TOKEN}",
        f"https://sims.example.org/artifacts/{TOKEN}",
        f"https://sims.example.org/share/{TOKEN}/more",
        f"javascript://sims.example.org/share/{TOKEN}",
        f"/share/{TOKEN}",
        "https://[sims/share/x",
        "x" * 100_000,
        "\x00",
    ],
)
def test_other_texts_are_not_share_links(text: str) -> None:
    with pytest.raises(CannotCompare) as refused:
        comparison.token_of(text, hosts=HOSTS)
    assert refused.value.problem == Problem.NOT_A_LINK


def compare(*jobs: Job, is_public: bool = False) -> Comparison:
    return comparison.compare(sides_of(jobs, is_public=is_public))


def options_of(found: Comparison) -> dict[str, Any]:
    """Return the values of each option that differs."""
    return {row.name: list(row.values) for row in found.options if row.differs}


@pytest.mark.parametrize(("mean", "is_clear"), [(105.0, False), (105.1, True), (95.0, False), (94.9, True)])
def test_a_difference_is_clear_beyond_the_combined_error(mean: float, *, is_clear: bool) -> None:
    first, second = compare(make_result(summary(100.0, 3.0)), make_result(summary(mean, 4.0))).changes
    assert first is None
    assert second is not None
    assert (second.margin, second.kind != EVEN) == (5.0, is_clear)
    assert second.percent == pytest.approx(mean - 100)


def test_other_metrics_are_not_compared() -> None:
    raid = summary() | {"metric": "raid_dps"}
    assert compare(make_result(), make_result(raid)).changes == [None, None]


def test_a_mean_of_zero_has_no_percentage() -> None:
    change = compare(make_result(summary(0.0)), make_result()).changes[1]
    assert change is not None
    assert (change.difference, change.percent) == (100.0, None)


def test_the_first_job_with_a_result_is_the_baseline() -> None:
    found = compare(make_job(), make_result(), make_result())
    assert (found.first, [change is None for change in found.changes]) == (1, [True, True, False])


def test_jobs_without_results_say_why() -> None:
    failed, expired = make_running_job(), make_result()
    job_moves.finish(failed, Outcome(status=Status.FAILED, error_code="simulation_error", reason="It failed."))
    Job.objects.filter(pk=expired.pk).update(cleared_at=expired.created_at)
    expired.refresh_from_db()
    found = compare(make_job(), Job.objects.get(pk=failed.pk), expired)
    assert [side.missing for side in found.sides] == [Missing.UNFINISHED, Missing.NO_RESULT, Missing.EXPIRED]
    assert [side.figure for side in found.sides] == [None, None, None]
    assert (found.first, found.options, found.abilities) == (None, [], [])


def test_a_job_with_several_actors_shows_the_first() -> None:
    entries = [summary(mean)["mainActor"] | {"name": name} for name, mean in (("One", 7.0), ("Two", 9.0))]
    actors = {"count": 2, "results": entries}
    side = compare(make_result(summary() | {"mainActor": None, "actors": actors})).sides[0]
    assert side.figure is not None
    assert (side.actor, side.actors, side.figure.entry.mean) == ("One", 2, 7.0)


def test_options_differ_if_two_known_values_do() -> None:
    one = add_details(make_result(), fight={"style": "Patchwerk", "targets": 1, "length": 300})
    two = add_details(make_result(), fight={"style": "HecticAddCleave", "targets": 1, "targetError": 0.1})
    assert options_of(compare(one, two, make_result())) == {"fight_style": ["Patchwerk", "HecticAddCleave", None]}


def test_another_build_is_a_difference() -> None:
    jobs = [make_result() for _ in range(2)]
    Build.objects.filter(jobs=jobs[1]).update(simc_version="1200-01", wow_version="12.0")
    assert set(options_of(compare(jobs[0], jobs[1]))) == {"build"}


def test_an_item_is_compared_by_its_numbers() -> None:
    hats = [ITEM, ITEM | {"name": "Hat"}, ITEM | {"enchantId": 5}]
    for other, differs in zip(hats, (False, False, True), strict=True):
        found = compare(*(add_details(make_result(), gear=[item]) for item in (ITEM, other)))
        assert [row.differs for row in found.gear] == [differs]


def test_an_empty_slot_differs_from_an_item() -> None:
    ring = {"slot": "finger1", "name": "ring"}
    one, two = (add_details(make_result(), gear=gear) for gear in ([ITEM, ring], [ITEM]))
    found = compare(one, two, make_result())
    assert {row.name: (list(row.values), row.differs) for row in found.gear} == {
        "head": ([ITEM, ITEM, None], False),
        "finger1": ([ring, {}, None], True),
    }


def test_talents_are_compared_if_two_are_known() -> None:
    one, same, other = (add_details(make_result(), talents=text) for text in ("ABC", "ABC", "ABD"))
    assert compare(one, make_result()).talents is None
    for jobs, differs in (((one, same), False), ((one, other), True)):
        talents = compare(*jobs).talents
        assert talents is not None
        assert talents.differs is differs


def test_abilities_are_sorted_by_their_largest_difference() -> None:
    one = add_details(make_result(), abilities=[ability("Bolt", 50), ability("Nova", 20), ability("Bolt", 5)])
    two = add_details(make_result(), abilities=[ability("Bolt", 54), ability("Imp", 9, pet=True)])
    rows = compare(one, two, make_result()).abilities
    assert [(row.name, row.is_pet, list(row.values), list(row.differences)) for row in rows] == [
        ("Nova", False, [20, None, None], [None, -20, None]),
        ("Imp", True, [None, 9, None], [None, 9, None]),
        ("Bolt", False, [55, 54, None], [None, -1, None]),
    ]


def test_profiles_are_compared_with_the_first() -> None:
    jobs = [make_result(text=f'mage="Frosty"\nlevel={level}\n') for level in (80, 80, 79)]
    first, same, other = compare(*jobs).profiles
    assert first is None
    assert same is not None
    assert other is not None
    assert (same.groups, other.removed, other.added) == ([], 1, 1)


@pytest.mark.parametrize("private", [{"with_input": False}, {"has_credentials": True}])
def test_a_private_profile_is_not_compared_in_public(private: dict[str, Any]) -> None:
    jobs = make_result(), make_result(**private)
    assert compare(*jobs, is_public=True).profiles == [None, None]
    assert compare(*jobs).profiles[1] is not None


def test_a_public_profile_is_that_of_the_latest_attempt() -> None:
    jobs = make_result(), make_result()
    assert compare(*jobs, is_public=True).profiles[1] is not None
    jobs[0].attempt += 1
    assert compare(*jobs, is_public=True).profiles[1] is None


def test_an_unreadable_document_counts_as_none() -> None:
    job = add_details(make_result(), abilities=[ability("Bolt", 1)])
    JobDetails.objects.filter(job=job).update(document=b"x")
    assert compare(job, job).sides[0].abilities is None


def test_the_number_of_queries_is_constant(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    jobs = [add_details(make_result(), abilities=[ability("Bolt", 1)]) for _ in range(4)]
    for job in jobs:
        _ = job.build, job.account
    for count in (1, 4):
        with django_assert_num_queries(2):
            compare(*jobs[:count])
        with django_assert_num_queries(3):
            compare(*jobs[:count], is_public=True)


def variants_of(*entries: tuple[str, float], mean: float = 100.0, count: int = 0) -> dict[str, Any]:
    """Return the summary of an actor with variants of these names and means, best first."""
    listed = [summary(value)["mainActor"] | {"name": name} for name, value in entries]
    found = summary(mean)
    found["mainActor"]["profilesets"] = {"count": count or len(listed), "results": listed}
    return found


def common(*summaries: dict[str, Any]) -> CommonVariants:
    """Return the common variants of two jobs with these summaries."""
    found = compare(*map(make_result, summaries)).variants
    assert found is not None
    return found


def test_variants_are_joined_by_their_exact_names() -> None:
    found = common(
        variants_of(("Ring", 120), ("ring", 110), ("Hat ", 105), ("Belt", 90)),
        variants_of(("Belt", 130), ("Ring", 121), ("Hat", 105)),
    )
    assert [(pair.name, pair.first.mean, pair.second.mean, pair.kind) for pair in found.pairs] == [
        ("Belt", 90, 130, GAIN),
        ("Ring", 120, 121, EVEN),
    ]
    assert (found.only_first, found.only_second) == (["ring", "Hat "], ["Hat"])
    assert found.baseline.kind == EVEN


def test_margins_of_variants_are_widened_for_all_of_them() -> None:
    entries = [(f"Ring {number}", 150.0 - number) for number in range(9)]
    found = common(variants_of(*entries), variants_of(*entries))
    assert [pair.margin for pair in found.pairs] == pytest.approx([2**0.5 * widened(10)] * 9)
    assert found.kinds == {EVEN: 9}


def test_chance_rarely_makes_a_variant_differ() -> None:
    random = Random(7)  # noqa: S311
    wrong = 0
    for _ in range(200):
        found = common_variants(*(_noisy(random, count=60) for _ in range(2)))
        assert found is not None
        wrong += any(found.kinds[kind] for kind in (GAIN, LOSS))
    assert wrong <= 16


def _noisy(random: Random, *, count: int) -> Compared:
    """Return variants without effect, whose means differ by chance only."""
    own, *entries = [Entry(number, f"{number}", random.gauss(1000, 1), 1.96) for number in range(count + 1)]
    return Compared(entries, own)


def test_other_baselines_are_compared_too() -> None:
    found = common(variants_of(("Ring", 120), mean=100), variants_of(("Ring", 150), mean=130))
    assert (found.baseline.kind, found.baseline.difference) == (GAIN, 30)


def test_all_variants_of_long_rankings_are_joined() -> None:
    sets = [(f"Ring {number}", 5000.0 - number) for number in range(5000)]
    jobs = [make_result(variants_of(*sets[:200], count=len(sets))) for _ in range(2)]
    for job in jobs:
        columns = {
            "names": [name for name, _ in sets],
            "means": [mean for _, mean in sets],
            "errors": [1.0] * len(sets),
            "stages": [1] * len(sets),
        }
        JobRanking.objects.create(job=job, document=zlib.compress(json.dumps(columns).encode()))
    found = compare(*jobs).variants
    assert found is not None
    assert (len(found.pairs), found.only_first, found.only_second) == (5000, [], [])
    assert (found.pairs[0].name, found.pairs[-1].name) == ("Ring 0", "Ring 4999")


def test_a_variant_is_not_said_to_be_missing_from_a_list_that_is_incomplete() -> None:
    found = common(variants_of(("Ring", 120), ("Hat", 110)), variants_of(("Ring", 120), ("Belt", 110), count=5000))
    assert (len(found.pairs), found.only_first, found.only_second) == (1, [], ["Belt"])


def test_jobs_without_variants_have_none_in_common() -> None:
    assert compare(make_result(), make_result()).variants is None
    one = make_result(variants_of(("Ring", 120)))
    found = compare(one, make_result()).variants
    assert found is not None
    assert (found.pairs, found.only_first) == ([], ["Ring"])
    raid = make_result(variants_of(("Ring", 120)) | {"metric": "raid_dps"})
    assert compare(one, raid).variants is None
    assert compare(one, one, one).variants is None


def test_abilities_within_the_margin_are_even() -> None:
    one = add_details(make_result(), abilities=[ability("Bolt", 50), ability("Nova", 20)])
    two = add_details(make_result(), abilities=[ability("Bolt", 51), ability("Nova", 22)])
    found = compare(one, two)
    assert [(row.name, list(row.is_clear)) for row in found.abilities] == [
        ("Nova", [False, True]),
        ("Bolt", [False, False]),
    ]
    assert found.ability_margin == pytest.approx(2**0.5)
