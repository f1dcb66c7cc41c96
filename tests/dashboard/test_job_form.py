"""The job form: it creates the same job as the API, rejects the same input, and creates one job per form."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from pytest_django import DjangoAssertNumQueries, Settings

from billing.models import Account
from clients import form_tokens
from clients.accounts import default_client
from clients.models import Client, Membership
from dashboard.jobs import job_form
from jobs.api.submission_request import MAX_PROFILE_BYTES, from_json
from jobs.artifacts import credentials
from jobs.models import IdempotencyKey, Job
from jobs.results import queries
from jobs.submission import accept
from jobs.submission.idempotency import ByIdempotencyKey
from jobs.submission.validation import Sender
from tests.dashboard.browsing import browser_of, hidden, text_of
from tests.dashboard.job_forms import errors_of, form_data, form_path, submit
from tests.dashboard.summaries import make_completed_job
from tests.factories import PROFILE, BuildFactory, make_account, make_client, make_job, make_key, make_member
from tests.jobs.plans import copy_job, plans_of, reindex_jobs

pytestmark = pytest.mark.django_db


@pytest.fixture
def member() -> Membership:
    return make_member(role="member")


def test_the_form_submits_a_job(member: Membership) -> None:
    response = submit(member)
    job = Job.objects.get()
    assert response.headers["Location"] == f"/dashboard/{member.account}/jobs/{job.pk}"
    assert (job.account, job.client.name, job.api_key, job.max_credits) == (member.account, "default", None, None)
    assert (job.profile.text, job.status, job.metadata) == (PROFILE, "queued", {})


def test_the_form_creates_the_same_job_as_the_api(member: Membership) -> None:
    bot = make_client(member.account)
    submit(
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
    job = Job.objects.get()
    submission = from_json(
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
    accept.submit(
        submission, sender=Sender(key.client, key), once=ByIdempotencyKey(key, None, submission, render=str)
    )
    other = Job.objects.exclude(pk=job.pk).get()
    own = {"id", "client", "api_key", "created_at", "updated_at", "queue_deadline_at", "share_token"}
    alike = [field.attname for field in Job._meta.concrete_fields if field.name not in own]
    differing = [name for name in alike if getattr(job, name) != getattr(other, name)]
    # The second job waits behind the first, which alone decides the fee.
    assert set(differing) <= {"priority_fee_credits"}
    assert (job.client, client_account) == (bot, job.account)


def test_warnings_are_shown(member: Membership, settings: Settings) -> None:
    settings.MAX_ITERATIONS = 10
    text = text_of(browser_of(member).post(form_path(member), form_data(member), follow=True))
    assert "Job submitted." in text
    assert "Line 5: iterations=50 is outside" in text


REJECTED = {
    "no-profile": ({"profile": ""}, "profile", "Fill in"),
    "nothing-to-simulate": ({"profile": "iterations=5"}, "profile", "nothing to simulate"),
    "a-directive": ({"profile": PROFILE + "output=/etc/x\n"}, "profile", "it writes a file"),
    "too-large": ({"profile": "#" * (2 * 1024 * 1024 + 1)}, "profile", "at most 2 MB"),
    "no-channel": ({"channel": ""}, "channel", "Fill in"),
    "another-channel": ({"channel": "x"}, "channel", "listed options"),
    "over-the-limit": ({"cap": "57601"}, "cap", "at most 57,600"),
    "nothing": ({"cap": "0"}, "cap", "at least 32, the price of one second"),
    "less-than-a-second": ({"cap": "31"}, "cap", "at least 32, the price of one second"),
    "no-number": ({"queue_seconds": "1.5"}, "queue_seconds", "whole number"),
    "over-the-wait": ({"queue_seconds": "86401"}, "queue_seconds", "at most 86,400"),
    "long-metadata": ({"metadata": "a: " + "x" * 501}, "metadata", "at most 500"),
    "many-entries": ({"metadata": "\n".join(f"{n}: x" for n in range(21))}, "metadata", "at most 20"),
    "half-the-credentials": ({"game_id": "a" * 32}, "game_secret", "together, or neither"),
    "odd-credentials": ({"game_id": "a b" + "x" * 29, "game_secret": "c" * 32}, "game_id", "printable"),
    "short-credentials": ({"game_id": "a" * 32, "game_secret": "c"}, "game_secret", "exactly 32 characters"),
    "no-webhook": ({"webhook": "on"}, "webhook", "no enabled webhook"),
    "another-client": ({"client": "0"}, "client", "listed options"),
    "nul": ({"profile": "mage=\x00"}, "profile", "NUL"),
}


@pytest.mark.parametrize(("changed", "field", "message"), REJECTED.values(), ids=REJECTED)
def test_api_errors_are_shown_next_to_their_field(
    member: Membership, changed: dict[str, str], field: str, message: str
) -> None:
    response = submit(member, **changed)
    assert message in errors_of(response)[field]
    assert not Job.objects.exists()


def test_a_rejected_form_keeps_its_values_except_the_secret(member: Membership) -> None:
    response = submit(member, cap="0", game_id="abc", game_secret="hush-hush", metadata="<b>: 1")
    content = response.content.decode()
    assert "hush-hush" not in content
    for value in ("Frosty", 'value="abc"', "&lt;b&gt;: 1"):
        assert value in content


def test_rejected_lines_are_shown_in_context(member: Membership) -> None:
    lines = ["# a"] * 9 + ["output=/x", '<img src=x>html="y"', 'mage="A"'] + ["# b"] * 9
    response = submit(member, profile="\r\n".join(lines))
    shown = response.context["rejected"]
    assert [line["number"] for line in shown] == [8, 9, 10, 11, 12, 13]
    assert {line["number"]: line["reason"] for line in shown if line["reason"]} == {
        10: "it writes a file",
        11: "this is HTML; paste the profile as plain text",
    }
    assert "<img" not in response.content.decode()


def test_gaps_between_rejected_lines_are_marked(member: Membership) -> None:
    response = submit(member, profile="\n".join(["output=/x", *['mage="A"'] * 20, "html=/y"]))
    assert [(line["number"], line["gap"]) for line in response.context["rejected"]] == [
        (1, False), (2, False), (3, False), (20, True), (21, False), (22, False),
    ]  # fmt: skip


def test_a_shortage_of_credits_shows_the_affordable_limit() -> None:
    poor = make_member(make_account(credits=100))
    message = errors_of(submit(poor, cap="640"))["__all__"]
    assert "does not have enough credits" in message
    assert "needs 640 credits" in message
    assert "to 100 or less." in message


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"max_active_jobs": 1}, "limit on unfinished jobs"),
        ({"submissions_per_minute": 1}, "Too many requests or too much data. Try again in a minute."),
        ({"submission_bytes_per_minute": 1}, "Too many requests or too much data"),
    ],
    ids=["active", "rate", "bytes"],
)
def test_account_limits_apply_to_the_form(plan: dict[str, int], message: str) -> None:
    member = make_member(make_account(**plan))
    assert submit(member).status_code == 302
    assert message in errors_of(submit(member))["__all__"]
    assert Job.objects.count() == 1


def test_a_suspended_account_cannot_submit(member: Membership) -> None:
    Account.objects.filter(pk=member.account_id).update(suspended_at="2026-01-01T00:00Z")
    assert "suspended" in errors_of(submit(member))["__all__"]


def test_a_build_can_be_pinned_if_the_plan_allows_it(member: Membership) -> None:
    build = BuildFactory.create()
    assert "build" not in browser_of(member).get(form_path(member)).context["form"].fields
    other = make_member(make_account(allows_build_pin=True))
    submit(other, build=str(build.pk))
    assert Job.objects.get().pinned_build == build
    assert "listed options" in errors_of(submit(other, build="0b8f6a52-6f3b-4a7e-9d55-2f3f6c1b7a10"))["build"]


def test_game_credentials_are_stored_for_the_job(member: Membership) -> None:
    submit(member, game_id="a" * 32, game_secret="b" * 32, profile=PROFILE + "armory=eu,blackhand,frosty\n")
    job = Job.objects.get()
    assert job.has_credentials
    assert credentials.fetch(job.pk, seconds=9) == credentials.GameCredentials(
        client_id="a" * 32, client_secret="b" * 32
    )


def test_a_form_creates_one_job(member: Membership) -> None:
    http = browser_of(member)
    filled = form_data(member, form=hidden(http.get(form_path(member)), "form"))
    assert http.post(form_path(member), filled).status_code == 302
    again = http.post(form_path(member), filled, follow=True)
    assert again.redirect_chain == [(f"/dashboard/{member.account}/jobs", 302)]
    assert "already submitted" in text_of(again)
    assert Job.objects.count() == 1
    assert not IdempotencyKey.objects.exists()


def test_resubmitting_at_the_job_limit_still_redirects() -> None:
    member = make_member(make_account(max_active_jobs=1))
    filled = form_data(member)
    for _ in range(2):
        assert browser_of(member).post(form_path(member), filled).status_code == 302


def test_a_rejected_form_can_be_submitted_again(member: Membership) -> None:
    filled = form_data(member)
    errors_of(browser_of(member).post(form_path(member), filled | {"cap": "0"}))
    assert browser_of(member).post(form_path(member), filled).status_code == 302


@pytest.mark.parametrize("form", ["", "x", "old"])
def test_an_unknown_form_token_is_rejected(member: Membership, form: str) -> None:
    form = form_tokens.issue(member.user.pk + 1, job_form.PURPOSE) if form == "old" else form
    response = submit(member, form=form)
    assert "has expired" in errors_of(response)["__all__"]
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_simultaneous_submissions_create_one_job(member: Membership) -> None:
    filled = form_data(member)

    def sent(_: int) -> int:
        try:
            return int(browser_of(member).post(form_path(member), filled).status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as senders:
        assert set(senders.map(sent, range(4))) == {302}
    assert Job.objects.count() == 1


def test_submit_again_fills_in_the_form(member: Membership) -> None:
    client = default_client(member.account)
    job = make_job(client, text="mage=A\n", multi_stage=True, max_credits=640, metadata={"raid": "a\nb"})
    initial = browser_of(member).get(form_path(member), {"again": job.pk}).context["form"].initial
    expected = {"profile": "mage=A\n", "stages": "on", "client": client.pk, "metadata": "raid: a b"}
    assert expected.items() <= initial.items()
    assert initial["cap"] == job.ceiling_credits


@pytest.mark.parametrize("again", ["x", "1", "9" * 18])
def test_submit_again_requires_a_job_of_the_account(member: Membership, again: str) -> None:
    other_job = make_job(Client.objects.get(account=make_account()))
    for number in (again, other_job.pk):
        assert browser_of(member).get(form_path(member), {"again": number}).status_code == 404


def test_a_viewer_sees_no_form() -> None:
    viewer = make_member(role="viewer")
    page = browser_of(viewer).get(form_path(viewer))
    assert "Viewers cannot submit jobs" in text_of(page)
    assert "<textarea" not in page.content.decode()
    assert submit(viewer).status_code == 403


def test_the_form_needs_few_queries(
    member: Membership, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    job, http = make_job(default_client(member.account)), browser_of(member)
    for query in ({}, {"again": job.pk}):
        with django_assert_max_num_queries(12):
            http.get(form_path(member), query)


def check(member: Membership, **changed: Any) -> Any:
    """Check the form as the page's script does."""
    data = form_data(member, part="check") | changed
    return browser_of(member).post(f"/dashboard/{member.account}/jobs/check", data)


