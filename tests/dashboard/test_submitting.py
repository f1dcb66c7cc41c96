"""The form for a job: it makes what the API would make, refuses what the API refuses, and makes it once."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries, Settings

from billing.models import Account
from clients import once
from clients.accounts import default_client
from clients.models import Client, Membership
from dashboard import submitting
from jobs import credentials
from jobs.api.submission_request import from_json
from jobs.models import IdempotencyKey, Job
from jobs.submission import accept
from jobs.submission.idempotency import KeyedRequest
from jobs.submission.validation import Sender
from tests.dashboard.browsing import browser_of, hidden, text_of
from tests.factories import PROFILE, BuildFactory, make_account, make_client, make_job, make_key, make_member

pytestmark = pytest.mark.django_db


@pytest.fixture
def member() -> Membership:
    return make_member(role="member")


def path_of(member: Membership) -> str:
    return f"/dashboard/{member.account}/jobs/new"


def fields(member: Membership, **changed: Any) -> dict[str, Any]:
    """Return a form that is filled in."""
    filled = {
        "form": once.new_form(member.user.pk, submitting.PURPOSE),
        "client": default_client(member.account).pk,
        "profile": PROFILE.replace("\n", "\r\n"),
        "channel": "latest",
        "priority": "standard",
        "json_version": "2",
    }
    return filled | changed


def send(member: Membership, **changed: Any) -> Any:
    """Send the form."""
    return browser_of(member).post(path_of(member), fields(member, **changed))


def errors(answer: Any) -> dict[str, str]:
    """Return what a form that was refused says, by its fields."""
    assert answer.status_code == 200
    assert 'role="alert"' in answer.content.decode()
    return {name: " ".join(told) for name, told in answer.context["form"].errors.items()}


def test_a_job_is_submitted(member: Membership) -> None:
    answer = send(member)
    job = Job.objects.get()
    assert answer.headers["Location"] == f"/dashboard/{member.account}/jobs/{job.pk}"
    assert (job.account, job.client.name, job.api_key, job.max_credits) == (member.account, "default", None, None)
    assert (job.profile.text, job.status, job.metadata) == (PROFILE, "queued", {})


def test_the_form_asks_for_what_the_api_would(member: Membership) -> None:
    bot = make_client(member.account)
    send(
        member,
        client=bot.pk,
        priority="high",
        stages="on",
        html="on",
        csv="on",
        json_version="3",
        cap="640",
        queue_seconds="60",
        metadata="raid: Liberation: heroic\r\n\r\nalone",
    )
    made = Job.objects.get()
    asked = from_json(
        {
            "build": {"channel": "latest"},
            "profile": {"text": PROFILE},
            "runtime": {"multiStage": True, "maxCredits": 640, "maxQueueSeconds": 60},
            "priority": "high",
            "artifacts": {"html": True, "csv": True, "json": {"version": 3}},
            "metadata": {"raid": "Liberation: heroic", "alone": ""},
        }
    )
    key, _ = make_key(client_account := member.account)
    accept.submit(asked, sender=Sender(key.client, key), deduplication=KeyedRequest(key, None, asked, render=str))
    other = Job.objects.exclude(pk=made.pk).get()
    own = {"id", "client", "api_key", "created_at", "updated_at", "queue_deadline_at", "share_token"}
    alike = [field.attname for field in Job._meta.concrete_fields if field.name not in own]
    differing = [name for name in alike if getattr(made, name) != getattr(other, name)]
    # The second job waits behind the first, which alone decides the fee.
    assert set(differing) <= {"priority_fee_credits"}
    assert (made.client, client_account) == (bot, made.account)


def test_warnings_are_shown(member: Membership, settings: Settings) -> None:
    settings.MAX_ITERATIONS = 10
    text = text_of(browser_of(member).post(path_of(member), fields(member), follow=True))
    assert "The job is accepted." in text
    assert "Line 5: iterations=50 is beyond" in text


REFUSED = {
    "no-profile": ({"profile": ""}, "profile", "required"),
    "nothing-to-simulate": ({"profile": "iterations=5"}, "profile", "nothing to simulate"),
    "a-directive": ({"profile": PROFILE + "output=/etc/x\n"}, "profile", "it writes a file"),
    "too-large": ({"profile": "#" * (2 * 1024 * 1024 + 1)}, "profile", "over 2 MB"),
    "no-channel": ({"channel": ""}, "channel", "required"),
    "another-channel": ({"channel": "x"}, "channel", "not one of"),
    "over-the-limit": ({"cap": "57601"}, "cap", "at most 57600"),
    "nothing": ({"cap": "0"}, "cap", "greater than or equal to 1"),
    "no-number": ({"queue_seconds": "1.5"}, "queue_seconds", "whole number"),
    "over-the-wait": ({"queue_seconds": "86401"}, "queue_seconds", "at most 86400"),
    "long-metadata": ({"metadata": "a: " + "x" * 501}, "metadata", "At most 500"),
    "many-entries": ({"metadata": "\n".join(f"{n}: x" for n in range(21))}, "metadata", "At most 20"),
    "half-the-credentials": ({"game_id": "abc"}, "game_secret", "required"),
    "odd-credentials": ({"game_id": "a b", "game_secret": "c"}, "game_id", "printable"),
    "no-webhook": ({"webhook": "on"}, "webhook", "no webhook"),
    "another-client": ({"client": "1"}, "client", "not one of"),
    "nul": ({"profile": "mage=\x00"}, "profile", "Null"),
}


@pytest.mark.parametrize(("changed", "field", "told"), REFUSED.values(), ids=REFUSED)
def test_what_the_api_refuses_is_said_beside_its_field(
    member: Membership, changed: dict[str, str], field: str, told: str
) -> None:
    answer = send(member, **changed)
    assert told in errors(answer)[field]
    assert not Job.objects.exists()


def test_what_was_typed_stays_but_the_secret(member: Membership) -> None:
    answer = send(member, cap="0", game_id="abc", game_secret="hush-hush", metadata="<b>: 1")
    content = answer.content.decode()
    assert "hush-hush" not in content
    for kept in ("Frosty", 'value="abc"', "&lt;b&gt;: 1"):
        assert kept in content


def test_refused_lines_are_shown_with_their_numbers_and_neighbours(member: Membership) -> None:
    lines = ["# a"] * 9 + ["output=/x", '<img src=x>html="y"', 'mage="A"'] + ["# b"] * 9
    answer = send(member, profile="\r\n".join(lines))
    shown = answer.context["refused"]
    assert [line["number"] for line in shown] == [8, 9, 10, 11, 12, 13]
    assert {line["number"]: line["reason"] for line in shown if line["reason"]} == {
        10: "it writes a file",
        11: "only files that come with the build can be included",
    }
    assert "<img" not in answer.content.decode()


def test_two_places_in_a_profile_are_told_apart(member: Membership) -> None:
    answer = send(member, profile="\n".join(["output=/x", *['mage="A"'] * 20, "html=/y"]))
    assert [(line["number"], line["gap"]) for line in answer.context["refused"]] == [
        (1, False), (2, False), (3, False), (20, True), (21, False), (22, False),
    ]  # fmt: skip


def test_too_few_credits() -> None:
    poor = make_member(make_account(credits=100))
    told = errors(send(poor, cap="640"))["__all__"]
    assert "does not have enough credits" in told
    assert "needs 640 now" in told
    assert "a limit of 100." in told


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ({"max_active_jobs": 1}, "as many unfinished jobs"),
        ({"submissions_per_minute": 1}, "Too many requests"),
        ({"submission_bytes_per_minute": 1}, "too many bytes"),
    ],
    ids=["active", "rate", "bytes"],
)
def test_the_accounts_limits_hold(plan: dict[str, int], told: str) -> None:
    member = make_member(make_account(**plan))
    assert send(member).status_code == 302
    assert told in errors(send(member))["__all__"]
    assert Job.objects.count() == 1


def test_a_suspended_account_submits_nothing(member: Membership) -> None:
    Account.objects.filter(pk=member.account_id).update(suspended_at="2026-01-01T00:00Z")
    assert "suspended" in errors(send(member))["__all__"]


def test_a_build_is_pinned_where_the_plan_allows_it(member: Membership) -> None:
    build = BuildFactory.create()
    assert "build" not in browser_of(member).get(path_of(member)).context["form"].fields
    other = make_member(make_account(allows_build_pin=True))
    send(other, build=str(build.pk))
    assert Job.objects.get().pinned_build == build
    assert "not one of" in errors(send(other, build="0b8f6a52-6f3b-4a7e-9d55-2f3f6c1b7a10"))["build"]


def test_game_credentials_are_kept_for_the_job(member: Membership) -> None:
    send(member, game_id="abc", game_secret="hush", profile=PROFILE + "armory=eu,blackhand,frosty\n")
    job = Job.objects.get()
    assert job.has_credentials
    assert credentials.fetch(job.pk, seconds=9) == credentials.GameCredentials(
        client_id="abc", client_secret="hush"
    )


def test_a_form_makes_one_job(member: Membership) -> None:
    http = browser_of(member)
    filled = fields(member, form=hidden(http.get(path_of(member)), "form"))
    assert http.post(path_of(member), filled).status_code == 302
    again = http.post(path_of(member), filled, follow=True)
    assert again.redirect_chain == [(f"/dashboard/{member.account}/jobs", 302)]
    assert "sent before" in text_of(again)
    assert Job.objects.count() == 1
    assert not IdempotencyKey.objects.exists()


def test_a_form_whose_job_took_the_last_place_still_says_that_it_was_sent() -> None:
    member = make_member(make_account(max_active_jobs=1))
    filled = fields(member)
    for _ in range(2):
        assert browser_of(member).post(path_of(member), filled).status_code == 302


def test_a_refused_form_can_be_sent_again(member: Membership) -> None:
    filled = fields(member)
    errors(browser_of(member).post(path_of(member), filled | {"cap": "0"}))
    assert browser_of(member).post(path_of(member), filled).status_code == 302


@pytest.mark.parametrize("form", ["", "x", "old"])
def test_a_form_that_was_not_given_out_does_nothing(member: Membership, form: str) -> None:
    form = once.new_form(member.user.pk + 1, submitting.PURPOSE) if form == "old" else form
    answer = send(member, form=form)
    assert "more than a day old" in errors(answer)["__all__"]
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_form_that_is_sent_at_once_makes_one_job(member: Membership) -> None:
    filled = fields(member)

    def sent(_: int) -> int:
        try:
            return int(browser_of(member).post(path_of(member), filled).status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as senders:
        assert set(senders.map(sent, range(4))) == {302}
    assert Job.objects.count() == 1


def test_submit_again(member: Membership) -> None:
    client = default_client(member.account)
    job = make_job(client, text="mage=A\n", multi_stage=True, max_credits=640, metadata={"raid": "a\nb"})
    initial = browser_of(member).get(path_of(member), {"again": job.pk}).context["form"].initial
    expected = {"profile": "mage=A\n", "stages": True, "client": client.pk, "metadata": "raid: a b"}
    assert expected.items() <= initial.items()
    assert initial["cap"] == job.ceiling_credits


@pytest.mark.parametrize("again", ["x", "1", "9" * 18])
def test_submit_again_of_no_own_job_is_not_there(member: Membership, again: str) -> None:
    stranger = make_job(Client.objects.get(account=make_account()))
    for number in (again, stranger.pk):
        assert browser_of(member).get(path_of(member), {"again": number}).status_code == 404


def test_a_viewer_gets_no_form() -> None:
    viewer = make_member(role="viewer")
    page = browser_of(viewer).get(path_of(viewer))
    assert "Viewers see jobs but submit none" in text_of(page)
    assert "<textarea" not in page.content.decode()
    assert send(viewer).status_code == 403


def test_the_form_costs_few_queries(
    member: Membership, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    job, http = make_job(default_client(member.account)), browser_of(member)
    for query in ({}, {"again": job.pk}):
        with django_assert_max_num_queries(12):
            http.get(path_of(member), query)
