"""The note about too few credits above the job form."""

import pytest
from pytest_django import Settings

from billing import ledger
from clients.models import Membership
from jobs.submission import shortage
from tests.billing import door
from tests.dashboard.browsing import browser_of, count_queries, text_of
from tests.dashboard.job_forms import form_path, submit
from tests.factories import make_account, make_job, make_member

pytestmark = pytest.mark.django_db
NOTE = "does not have enough credits for a job."


def form_of(member: Membership) -> str:
    """Return the text of the page with the job form."""
    return text_of(browser_of(member).get(form_path(member)))


def test_an_account_without_credits_is_told_before_it_submits() -> None:
    member = make_member(make_account(credits=31))
    text = form_of(member)
    assert f"{NOTE} It has 31; a job needs at least 32. To get more, ask the operator" in text
    assert "does not have enough credits for this job" in text_of(submit(member))


def test_an_account_with_enough_credits_sees_no_note() -> None:
    member = make_member(make_account(credits=32))
    assert NOTE not in form_of(member)
    assert submit(member).status_code == 302


def test_reserved_credits_and_the_next_allowance_are_named() -> None:
    account = make_account(credits=0, monthly_credits=1000)
    door.hold(account, 1000, job_id=make_job().pk + 1)
    text = form_of(make_member(account))
    assert "Unfinished jobs reserve 1,000 credits and return what they do not use." in text
    assert "The next monthly allowance of 1,000 credits is granted on " in text


def test_the_default_limit_counts_where_limits_are_seconds(settings: Settings) -> None:
    settings.API_VARIANT = "R"
    account = make_account(credits=9_599)
    assert "at least 9,600 unless you lower its runtime limit to 299 s or less." in form_of(make_member(account))
    ledger.correct(account, 1, reason="for a test")
    assert shortage.find(account) is None


def test_a_viewer_sees_no_note() -> None:
    assert NOTE not in form_of(make_member(make_account(credits=0), role="viewer"))


def test_the_form_takes_few_queries() -> None:
    member = make_member(make_account(credits=0))
    assert count_queries(browser_of(member), form_path(member)) <= 12