def test_a_check_shows_what_would_run(member: Membership) -> None:
    BuildFactory.create(simc_version="1234-01")
    text = text_of(check(member, profile=PROFILE + 'copy="Twin"\n'))
    for expected in ("Ready to submit.", "Frosty", "Twin", "1 (limit: 10,000)", "1234-01", "57,600 credits"):
        assert expected in text, expected
    assert not Job.objects.exists()


@pytest.mark.parametrize(("count", "unlisted"), [(6, "1 more warning."), (7, "2 more warnings.")])
def test_a_check_counts_the_warnings_that_it_does_not_list(
    count: int, unlisted: str, member: Membership, settings: Settings
) -> None:
    settings.MAX_ITERATIONS = 10
    lines = [f'profileset."{number}"+=iterations=50\n' for number in range(count)]
    text = text_of(check(member, profile='mage="Frosty"\n' + "".join(lines)))
    assert text.count("50 is outside") == 5
    assert unlisted in text


def test_a_check_shows_time_and_cost_from_past_jobs(member: Membership) -> None:
    job = make_completed_job(client=default_client(member.account), character="Frosty")
    Job.objects.filter(pk=job.pk).update(sim_duration_ms=20_000)
    text = text_of(check(member))
    assert "credits (" in text
    assert "Estimated from 1 past job of this account on this build." in text


