"""The verdict of a result is the same on every surface, and the ranking as CSV."""

import csv
import io
import math
from typing import Any

import pytest
from django.test import Client as HttpClient

from clients.accounts import default_client
from clients.models import Membership
from dashboard.public.card.content import card_of
from jobs.models import Job
from jobs.results.comparison import compare, sides_of
from jobs.results.verdicts import verdict_of
from simservice_client.cli.compare import rows_of
from simservice_client.cli.console import Console
from simservice_client.cli.formats import margin_between
from simservice_client.cli.ranking import print_figures
from simservice_client.models import JobResult
from tests.conftest import Api
from tests.dashboard.browsing import browser_of
from tests.dashboard.job_pages import job_path, share_html
from tests.dashboard.summaries import NAMES, SINGLE, figures, make_completed_job, make_stopped_job, summary
from tests.factories import make_key, make_member

pytestmark = pytest.mark.django_db


def variants(**means: float) -> dict[str, Any]:
    listed = [{**figures(name, mean), "stage": 1} for name, mean in means.items()]
    built = summary()
    built["mainActor"]["profilesets"] = {"count": len(listed), "results": listed}
    return built


@pytest.fixture
def owner() -> Membership:
    return make_member()


def job_with(owner: Membership, job_summary: dict[str, Any]) -> Job:
    return make_completed_job(job_summary, client=default_client(owner.account))


def table_of(response: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(response.content.decode())))


