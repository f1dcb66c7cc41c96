"""Titles of jobs: the metadata's title, the characters, or the time of submission."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client as HttpClient

from clients.accounts import default_client
from clients.models import Membership
from jobs.models import Job
from simc.profiles.analysis import analyse
from simc.profiles.numbers import Bounds
from simc.profiles.policy import Rules
from tests.conftest import Api
from tests.dashboard.browsing import browser_of, count_queries
from tests.dashboard.job_pages import read
from tests.dashboard.summaries import EVIL, figures, make_completed_job, make_failed_job, summary
from tests.factories import make_client, make_event, make_job

pytestmark = pytest.mark.django_db
AT = datetime(2026, 11, 21, 4, 5, tzinfo=UTC)
FALLBACK = "Job from 21 Nov, 04:05"
BOUNDS = Bounds(iterations=100, target_error=0.05)


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"given_title": "Mine", "metadata": {"title": "Raid"}, "character": "Frosty"}, "Mine"),
        ({"metadata": {"title": " Raid night "}, "character": "Frosty"}, "Raid night"),
        ({"metadata": {"title": " \u200b"}, "character": "Frosty"}, "Frosty"),
        ({"metadata": {"Title": "x"}, "character": "Frosty"}, "Frosty"),
        ({"character": "Frosty", "other_characters": 3}, "Frosty and 3 more"),
        ({"character": "\u200b", "other_characters": 3}, FALLBACK),
        ({}, FALLBACK),
    ],
    ids=["given", "title", "invisible", "other-key", "several", "invisible-name", "none"],
)
def test_a_title_falls_back_to_metadata_and_characters(fields: dict[str, Any], title: str) -> None:
    assert Job(id=1, created_at=AT, **fields).title == title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ('mage="Frosty"\nlevel=80', "Frosty"),
        ('mage="Frosty"\nlevel=80\ncopy="Other"\nwarrior="Bruna"\nlevel=80', "Frosty and 2 more"),
        ('mage="Frosty"\nlevel=80\nprofileset."a"+=level=80', "Frosty"),
        ('mage="export_2026"\nlevel=80\nname=Frosty\nprofileset."a"+=name=Other', "Frosty"),
        ('mage="Frosty"\nlevel=80\nenemy="Boss"\nname=Big', "Frosty"),
        ('mage="Frosty"\nlevel=80\nwarrior="B"\nname=Bruna', "Frosty and 1 more"),
        (f'mage="{"x" * 300}"\nlevel=80', "x" * 100),
    ],
    ids=["one", "several", "profilesets", "renamed", "renamed-enemy", "renamed-other", "long"],
)
def test_a_submission_stores_the_characters(api: Api, text: str, title: str) -> None:
    response = api.post("jobs", {"profile": {"text": text}, "build": {"channel": "latest"}})
    assert response.status_code == 200, response.content
    assert Job.objects.get().title == title


@pytest.mark.parametrize(
    ("text", "name"),
    [("armory=us,illidan,Johnny|frost,Other", "Johnny"), ("guild=us,illidan,Guild", None), ("armory=us", "")],
)
def test_a_downloaded_character_is_named_without_realm(text: str, name: str | None) -> None:
    assert analyse(text, rules=Rules(bundled=frozenset(), has_credentials=True), bounds=BOUNDS).main_actor == name


def test_a_job_has_the_name_in_its_report() -> None:
    assert make_completed_job().title == "Frosty"
    job = make_completed_job(character="export_2026", other_characters=1)
    assert (job.character, job.title, job.public_title) == ("Frosty", "Frosty and 1 more", "Frosty and 1 more")


@pytest.mark.parametrize(
    ("fields", "name"),
    [({}, "Ada"), ({"not_reached": {"actors": 1, "profilesets": 0}}, "Given")],
    ids=["several actors", "first actor not reached"],
)
def test_the_first_actor_of_several_names_a_job(fields: dict[str, Any], name: str) -> None:
    actors = {"count": 2, "results": [figures("Ada", 5), figures("Bo", 9)]}
    several = {**summary(), "mainActor": None, "actors": actors, **fields}
    assert make_completed_job(several, character="Given").character == name


def test_a_failed_job_without_a_report_keeps_its_name() -> None:
    assert make_failed_job(character="Given").title == "Given"


@pytest.mark.parametrize(
    "path",
    ["", "jobs", "jobs/{job}", "clients/{client}/webhook", "events/{event}", "credits"],
    ids=["overview", "list", "job", "deliveries", "delivery", "credits"],
)
def test_every_page_of_an_account_shows_titles(owner: Membership, path: str) -> None:
    bot = make_client(owner.account)
    job = make_job(bot, metadata={"title": f"Raid {EVIL}"})
    event = make_event(bot, job_id=job.pk)
    path = path.format(job=job.pk, client=bot.pk, event=event.name)
    content = read(f"/dashboard/{owner.account}/{path}", browser_of(owner))
    assert "Raid &lt;img src=x" in content
    assert "<img" not in content


def test_the_page_title_contains_the_jobs_title(owner: Membership) -> None:
    job = make_job(default_client(owner.account), metadata={"title": "Raid night"})
    content = read(f"/dashboard/{owner.account}/jobs/{job.pk}", browser_of(owner))
    assert f"<title>Raid night · {owner.account}" in content
    assert '<h1><bdi class="clamped">Raid night</bdi></h1>' in content


def test_the_list_does_not_repeat_the_title(owner: Membership) -> None:
    make_job(default_client(owner.account), metadata={"title": "Raid night", "pull": "7"})
    content = read(f"/dashboard/{owner.account}/jobs", browser_of(owner))
    assert content.count("Raid night") == 1


def test_a_share_page_shows_the_character_and_no_metadata() -> None:
    job = make_job(metadata={"title": "Raid night"}, character="Frosty", other_characters=2)
    content = read(f"/share/{job.share_token}", HttpClient())
    assert "Frosty and 2 more</bdi></h1>" in content
    assert "<title>Frosty and 2 more: " in content
    assert "Raid night" not in content


@pytest.mark.parametrize("page", ["", "{job}/change/"], ids=["list", "job"])
def test_the_admin_shows_titles(page: str) -> None:
    job = make_job(metadata={"title": f"Raid {EVIL}"})
    http = HttpClient()
    http.force_login(User.objects.create_superuser("operator"))
    assert "Raid &lt;img src=x" in read(f"/admin/jobs/job/{page.format(job=job.pk)}", http)


@pytest.mark.parametrize("page", ["", "jobs", "clients/{client}/webhook", "credits"])
def test_titles_need_no_query_per_job(owner: Membership, page: str) -> None:
    bot, http = make_client(owner.account), browser_of(owner)
    path = f"/dashboard/{owner.account}/{page.format(client=bot.pk)}"
    make_event(bot, job_id=make_job(bot).pk)
    count_queries(http, path)
    before = count_queries(http, path)
    for _ in range(5):
        make_event(bot, job_id=make_job(bot).pk)
    assert count_queries(http, path) == before


def test_titles_of_other_accounts_jobs_are_hidden(owner: Membership) -> None:
    bot = make_client(owner.account)
    event = make_event(bot, job_id=make_job(metadata={"title": "a secret"}).pk)
    for path in (f"clients/{bot.pk}/webhook", f"events/{event.name}"):
        assert "a secret" not in read(f"/dashboard/{owner.account}/{path}", browser_of(owner))