def test_a_check_lists_refused_lines(member: Membership) -> None:
    response = check(member, profile="mage=A\r\noutput=/x\r\n<img src=x>html=y")
    assert [line["number"] for line in response.context["rejected"] if line["reason"]] == [2, 3]
    assert "Not ready to submit." in text_of(response)
    assert "<img" not in response.content.decode()


def test_a_check_of_an_empty_form_asks_for_a_profile(member: Membership) -> None:
    text = text_of(check(member, profile=" "))
    assert "Paste or choose a profile" in text
    assert "Not ready" not in text


@pytest.mark.parametrize(("changed", "field", "message"), REJECTED.values(), ids=REJECTED)
def test_a_check_rejects_what_a_submission_rejects(
    member: Membership, changed: dict[str, str], field: str, message: str
) -> None:
    """Only the script's check of an empty profile is not an error."""
    response = browser_of(member).post(f"/dashboard/{member.account}/jobs/check", form_data(member, **changed))
    assert message in errors_of(response)[field]


def test_a_check_works_without_javascript(member: Membership) -> None:
    response = browser_of(member).post(f"/dashboard/{member.account}/jobs/check", form_data(member, cap="640"))
    text = response.content.decode()
    assert "Ready to submit." in text
    assert "Frosty" in text.partition("<textarea")[2]
    assert 'value="640"' in text
    form = hidden(response, "form")
    assert browser_of(member).post(form_path(member), form_data(member, form=form)).status_code == 302


