"""Pages that compare jobs of an account, or those of share links."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import Settings

from clients.accounts import default_client
from clients.models import Membership
from jobs.models import Job
from tests.dashboard.browsing import browser_of, count_queries, text_of
from tests.dashboard.summaries import EVIL, NAMES
from tests.factories import make_job
from tests.jobs.results.compared_jobs import ITEM, ability, add_details, make_result, summary

pytestmark = pytest.mark.django_db
MAX_QUERIES = 12
HAT = {"slot": "head", "name": "<b>hat", "id": 2, "ilevel": 610, "gemIds": [7]}


def results_of(owner: Membership, *means: float, **fields: Any) -> list[Job]:
    """Return completed jobs of an account."""
    client = default_client(owner.account)
    return [make_result(summary(mean), client=client, **fields) for mean in means]


def own_path(owner: Membership, *jobs: Job) -> str:
    return f"/dashboard/{owner.account}/compare?" + "&".join(f"job={job.pk}" for job in jobs)


def share_path(*jobs: Job) -> str:
    return "/compare?" + "&".join(f"share={job.share_token}" for job in jobs)


def open_own(owner: Membership, *jobs: Job, status: int = 200) -> Any:
    response = browser_of(owner).get(own_path(owner, *jobs))
    assert response.status_code == status
    return response


def open_shared(*jobs: Job, status: int = 200) -> Any:
    response = HttpClient().get(share_path(*jobs))
    assert response.status_code == status
    return response


def test_both_pages_say_whether_the_jobs_differ(owner: Membership) -> None:
    jobs = results_of(owner, 100, 100.5, 110)
    for response in (open_own(owner, *jobs), open_shared(*jobs)):
        text = text_of(response)
        assert "0 % ± 2 (+0 DPS) No clear difference from A: within the margin of error of ±&nbsp;2." in text
        assert "+10 % ± 2 (+10 DPS) Clearly higher than A: beyond the margin of error of ±&nbsp;2." in text


def test_both_pages_show_what_changed(owner: Membership) -> None:
    one, two = results_of(owner, 100), results_of(owner, 100, text='mage="Frosty"\nlevel=79\n')
    add_details(one[0], gear=[ITEM], talents="ABC", abilities=[ability("bolt", 60)], fight={"targets": 1})
    add_details(two[0], gear=[HAT], talents="ABD", abilities=[ability("bolt", 48)], fight={"targets": 3})
    for response in (open_own(owner, one[0], two[0]), open_shared(one[0], two[0])):
        text = text_of(response)
        for expected in (
            "12 48",
            "&lt;b&gt;hat 610",
            "Gems 7",
            "ABC",
            "ABD",
            "Targets 1 3",
            "+ only in B level= 79",
        ):
            assert expected in text, expected


def test_equal_jobs_say_so(owner: Membership) -> None:
    jobs = [add_details(job, gear=[ITEM], talents="ABC") for job in results_of(owner, 100, 100)]
    response = open_own(owner, *jobs)
    text = text_of(response)
    assert "The same in all jobs Gear, talents, profile; actor Frosty , iterations 500 ," in text
    assert not [
        heading for heading in ("Gear", "Talents", "Profile") if f">{heading}</h2>" in response.content.decode()
    ]


def test_the_order_of_the_address_chooses_the_baseline(owner: Membership) -> None:
    jobs = results_of(owner, 100, 110, 120)
    content = open_own(owner, *jobs).content.decode()
    reordered = f"?job={jobs[1].pk}&amp;job={jobs[0].pk}&amp;job={jobs[2].pk}"
    assert f'href="{reordered}"' in content
    assert f'href="?job={jobs[0].pk}&amp;job={jobs[2].pk}"' in content


def test_jobs_without_a_result_say_why(owner: Membership, settings: Settings) -> None:
    waiting, (expired, done) = make_job(default_client(owner.account)), results_of(owner, 100, 110)
    old = timezone.now() - timedelta(days=settings.RETENTION_DAYS, seconds=1)
    Job.objects.filter(pk=expired.pk).update(created_at=old)
    for response in (open_own(owner, waiting, expired, done), open_shared(waiting, expired, done)):
        text = text_of(response)
        assert "This job has not ended yet." in text
        assert "This job has expired. Its result is no longer available." in text
        assert "100" not in text.partition("Comparison of")[2].partition("Range of")[0].replace(str(expired.pk), "")


def test_an_expired_link_shows_no_title(settings: Settings) -> None:
    done, expired = make_result(given_title="Visible"), make_result(given_title="Hidden")
    old = timezone.now() - timedelta(days=settings.RETENTION_DAYS, seconds=1)
    Job.objects.filter(pk=expired.pk).update(created_at=old)
    content = open_shared(done, expired).content.decode()
    assert "Visible" in content
    assert "Hidden" not in content
    assert open_shared(expired, status=404)


def test_the_public_page_reveals_nothing_about_the_account(owner: Membership) -> None:
    secrets = {"metadata": {"note": "a secret", "title": "an own title"}}
    jobs = results_of(owner, 100, 110, **secrets)
    content = open_shared(*jobs).content.decode()
    for secret in (
        "a secret",
        "an own title",
        owner.account.name,
        str(jobs[0].pk),
        default_client(owner.account).name,
    ):
        assert secret not in content


def test_a_profile_that_cannot_be_downloaded_is_not_shown_in_public(owner: Membership) -> None:
    jobs = [results_of(owner, 100, with_input=False, text=f"level={each}")[0] for each in (70, 80)]
    assert " only in B" in open_own(owner, *jobs).content.decode()
    assert " only in B" not in open_shared(*jobs).content.decode()


def test_the_public_page_has_safe_headers() -> None:
    for response in (open_shared(make_result(), make_result()), HttpClient().get("/compare?share=x")):
        assert response.headers["X-Robots-Tag"] == "noindex"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        assert response.headers["Cache-Control"] == "no-store"


def test_another_accounts_job_is_not_found(owner: Membership) -> None:
    (own,) = results_of(owner, 100)
    assert "Page not found" in text_of(open_own(owner, own, make_result(), status=404))


def test_unknown_jobs_and_links_are_not_found(owner: Membership) -> None:
    (own,) = results_of(owner, 100)
    for wrong in ("9" * 18, "x", "%00", "1" * 400):
        assert browser_of(owner).get(f"{own_path(owner, own)}&job={wrong}").status_code == 404
    assert HttpClient().get(f"{share_path(own)}&share={'x' * 22}").status_code == 404


def test_the_same_job_twice_is_refused_in_words(owner: Membership) -> None:
    (own,) = results_of(owner, 100)
    for response in (open_own(owner, own, own, status=400), open_shared(own, own, status=400)):
        assert "The same job is chosen twice." in text_of(response)


def test_five_jobs_are_refused_in_words(owner: Membership) -> None:
    jobs = results_of(owner, 1, 2, 3, 4, 5)
    for response in (open_own(owner, *jobs, status=400), open_shared(*jobs, status=400)):
        assert "At most 4 jobs can be compared." in text_of(response)


def test_a_share_link_leads_to_the_permanent_address() -> None:
    one, two = make_result(), make_result()
    link = f" http://testserver/share/{two.share_token}?q=x#results"
    response = HttpClient().get("/compare", {"share": [one.share_token, "", link]})
    assert (response.status_code, response.headers["Location"]) == (302, share_path(one, two))


def test_the_public_host_counts_as_ours(settings: Settings) -> None:
    settings.PUBLIC_BASE_URL = "https://sims.example.org"
    job = make_result()
    response = HttpClient().get("/compare", {"share": f"https://sims.example.org/share/{job.share_token}"})
    assert response.headers["Location"] == share_path(job)


def test_a_foreign_link_is_refused_in_words() -> None:
    job = make_result()
    for link in (f"https://elsewhere.example.org/share/{job.share_token}", "//x/y", EVIL, "x" * 5000):
        response = HttpClient().get("/compare", {"share": [job.share_token, link]})
        assert response.status_code == 400
        assert "This is not a share link of this service." in text_of(response)
        # The valid link stays in the form.
        assert f'value="{job.share_token}"' in response.content.decode()


def test_one_job_leads_to_a_choice(owner: Membership) -> None:
    one, two = results_of(owner, 100, 110)
    waiting = make_job(default_client(owner.account))
    content = open_own(owner, one).content.decode()
    assert f'type="hidden" name="job" value="{one.pk}"' in content
    assert f'type="checkbox" name="job" value="{two.pk}"' in content
    assert f'value="{waiting.pk}"' not in content
    assert 'name="share" required' in open_shared(one).content.decode()


def test_jobs_lead_to_the_comparison(owner: Membership) -> None:
    (job,) = results_of(owner, 100)
    pages = [browser_of(owner).get(f"/dashboard/{owner.account}/{path}") for path in (f"jobs/{job.pk}", "jobs")]
    page, listing = (response.content.decode() for response in pages)
    assert f'href="/dashboard/{owner.account}/compare?job={job.pk}"' in page
    assert f'form="compare" name="job" value="{job.pk}"' in listing
    share = HttpClient().get(f"/share/{job.share_token}").content.decode()
    assert 'action="/compare"' in share
    assert f'name="share" value="{job.share_token}"' in share


def test_hostile_names_are_escaped(owner: Membership) -> None:
    abilities = [ability(name, number) for number, name in enumerate(NAMES, 1)]
    gear = [{"slot": name, "name": name} for name in NAMES]
    fields = {"character": EVIL[:100], "text": f'mage="{EVIL}"\n'}
    jobs = results_of(owner, 100, **fields) + results_of(owner, 110, **fields | {"text": "level=1"})
    add_details(jobs[0], abilities=abilities, gear=gear, talents=EVIL, fight={"style": EVIL})
    add_details(jobs[1], abilities=[ability("x", 1)], gear=[ITEM], talents="x", fight={"style": "x"})
    for response in (open_own(owner, *jobs), open_shared(*jobs)):
        content = response.content.decode()
        assert content.count("&lt;img src=x") >= 6
        assert "<img" not in content
        assert "<script>alert" not in content


def test_the_pages_need_few_queries(owner: Membership) -> None:
    jobs = [add_details(job, abilities=[ability("Bolt", 1)]) for job in results_of(owner, 1, 2, 3, 4)]
    for count in (2, 4):
        assert count_queries(browser_of(owner), own_path(owner, *jobs[:count])) <= MAX_QUERIES
        assert count_queries(HttpClient(), share_path(*jobs[:count])) <= 4


def with_variants(*entries: tuple[str, float]) -> dict[str, Any]:
    """Return the summary of an actor with variants of these names and means, best first."""
    found = summary(100)
    listed = [summary(mean)["mainActor"] | {"name": name} for name, mean in entries]
    found["mainActor"]["profilesets"] = {"count": len(listed), "results": listed}
    return found


def test_variants_are_the_first_table(owner: Membership) -> None:
    client = default_client(owner.account)
    one = make_result(with_variants(("Ring", 130), (EVIL, 110)), client=client)
    two = make_result(with_variants(("Ring", 120), ("Hat", 110)), client=client)
    for response in (open_own(owner, one, two), open_shared(one, two)):
        text = text_of(response)
        assert "Clearly higher in B: 0, clearly lower: 1, within the margin of error: 0." in text
        assert (
            "Baseline 100 ± 1 100 ± 1 0 % ± 2 , within the margin of error "
            "Ring 130 ± 1 120 ± 1 \N{MINUS SIGN}8 % ± 1"
        ) in text
        assert "1 variant only in A &lt;img src=x" in text
        assert "1 variant only in B Hat" in text
        assert text.index("Clearly higher in B") < text.index("The same in all jobs")
    three = open_own(owner, one, two, *results_of(owner, 100))
    assert "To compare variants by name, compare two of these jobs." in text_of(three)
