"""The history of a character: results over time by build."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from clients.accounts import default_client
from clients.models import Membership
from dashboard.jobs import history as page
from dashboard.jobs.history import chart_of
from jobs.models import Build, Job, JobProfile
from jobs.results import history
from jobs.results.history import Point
from jobs.results.outlines import Outline
from jobs.results.rankings import Entry
from jobs.results.verdicts import EVEN, GAIN
from simservice.api.pagination import make_cursor
from tests.dashboard.browsing import browser_of, count_queries, text_of
from tests.dashboard.summaries import EVIL, NAMES, make_completed_job, make_failed_job, make_stopped_job, summary
from tests.factories import make_account, make_member
from tests.jobs.plans import copy_job, plans_of, reindex_jobs

pytestmark = pytest.mark.django_db
MAX_QUERIES = 12
START = datetime(2026, 11, 1, tzinfo=UTC)


def complete(owner: Membership, character: str = "Frosty", **fields: Any) -> Job:
    """Return a completed job of a character with a mean of 100 DPS, or with the figures of `fields`."""
    return make_completed_job(summary(**{"name": character, **fields}), client=default_client(owner.account))


def path(owner: Membership, query: str = "") -> str:
    return f"/dashboard/{owner.account}/history{query}"


def open_history(owner: Membership, query: str = "") -> Any:
    response = browser_of(owner).get(path(owner, query))
    assert response.status_code == 200
    return response


def shown(response: Any) -> list[int]:
    """Return the ids of the listed jobs."""
    return [point.job.pk for point in response.context["points"]]


def points(*means: float, builds: str = "") -> list[Point]:
    """Return points with means, and with a build for each letter of `builds`."""
    made = {letter: Build(simc_version=letter) for letter in builds}
    jobs = [
        Job(id=place, created_at=START + timedelta(days=place), build=made[letter] if builds else None)
        for place, letter in enumerate(builds or " " * len(means))
    ]
    return [Point(job=job, entry=Entry(0, "", mean, 1.0)) for job, mean in zip(jobs, means, strict=True)]


def test_the_latest_character_is_shown_first(owner: Membership) -> None:
    first, other = complete(owner), complete(owner, "Bruna")
    assert shown(open_history(owner)) == [other.pk]
    response = open_history(owner, "?character=Frosty")
    assert shown(response) == [first.pk]
    assert response.context["characters"] == ["Bruna", "Frosty"]
    # A comparison of actors has no point.
    make_completed_job({"metric": "dps", "mainActor": None}, client=default_client(owner.account), character="Xy")
    assert shown(open_history(owner)) == [other.pk]
    assert "<h1><bdi>Frosty</bdi></h1>" in response.content.decode()


def test_only_completed_jobs_of_the_account_are_points(owner: Membership) -> None:
    client = default_client(owner.account)
    make_failed_job(client=client, character="Frosty")
    make_stopped_job("timed_out", "max_credits_reached", client=client, character="Frosty")
    complete(make_member())
    job = complete(owner)
    assert shown(open_history(owner)) == [job.pk]


@pytest.mark.parametrize(
    "other",
    [
        {"metric": "raid_dps", "mainActor": summary()["mainActor"]},
        {"metric": "dps", "mainActor": None},
    ],
    ids=["raid", "actors"],
)
def test_a_result_without_comparable_dps_has_no_point(owner: Membership, other: dict[str, Any]) -> None:
    make_completed_job(other, client=default_client(owner.account), character="Frosty")
    job = complete(owner)
    assert shown(open_history(owner)) == [job.pk]


def test_an_account_without_jobs_explains_the_page(owner: Membership) -> None:
    assert "No results yet." in text_of(open_history(owner))


@pytest.mark.parametrize("character", ["Nobody", "%00", "x" * 5000, "%F0%9F%91%A9", "'--"])
def test_an_unknown_character_has_no_results(owner: Membership, character: str) -> None:
    complete(owner)
    response = open_history(owner, f"?character={character}")
    assert shown(response) == ([] if character != "%00" else [Job.objects.get().pk])


@pytest.mark.parametrize("name", [EVIL, *NAMES])
def test_hostile_names_are_escaped(owner: Membership, name: str) -> None:
    complete(owner, name[:100])
    content = open_history(owner).content.decode()
    assert "<img" not in content
    assert "<script>" not in content


def test_earlier_jobs_are_on_the_next_page(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "POINTS", 2)
    jobs = [complete(owner).pk for _ in range(5)][::-1]
    query, seen = "", []
    for _ in range(3):
        response = open_history(owner, query)
        seen.append(shown(response))
        query = response.context["page"].following
    assert seen == [jobs[:2], jobs[2:4], jobs[4:]]
    assert query == ""


def test_a_cursor_of_another_account_is_not_found(owner: Membership) -> None:
    cursor = make_cursor(account_id=make_account().pk, last_id=1)
    assert browser_of(owner).get(path(owner, f"?after={cursor}")).status_code == 404


def test_queries_do_not_grow_with_jobs(owner: Membership) -> None:
    complete(owner)
    http = browser_of(owner)
    before = count_queries(http, path(owner))
    for character in ("Frosty", "Frosty", "Bruna"):
        complete(owner, character)
    assert count_queries(http, path(owner)) == before <= MAX_QUERIES


def test_a_jobs_page_links_to_the_history(owner: Membership) -> None:
    job = complete(owner, "A&B/C")
    content = browser_of(owner).get(f"/dashboard/{owner.account}/jobs/{job.pk}/log").content.decode()
    assert f"{path(owner)}?character=A%26B%2FC" in content
    assert shown(open_history(owner, "?character=A%26B%2FC")) == [job.pk]


@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
def test_a_history_reads_only_its_own_jobs(owner: Membership) -> None:
    rare = complete(owner, "Rare")
    copy_job(complete(owner).pk, 20_000)
    reindex_jobs()
    read = partial(history.history_of, owner.account, before=None, limit=200)
    actions: list[Callable[[], object]] = [
        partial(history.characters_of, owner.account),
        partial(history.latest_character, owner.account),
        partial(read, "Rare"),
        partial(read, "Nobody"),
    ]
    pages = [plan.pages for action in actions for plan in plans_of(action, table="jobs_job")]
    assert len(pages) == len(actions)
    assert max(pages) <= 300
    assert [point.job.pk for point in read("Rare").points] == [rare.pk]


@pytest.mark.parametrize("error", [0.0, 1e-30, 1e30])
@pytest.mark.parametrize("mean", [0.0, 1e-30, -1e-30, 100.0, -1e30])
def test_hostile_figures_are_shown(owner: Membership, mean: float, error: float) -> None:
    job = complete(owner, mean=mean, mean_error=error)
    assert shown(open_history(owner)) == [job.pk]


def test_no_points_make_no_chart() -> None:
    assert chart_of([]) is None


@pytest.mark.parametrize(
    "means", [[100.0], [0.0, 0.0], [-5.0, 5.0], [1e99, -1e99], [1e-9, 2e-9], [1e15, 1e15 + 1], list(range(200))]
)
def test_everything_is_inside_the_picture(means: list[float]) -> None:
    chart = chart_of(points(*means))
    assert chart is not None
    dots = [dot for series in chart.series for dot in series.dots]
    assert all(0 < float(dot.x) < 100 and 0 < float(dot.y) < 100 for dot in dots)
    assert all(0 <= float(label.at) <= 100 for label in (*chart.values, *chart.dates))
    assert len(chart.values) <= 8
    assert len(chart.dates) <= 5
    assert "nan" not in "".join(series.line + series.intervals for series in chart.series)


def test_the_values_of_the_axis_are_round() -> None:
    chart = chart_of(points(24_000.0, 31_000.0))
    assert chart is not None
    assert [label.text for label in chart.values] == ["24,000", "26,000", "28,000", "30,000"]


def test_distances_are_those_of_time() -> None:
    made = points(10.0, 20.0, 30.0)
    made[1].job.created_at = START + timedelta(days=1.5)
    chart = chart_of(made)
    assert chart is not None
    assert [dot.x for dot in chart.series[0].dots] == ["2.00", "74.00", "98.00"]


@pytest.mark.parametrize(
    ("span", "labels"),
    [
        (timedelta(seconds=5), ["1 Nov 00:00"]),
        (timedelta(hours=8), ["1 Nov 01:00", "1 Nov 03:00", "1 Nov 05:00", "1 Nov 07:00"]),
        (timedelta(days=8), ["2 Nov", "4 Nov", "6 Nov", "8 Nov"]),
        (timedelta(days=80), ["11 Nov 2026", "1 Dec 2026", "21 Dec 2026", "10 Jan 2027"]),
        (timedelta(days=1600), ["May 2027", "Jun 2028", "Jul 2029", "Sep 2030"]),
    ],
)
def test_dates_are_distinct(span: timedelta, labels: list[str]) -> None:
    assert [label.text for label in page.TimeAxis(START, START + span).labels()] == labels


def test_each_setup_is_a_series_with_its_change() -> None:
    made = points(100.0, 101.0, 120.0, 121.0, 120.5)
    for number, equipment in enumerate("aabbc"):
        made[number] = replace(made[number], equipment=equipment)
    setups = history.setups_of(made)
    assert [[point.mean for point in setup.points] for setup in setups] == [[100, 101], [120, 121], [120.5]]
    first, second, third = (setup.change for setup in setups)
    assert first is None
    assert second is not None
    assert third is not None
    assert (second.kind, second.difference, third.kind) == (GAIN, 20, EVEN)
    chart = chart_of(made)
    assert chart is not None
    assert [(series.number, len(series.dots)) for series in chart.series] == [(1, 2), (2, 2), (3, 1)]


def test_other_fights_gear_and_talents_are_other_setups(owner: Membership) -> None:
    client = default_client(owner.account)
    gear = [{"slot": "head", "name": "hat", "id": 1}]
    for fields, text in (
        ({}, "fight_style=A"),
        ({}, "fight_style=B"),
        ({"talents": "X"}, "fight_style=B"),
        ({"talents": "X", "gear": gear}, "fight_style=B"),
        ({}, "# the first one\nfight_style=A"),
    ):
        result = summary()
        result["mainActor"] |= fields
        make_completed_job(result, client=client, text=f'mage="Frosty"\n{text}\n')
    response = open_history(owner)
    rows = [(len(row["setup"].points), row["setup"].outline.fight) for row in response.context["setups"]]
    assert rows == [(1, "B"), (1, "B"), (1, "B"), (2, "A")]
    assert "0 % ± 2 , within the margin of error" in text_of(response)
    job = response.context["points"][0].job
    assert f'<a href="/dashboard/{owner.account}/jobs/{job.pk}" tabindex="-1"' in response.content.decode()


def test_a_profile_that_was_removed_has_no_fight(owner: Membership) -> None:
    job = complete(owner)
    JobProfile.objects.filter(pk=job.pk).delete()
    assert [row["setup"].outline for row in open_history(owner).context["setups"]] == [Outline()]


def test_changes_of_the_build_are_numbered() -> None:
    chart = chart_of(points(10.0, 20.0, 30.0, 40.0, 50.0, builds="aabba"))
    assert chart is not None
    periods = [(period.number, period.build and period.build.simc_version, period.mean) for period in chart.periods]
    assert periods == [(1, "a", 15.0), (2, "b", 35.0), (3, "a", 50.0)]
    assert [period.x for period in chart.periods] == ["0.00", "38.00", "86.00"]


def test_numbers_in_the_picture_do_not_overlap() -> None:
    chart = chart_of(points(*[1.0] * 200, builds="ab" * 100))
    assert chart is not None
    assert len(chart.periods) == 200
    assert sum(period.is_numbered for period in chart.periods) <= 34