CASES = {
    "best": (variants(ring=120.0, hat=105.0), "Best: ring, +20 % ± 2", "2 variants", "+20 % ± 2"),
    "tied": (
        variants(ring=120.0, hat=119.5, belt=105.0),
        "2 variants are tied for best, about +20 %",
        "3 variants",
        "2 variants are tied for best, about +20 %",
    ),
    "upgrade": (variants(ring=102.2, hat=101.0), "Clear upgrade: ring, +2 % ± 2", "2 variants", "+2 % ± 2"),
    "none_better": (
        variants(ring=100.5, hat=90.0),
        "No variant is clearly better than your baseline",
        "2 variants",
        "No variant is clearly better than your baseline",
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_every_surface_says_the_same(owner: Membership, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    job_summary, text, count, on_the_card = CASES[kind]
    job = job_with(owner, job_summary)
    found = verdict_of(job)
    assert found is not None
    heading = f'<h2 class="verdict">{found.lead}'
    for page in (browser_of(owner).get(job_path(job)).content.decode(), share_html(job)):
        assert heading in page
        assert ("Best variant" in page) == (kind == "best")
    assert f'<meta property="og:description" content="{text} · {count}">' in share_html(job)
    card = card_of(job, None)
    assert card.headline is not None
    assert on_the_card in (card.verdict, card.headline.difference)
    assert (card.headline.caption == "Best variant") == (kind == "best")
    body = Api(make_key(owner.account)[1]).get(f"jobs/{job.pk}/result").json()
    manifest = HttpClient().get(f"/manifests/{job.share_token}").json()
    assert body["result"]["verdict"] == manifest["result"]["verdict"]
    assert (body["result"]["verdict"]["kind"], body["result"]["verdict"]["text"]) == (kind, text)
    result = JobResult.from_json(body)
    assert result.verdict is not None
    print_figures(Console(), result)
    assert text in capsys.readouterr().out.splitlines()
    rows = table_of(HttpClient().get(f"/share/{job.share_token}/ranking.csv"))
    leaders = [row["name"] for row in rows if row["verdict"] == kind]
    assert leaders == list(found.names)


def weak(name: str, mean: float) -> dict[str, Any]:
    """Return a variant with an error of too few fights."""
    return {**figures(name, mean, error=0.5), "stddev": 2.0, "stage": 1}


def test_simctl_prints_the_margins_of_the_page(owner: Membership, capsys: pytest.CaptureFixture[str]) -> None:
    built = variants(ring=120.0, hat=105.0)
    built["mainActor"]["profilesets"] = {"count": 3, "results": [weak("belt", 130.0), *results_in(built)]}
    job = job_with(owner, built)
    print_figures(Console(), result_of(job, owner))
    (printed,) = [line for line in capsys.readouterr().out.splitlines() if " belt " in line]
    assert printed.split() == ["1", "belt", "130", "0", "+30.0", "%"]
    rows = table_of(HttpClient().get(f"/share/{job.share_token}/ranking.csv"))
    assert [row["margin_percent"] for row in rows if row["name"] == "belt"] == [""]


def results_in(job_summary: dict[str, Any]) -> list[dict[str, Any]]:
    return list(job_summary["mainActor"]["profilesets"]["results"])


def result_of(job: Job, owner: Membership) -> JobResult:
    return JobResult.from_json(Api(make_key(owner.account)[1]).get(f"jobs/{job.pk}/result").json())


@pytest.mark.parametrize("widening", [1.0, 2.0])
def test_simctl_compares_jobs_as_their_page_does(owner: Membership, widening: float) -> None:
    summaries = [variants(ring=120.0, hat=105.0, belt=100.0), variants(ring=122.9, hat=108.5, boots=90.0)]
    for built, mean in zip(summaries, (115.0, 125.0), strict=True):
        built["mainActor"]["profilesets"] = {"count": 4, "results": [weak("cap", mean), *results_in(built)]}
    if widening > 1:
        summaries[1]["multiStage"] = {**SINGLE, "widening": widening}
    jobs = [job_with(owner, built) for built in summaries]
    compared = compare(sides_of(jobs, is_public=False))
    assert compared.variants is not None
    assert compared.changes[1] == compared.variants.baseline
    pairs = {pair.name: pair for pair in compared.variants.pairs}
    first, *rows = rows_of([result_of(job, owner) for job in jobs])
    for row, pair in [(first, compared.variants.baseline), *((row, pairs.pop(row.name, None)) for row in rows)]:
        base, other = row.figures
        margin = margin_between(base, other, factor=row.factor) if base and other else None
        known = pair.margin if pair and math.isfinite(pair.margin) else None
        assert margin == (pytest.approx(known) if known else None), row.name
    assert not pairs
    kinds = {pair.name: pair.kind for pair in compared.variants.pairs}
    gain = "gain" if widening == 1 else "even"
    assert kinds == {"cap": "even", "ring": gain, "hat": gain}


def test_the_ranking_is_a_csv_table(owner: Membership) -> None:
    job = job_with(owner, variants(ring=120.0, hat=100.5, belt=90.0))
    rows = table_of(browser_of(owner).get(f"{job_path(job)}/ranking.csv"))
    assert [(row["rank"], row["name"], row["mean"], row["verdict"]) for row in rows] == [
        ("1", "ring", "120.0", "best"),
        ("2", "hat", "100.5", "even"),
        ("", "Frosty", "100.0", "baseline"),
        ("3", "belt", "90.0", "worse"),
    ]
    assert (rows[0]["change_percent"], rows[0]["margin_percent"], rows[0]["stage"]) == ("20.0", "1.7273", "1")
    assert rows[2]["change_percent"] == rows[2]["margin_percent"] == ""


def test_the_csv_table_keeps_the_chosen_baseline(owner: Membership) -> None:
    job = job_with(owner, variants(ring=120.0, hat=105.0))
    content = share_html(job, "?base=1&q=r")
    assert f'href="/share/{job.share_token}/ranking.csv?base=1"' in content
    rows = table_of(HttpClient().get(f"/share/{job.share_token}/ranking.csv?base=1"))
    assert [row["verdict"] for row in rows] == ["baseline", "worse", "worse"]


@pytest.mark.parametrize("name", [*NAMES, "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "'x", 'a,"b"\r\nc'])
def test_hostile_names_are_no_formulas(name: str) -> None:
    built = summary()
    built["mainActor"]["profilesets"] = {"count": 1, "results": [{**figures(name, 120.0), "stage": 1}]}
    job = make_completed_job(built)
    response = HttpClient().get(f"/share/{job.share_token}/ranking.csv")
    cell = table_of(response)[0]["name"]
    assert (cell.removeprefix("'")) == name
    assert cell[0] not in "=+-@\t\r"
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert response.headers["X-Robots-Tag"] == "noindex"


def test_actors_have_a_csv_table_too() -> None:
    actors = {"count": 2, "results": [figures("Ada", 50.0), figures("Bo", 90.0)]}
    job = make_completed_job({"metric": "dps", "mainActor": None, "multiStage": SINGLE, "actors": actors})
    rows = table_of(HttpClient().get(f"/share/{job.share_token}/ranking.csv"))
    assert [(row["name"], row["verdict"]) for row in rows] == [("Bo", "best_actor"), ("Ada", "baseline")]


def test_a_copied_link_keeps_filters_and_the_baseline(owner: Membership) -> None:
    job = job_with(owner, variants(ring=120.0, hat=105.0))
    query = "?q=ring&base=2"
    link = f'/share/{job.share_token}?q=ring&amp;base=2">Copy link'
    assert link in browser_of(owner).get(job_path(job) + query).content.decode()
    assert link in share_html(job, query)
    assert f'/share/{job.share_token}">Copy link' in share_html(job)


def test_a_partial_result_says_so() -> None:
    job = make_stopped_job("timed_out", "max_credits_reached", variants(ring=120.0, hat=105.0))
    content = share_html(job)
    assert 'content="Timed out · Best: ring, +20 % ± 2 (partial result) · 2 variants"' in content
    assert "(partial result)</h2>" in content


def test_a_private_title_is_not_shown() -> None:
    job = make_completed_job(variants(ring=120.0), metadata={"title": "secret plan"})
    assert "secret plan" not in share_html(job)


def test_damage_names_its_actor_whatever_the_baseline(owner: Membership) -> None:
    job = job_with(owner, variants(ring=120.0, hat=105.0))
    assert "Damage of the baseline" not in share_html(job, "?base=1")
