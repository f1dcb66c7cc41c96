"""The checklist of a new account: its steps, the sample and hiding it."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries, Settings

from clients.accounts import default_client
from clients.models import Membership
from dashboard.jobs import first_steps as pages
from jobs.models import Build, Job
from jobs.submission import first_steps, validation
from tests.dashboard.browsing import browser_of, count_queries, hidden, text_of
from tests.dashboard.summaries import make_completed_job, summary
from tests.factories import BuildFactory, make_account, make_job, make_member

pytestmark = pytest.mark.django_db


def home_of(member: Membership) -> str:
    return f"/dashboard/{member.account}/"


def html_of(member: Membership) -> str:
    """Return the HTML of the account's overview."""
    return str(browser_of(member).get(home_of(member)).content.decode())


def do_all(member: Membership) -> None:
    """Do every step."""
    make_job(default_client(member.account), character="Frosty", other_characters=1)


def run_sample(member: Membership, **fields: str) -> Any:
    """Press "Run sample" on the overview, or send other fields."""
    http = browser_of(member)
    fields = fields or {"form": hidden(http.get(home_of(member)), "form")}
    return http.post(f"{home_of(member)}first-steps/sample", fields, follow=True)


def test_each_step_knows_whether_it_is_done(owner: Membership) -> None:
    account, client = owner.account, default_client(owner.account)
    assert first_steps.done_by(account) == (False, False, False)
    do_all(make_member())
    assert first_steps.done_by(account) == (False, False, False)
    make_job(client, character=first_steps.SAMPLE_CHARACTER)
    assert first_steps.done_by(account) == (True, False, False)
    make_job(client, character="Frosty")
    assert first_steps.done_by(account) == (True, True, False)
    make_completed_job(summary(), client=client, character="Frosty")
    assert first_steps.done_by(account) == (True, True, False)
    make_completed_job(summary("Trinket"), client=client, character="Frosty")
    assert first_steps.done_by(account) == (True, True, True)


def test_copies_of_a_character_are_a_comparison(owner: Membership) -> None:
    do_all(owner)
    assert first_steps.done_by(owner.account) == (True, True, True)


def test_an_account_with_many_jobs_needs_no_first_steps(owner: Membership) -> None:
    for _ in range(first_steps.MANY_JOBS - 1):
        make_job(default_client(owner.account), character=first_steps.SAMPLE_CHARACTER)
    assert "First steps" in html_of(owner)
    make_job(default_client(owner.account), character=first_steps.SAMPLE_CHARACTER)
    assert "First steps" not in html_of(owner)


def test_the_list_disappears_once_all_steps_are_done(owner: Membership) -> None:
    assert "First steps" in html_of(owner)
    do_all(owner)
    assert "First steps" not in html_of(owner)


def test_hiding_the_list_hides_it_from_one_member(owner: Membership) -> None:
    viewer = make_member(owner.account, role="viewer")
    response = browser_of(viewer).post(f"{home_of(owner)}first-steps/hide")
    assert (response.status_code, response.headers["Location"]) == (302, home_of(owner))
    assert "First steps" not in html_of(viewer)
    assert "First steps" in html_of(owner)


def test_a_viewer_sees_the_steps_without_their_buttons(owner: Membership) -> None:
    BuildFactory.create()
    html = html_of(make_member(owner.account, role="viewer"))
    assert "Members of this account can do these steps." in html
    for button in ("Run sample</button>", "Continue</button>", ">Create client</a>"):
        assert button in html_of(owner), button
        assert button not in html, button


def test_the_sample_runs_with_one_click(owner: Membership) -> None:
    BuildFactory.create()
    response = run_sample(owner)
    job = Job.objects.get()
    assert response.redirect_chain == [(f"{home_of(owner)}jobs/{job.pk}", 302)]
    assert (job.title, job.character) == (first_steps.SAMPLE_TITLE, "Sample mage")
    assert (job.account, job.client.is_default, job.channel) == (owner.account, True, "latest")


def test_a_second_click_does_not_run_the_sample_again(owner: Membership) -> None:
    BuildFactory.create()
    token = hidden(browser_of(owner).get(home_of(owner)), "form")
    run_sample(owner, form=token)
    assert "The sample was already submitted." in text_of(run_sample(owner, form=token))
    assert Job.objects.count() == 1


def test_without_a_build_the_sample_does_not_run(owner: Membership) -> None:
    assert "Run sample</button>" not in html_of(owner)
    BuildFactory.create()
    token = hidden(browser_of(owner).get(home_of(owner)), "form")
    Build.objects.all().delete()
    assert pages.NO_BUILD in text_of(run_sample(owner, form=token))
    assert not Job.objects.exists()


def test_an_unusable_form_does_not_run_the_sample(owner: Membership) -> None:
    BuildFactory.create()
    assert "This form has expired." in text_of(run_sample(owner, form="x"))
    assert not Job.objects.exists()


def test_without_credits_the_sample_says_so() -> None:
    poor = make_member(make_account(credits=0))
    BuildFactory.create()
    assert "does not have enough credits for this job." in text_of(run_sample(poor))


@pytest.mark.usefixtures("empty_redis")
def test_the_sample_counts_toward_the_submission_limit() -> None:
    member = make_member(make_account(submissions_per_minute=1))
    BuildFactory.create()
    token = hidden(browser_of(member).get(home_of(member)), "form")
    run_sample(member, form=token)
    assert "Try again in a minute." in text_of(run_sample(member, form=token))


def test_the_sample_passes_the_policy() -> None:
    analysis = validation.analysis_of(first_steps.sample_submission())
    assert (analysis.refused, analysis.variants, analysis.main_actor) == (0, 6, "Sample mage")


def test_a_pasted_profile_opens_the_form(owner: Membership) -> None:
    text = 'mage="Pasted"\r\nlevel=80'
    path = f"{home_of(owner)}jobs/check"
    assert f'action="{path}"' in html_of(owner)
    response = browser_of(owner).post(path, {"profile": text, "paste": "1"})
    assert response.context["form"]["profile"].value() == text
    assert "Correct the errors" not in text_of(response)
    assert not Job.objects.exists()


def test_the_command_uses_the_deployments_address(owner: Membership, settings: Settings) -> None:
    settings.PUBLIC_BASE_URL = "https://sim.example.org"
    command = f'curl "https://sim.example.org/v1/{settings.API_RESOURCE}/jobs?channel=latest"'
    assert html_of(owner).count(command) == 1


def test_the_page_of_a_new_key_shows_the_command_with_it(owner: Membership) -> None:
    http = browser_of(owner)
    path = f"{home_of(owner)}clients/{default_client(owner.account).pk}"
    made = http.post(path, {"days": "0", "form": hidden(http.get(path), "form")})
    assert f'"Authorization: Bearer {made.context["secret"]}"' in made.content.decode()


def test_the_list_takes_one_query(owner: Membership, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(1):
        first_steps.done_by(owner.account)
    http = browser_of(owner)
    with_list = count_queries(http, home_of(owner))
    Membership.objects.update(hides_first_steps=True)
    assert with_list == count_queries(http, home_of(owner)) + 1 <= 12
