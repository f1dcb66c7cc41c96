"""The result on share pages and job pages: hostile texts, queries, size and speed with 5,000 profilesets."""

import time
from typing import Any

import pytest
from django.test import Client as HttpClient

from clients.accounts import default_client
from clients.models import Membership
from jobs.models import Job, JobDetails, JobRanking
from jobs.results import details, rankings
from simc.reports import Profileset, Statistics
from tests.dashboard.browsing import browser_of
from tests.dashboard.job_pages import job_path, share_html
from tests.dashboard.summaries import EVIL, NAMES, figures, make_completed_job, summary
from tests.dashboard.test_queries import MAX_QUERIES, queries_of
from tests.factories import make_member

pytestmark = pytest.mark.django_db
PROFILESETS = 5_000
PREFIXES = ("Trinket", "Gem", "Enchant", "Head", "Ring")
# The aim is 80 ms on an idle machine; tests share theirs.
MAX_CPU_SECONDS = 0.25
MAX_BYTES = 150 * 1024
GEAR = [{"slot": f"slot {number}", "name": "An item of the vault", "id": 1, "ilevel": 684} for number in range(16)]


def ability(name: str, **fields: Any) -> dict[str, Any]:
    """Return an ability as details contain it."""
    known = {"name": name, "school": "frost", "share": 0.1, "dps": 1e4, "executes": 9.0, "hits": 9.0}
    return {**known, "average": 9.0, "critPercent": 30.0, "children": [], **fields}


def document(*names: str) -> dict[str, Any]:
    """Return details of one actor whose abilities, buffs, resources and items have these names."""
    actor = {
        "name": names[0],
        "class": "mage",
        "specialization": names[-1],
        "race": names[0],
        "level": 80,
        "abilities": [ability(name, pet=True, school=name, children=[ability(name)]) for name in names],
        "buffs": [{"name": name, "uptime": 50.0, "count": 2.0} for name in names],
        "damage": {"step": 1.0, "values": [100.0 * number for number in range(360)]},
        "resources": [{"name": name, "gained": 9.0} for name in names],
        "gear": [{"slot": name, "name": name} for name in names],
        "talents": names[0],
    }
    return {"version": 1, "fight": {"style": names[0], "targets": 1, "length": 300.0}, "actors": [actor]}


def make_detailed_job(*names: str, **fields: Any) -> Job:
    """Return a completed job with details."""
    job = make_completed_job(**fields)
    JobDetails.objects.create(job=job, version=1, document=details.packed(document(*names)))
    return job


def make_large_job(owner: Membership) -> Job:
    """Return a completed job with PROFILESETS profilesets, all of them stored, and details."""
    entries = [
        Profileset(
            name=f"{PREFIXES[number % 5]}: Item {number} of the long vault",
            statistics=Statistics(mean=1e5 + 5 * number, mean_stddev=50.0, stddev=900.0, min=8e4, max=12e4),
            stage=1,
        )
        for number in range(PROFILESETS)
    ][::-1]
    best = [{**figures(each.name, each.statistics.mean, 98.0), "stage": 1} for each in entries[: rankings.LISTED]]
    actor = figures("Frosty", 110_000.0, 98.0) | {"profilesets": {"count": PROFILESETS, "results": best}}
    job_summary = summary() | {"mainActor": actor | {"gear": GEAR, "talents": "C" * 100}}
    names = [f"Ability number {number}" for number in range(25)]
    job = make_detailed_job(*names, job_summary=job_summary, client=default_client(owner.account))
    JobRanking.objects.create(job=job, document=rankings.packed(entries))
    return job


def test_hostile_names_are_text_everywhere() -> None:
    content = share_html(make_detailed_job(*NAMES, job_summary=summary(*NAMES, name=EVIL)))
    assert "<img" not in content
    assert "<script>" not in content
    assert "{{ 7|add:7 }}" in content
    assert content.count("&lt;img src=x onerror=alert(1)&gt;") >= 10


def test_every_part_of_the_details_is_shown() -> None:
    content = share_html(make_detailed_job("Frostbolt"))
    assert "Damage breakdown of <bdi>Frostbolt</bdi>" in content
    for heading in ("Damage over time", "Buff uptimes", "Resources", "Gear", "Talents"):
        assert f">{heading}</h2>" in content
    assert "5:00" in content


def test_numbers_that_the_database_stores_as_integers_are_accepted() -> None:
    job = make_completed_job(summary("a", min=-1e308, max=1e308))
    other = make_completed_job(summary(min=-1e308, max=1e308))
    for path in (f"/share/{job.share_token}", f"/compare?share={job.share_token}&share={other.share_token}"):
        assert HttpClient().get(path).status_code == 200
    assert HttpClient().get(f"/share/{other.share_token}/card.png").status_code == 200


def test_parts_without_data_vanish_with_their_headings() -> None:
    content = share_html(make_completed_job())
    for heading in (
        "Ranking",
        "Damage breakdown",
        "Damage over time",
        "Buff",
        "Resources",
        "Gear",
        "Talents",
        "Stages",
    ):
        assert f">{heading}" not in content
    assert ">Damage per second</h2>" in content


def test_unreadable_details_are_ignored() -> None:
    job = make_completed_job()
    JobDetails.objects.create(job=job, version=1, document=b"\x00")
    JobRanking.objects.create(job=job, document=b"\x00")
    assert "Damage breakdown" not in share_html(job)


def test_differences_within_the_error_are_words_too() -> None:
    job_summary = summary()
    job_summary["mainActor"]["profilesets"] = {"count": 1, "results": [{**figures("vague", 101.0), "stage": 1}]}
    assert "+1 % <span>± 1</span>" in share_html(make_completed_job(job_summary))


def test_a_large_result_needs_few_queries_and_bytes() -> None:
    owner = make_member()
    job = make_large_job(owner)
    http = browser_of(owner)
    assert queries_of(http, job_path(job)) <= MAX_QUERIES
    assert queries_of(HttpClient(), f"/share/{job.share_token}") <= MAX_QUERIES
    for query in ("", "?rows=all", "?page=25", "?group=Ring&only=upgrades", "?sort=name&base=9"):
        assert len(http.get(job_path(job) + query).content) <= MAX_BYTES, query


def test_every_profileset_can_be_reached() -> None:
    job = make_large_job(make_member())
    content = share_html(job, "?page=25")
    assert "4,801 to 5,000 of 5,000." in content
    assert "Item 0 of the long vault" in content


def test_a_large_result_is_fast() -> None:
    path = f"/share/{make_large_job(make_member()).share_token}"
    seconds = []
    for _ in range(5):
        started = time.thread_time()
        assert HttpClient().get(path).status_code == 200
        seconds.append(time.thread_time() - started)
    # Other programs can only lengthen a visit.
    assert min(seconds) < MAX_CPU_SECONDS, seconds