def test_checks_have_a_limit_of_their_own() -> None:
    member = make_member(make_account(submissions_per_minute=1))
    assert "Ready to submit." in text_of(check(member))
    assert "Too many requests or too much data" in text_of(check(member))
    assert submit(member).status_code == 302


def test_the_bytes_of_checks_are_limited() -> None:
    member = make_member(make_account(submission_bytes_per_minute=1))
    assert "Ready to submit." in text_of(check(member))
    assert "Too many requests or too much data" in text_of(check(member))
    assert submit(member).status_code == 302


def test_a_check_warns_about_a_job_that_reaches_its_limit(member: Membership) -> None:
    job = make_completed_job(client=default_client(member.account))
    Job.objects.filter(pk=job.pk).update(sim_duration_ms=20_000)
    assert "will probably reach its limit" in text_of(check(member, cap="32"))


def test_a_viewer_cannot_check() -> None:
    assert check(make_member(role="viewer")).status_code == 403


def uploaded(content: bytes) -> SimpleUploadedFile:
    return SimpleUploadedFile("frosty.simc", content, content_type="application/octet-stream")


def test_a_file_replaces_the_text(member: Membership) -> None:
    text = PROFILE.replace("Frosty", "Filed")
    assert submit(member, profile="", file=uploaded(b"\xef\xbb\xbf" + text.encode())).status_code == 302
    assert Job.objects.get().profile.text == text


def test_a_profile_of_the_maximum_size_is_accepted(member: Membership) -> None:
    text = (PROFILE + "#" * MAX_PROFILE_BYTES)[:MAX_PROFILE_BYTES]
    for profile in ({"profile": text}, {"profile": "", "file": uploaded(text.encode())}):
        assert submit(member, **profile).status_code == 302


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"#" * (MAX_PROFILE_BYTES + 1), "larger than 2 MB"),
        ("mage=\u00e4".encode("latin-1"), "not UTF-8 text"),
        (b"", "empty"),
    ],
    ids=["large", "latin", "empty"],
)
def test_an_unusable_file_is_refused_in_words(member: Membership, content: bytes, message: str) -> None:
    response = submit(member, file=uploaded(content))
    assert message in errors_of(response)["file"]
    assert "Frosty" in response.content.decode().partition("<textarea")[2]


def test_a_rejected_form_keeps_the_text_of_its_file(member: Membership) -> None:
    response = submit(member, profile="", file=uploaded(b'mage="Filed"\noutput=/x\n'))
    assert "it writes a file" in errors_of(response)["profile"]
    assert "Filed" in response.content.decode().partition("<textarea")[2].partition("</textarea>")[0]


@pytest.mark.parametrize(("changed", "focused"), [({"cap": "0"}, "cap"), ({"profile": "", "cap": "0"}, "profile")])
def test_the_first_field_with_an_error_is_focused(
    member: Membership, changed: dict[str, str], focused: str
) -> None:
    page = submit(member, **changed).content.decode()
    (element,) = re.findall(r"<[^>]* autofocus[^>]*>", page)
    assert f'name="{focused}"' in element


def test_an_error_of_the_form_is_focused(member: Membership) -> None:
    (element,) = re.findall(r"<[^>]* autofocus[^>]*>", submit(member, form="x").content.decode())
    assert 'role="alert"' in element


def test_recent_profiles_are_listed_once(member: Membership) -> None:
    client = default_client(member.account)
    older, newer, titled = (
        make_job(client, character="Frosty"),
        make_job(client, character="Frosty"),
        make_job(client, character="Frosty", metadata={"title": "<b>Raid"}),
    )
    make_job(character="Foreign")
    page = browser_of(member).get(form_path(member))
    assert [job.pk for job in page.context["recent"]] == [titled.pk, newer.pk]
    assert f"?again={older.pk}" not in page.content.decode()
    assert "&lt;b&gt;Raid" in page.content.decode()


def test_expired_jobs_are_not_recent_profiles(member: Membership, settings: Settings) -> None:
    make_job(default_client(member.account), id=10**17)
    assert not browser_of(member).get(form_path(member)).context["recent"]


def test_recent_profiles_are_read_by_an_index(member: Membership) -> None:
    copy_job(make_job(default_client(member.account)).pk, 300)
    copy_job(make_job().pk, 4_000)
    reindex_jobs()
    (plan,) = plans_of(lambda: queries.recent_profiles(member.account, count=8), table="jobs_job")
    assert plan.indexes == {"job_by_account"}
    assert plan.pages <= 2 * queries.RECENT_JOBS
