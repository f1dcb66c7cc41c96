"""The controls of the job form that write the fight and its precision into the profile."""

from typing import Any

import pytest
from pytest_django import Settings

from clients.accounts import default_client
from clients.models import Membership
from dashboard.jobs import fight_controls
from dashboard.jobs.fight_controls import in_words, written
from jobs.models import Job
from jobs.planning.multistage import MANY_VARIANTS
from simc.profiles.fight_options import number_of, read
from tests.dashboard.browsing import browser_of, text_of
from tests.dashboard.job_forms import errors_of, form_data, form_path, submit
from tests.dashboard.summaries import EVIL
from tests.factories import PROFILE, make_account, make_client, make_job, make_member

pytestmark = pytest.mark.django_db
MAGE = 'mage="A"\n'
SETS = "".join(f"profileset.s{number}+=level=1\n" for number in range(MANY_VARIANTS))


@pytest.fixture
def member() -> Membership:
    return make_member(role="member")


def check(member: Membership, **changed: Any) -> Any:
    """Check the form without script."""
    return browser_of(member).post(f"/dashboard/{member.account}/jobs/check", form_data(member, **changed))


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (MAGE, "fight_style", "Default: Patchwerk: one boss, no movement"),
        ("fight_style=hecticADDcleave", "fight_style", "Profile: Hectic cleave: many enemies join, you move"),
        ("fight_style=Unknown", "fight_style", "Custom: fight_style=Unknown"),
        ("fight_style=", "fight_style", "Custom: fight_style="),
        (f"fight_style={EVIL.replace(' ', '')}", "fight_style", f"Custom: fight_style={EVIL.replace(' ', '')}"),
        ("fight_style=\u202ex" + "y" * 99, "fight_style", f"Custom: fight_style=<U+202E>x{'y' * 38}"),
        (MAGE, "targets", "Default: 1 target"),
        ("desired_targets=05", "targets", "Profile: 5 targets"),
        ("desired_targets=7", "targets", "Profile: 7 targets"),
        ("desired_targets=2.5", "targets", "Custom: desired_targets=2.5"),
        ("fight_style=DungeonSlice", "targets", "Set by the fight style"),
        ("fight_style=DungeonSlice desired_targets=3", "targets", "Profile: 3 targets"),
        ("raid.simc", "targets", "Set by the included file"),
        ("max_time=200\nraid.simc", "length", "Set by the included file"),
        ("max_time=300.0", "length", "Profile: 5 min"),
        ("max_time=45", "length", "Profile: 45 s"),
        ("max_time=1+2", "length", "Custom: max_time=1+2"),
        ("profileset.a+=max_time=200", "length", "Default: 5 min"),
        ("vary_combat_length=.1", "variation", "Profile: ± 10 %"),
        ("vary_combat_length=0.05", "variation", "Profile: ± 5 %"),
        (MAGE, "precision", "The simulator's default"),
        ("iterations=0 target_error=0", "precision", "The simulator's default"),
        ("target_error=0.1", "precision", "Profile: ± 0.1 %"),
        ("iterations=10000", "precision", "Profile: Exactly 10,000 fights"),
        ("iterations=1000 target_error=0.3", "precision", "Profile: ± 0.3 %, at most 1,000 fights"),
        ("iterations=1e3 target_error=0.3", "precision", "Custom: target_error=0.3, iterations=1e3"),
    ],
)
def test_a_control_says_in_words_what_the_profile_contains(text: str, name: str, words: str) -> None:
    assert in_words(text)[name] == words


@pytest.mark.parametrize(
    ("text", "precision", "expected"),
    [
        (MAGE, "target_error=0.1", f"target_error=0.1\n{MAGE}"),
        (f"iterations=500\n{MAGE}", "target_error=0.1", f"target_error=0.1\niterations=0\n{MAGE}"),
        (f"target_error=0.1\n{MAGE}", "iterations=1000", f"iterations=1000\ntarget_error=0\n{MAGE}"),
    ],
)
def test_a_precision_replaces_the_other_one(text: str, precision: str, expected: str) -> None:
    assert written(text, {"precision": precision}) == expected


def test_empty_controls_leave_the_profile_alone() -> None:
    text = f"max_time=1+2 \r\n\r\n{MAGE}"
    assert written(text, dict.fromkeys((*fight_controls.CONTROLS, "precision"), "")) == text


@pytest.mark.parametrize("name", fight_controls.CONTROLS)
def test_every_choice_is_read_as_itself(name: str) -> None:
    control = fight_controls.CONTROLS[name]
    for choice, words in control.choices.items():
        assert in_words(written(MAGE, {name: choice}))[name] == f"Profile: {words}"


def test_precisions_beyond_the_limits_are_not_offered(settings: Settings) -> None:
    settings.MIN_TARGET_ERROR, settings.MAX_ITERATIONS = 0.1, 10_000
    field: Any = fight_controls.fields()["precision"]
    errors = (f"target_error={error}" for error in ("0.5", "0.2", "0.1"))
    assert [choice for choice, _ in field.choices] == ["", *errors, "iterations=1000", "iterations=10000"]


def test_a_submission_writes_the_controls_into_the_profile(member: Membership) -> None:
    submit(
        member, fight_style="DungeonSlice", targets="5", length="240", variation="0.1", precision="target_error=0.5"
    )
    values = read(text := Job.objects.get().profile.text)
    assert {name: number_of(value) for name, value in values.items() if name != "fight_style"} == {
        "desired_targets": 5, "max_time": 240, "vary_combat_length": 0.1, "target_error": 0.5, "iterations": 0,
    }  # fmt: skip
    assert values["fight_style"] == "DungeonSlice"
    assert text.endswith(PROFILE.replace("iterations=50", "iterations=0"))


def test_a_check_shows_the_changed_profile_and_resets_the_control(member: Membership) -> None:
    form = check(member, length="240").context["form"]
    assert form["profile"].value().startswith("max_time=240\r\n")
    assert form["length"].value() == ""
    assert form.fields["length"].choices[0] == ("", "Profile: 4 min")


def test_a_rejected_form_keeps_what_its_controls_wrote(member: Membership) -> None:
    response = submit(member, length="240", cap="0")
    assert "at least" in errors_of(response)["cap"]
    assert response.context["form"]["profile"].value().startswith("max_time=240\r\n")


def test_a_forged_choice_is_refused(member: Membership) -> None:
    response = submit(member, length="1;html=/x")
    assert "listed options" in errors_of(response)["length"]
    assert not Job.objects.exists()


def test_the_script_gets_the_changed_profile_only_if_a_control_changed_it(member: Membership) -> None:
    path, data = f"/dashboard/{member.account}/jobs/check", form_data(member, part="check")
    http = browser_of(member)
    assert 'id="written"' not in http.post(path, data).content.decode()
    text = "# </textarea><script>"
    page = http.post(path, data | {"profile": PROFILE + text, "targets": "2"}).content.decode()
    assert "hidden>\ndesired_targets=2\n" in page.replace("\r", "")
    assert "<script" not in page


def test_a_title_is_the_jobs_and_can_be_changed_on_the_next_run(member: Membership) -> None:
    submit(member, title="Raid night", metadata="title: other\nraid: Liberation")
    job = Job.objects.get()
    assert (job.title, job.metadata["raid"]) == ("Raid night", "Liberation")
    initial = browser_of(member).get(form_path(member), {"again": job.pk}).context["form"].initial
    assert (initial["title"], initial["metadata"]) == ("Raid night", "raid: Liberation")
    assert "at most 500" in errors_of(submit(member, title="x" * 501))["title"]


@pytest.mark.parametrize(
    ("text", "stages", "expected"),
    [
        (MAGE + SETS, "", True),
        (MAGE + SETS, "off", False),
        (MAGE + SETS.partition("\n")[0], "", False),
        (MAGE, "on", True),
    ],
    ids=["many", "turned off", "few", "turned on"],
)
def test_stages_are_automatic(member: Membership, text: str, stages: str, *, expected: bool) -> None:
    submit(member, profile=text, stages=stages)
    assert Job.objects.get().multi_stage is expected


@pytest.mark.parametrize(
    ("text", "multi_stage", "choice"),
    [(MAGE, False, ""), (MAGE, True, "on"), (MAGE + SETS, False, "off"), (MAGE + SETS, True, "on")],
)
def test_a_repeated_job_runs_in_stages_as_before(
    member: Membership, text: str, choice: str, *, multi_stage: bool
) -> None:
    job = make_job(default_client(member.account), text=text, multi_stage=multi_stage)
    again = browser_of(member).get(form_path(member), {"again": job.pk})
    assert again.context["form"].initial["stages"] == choice


def test_nobody_needs_to_know_clients(member: Membership) -> None:
    http = browser_of(member)
    assert 'name="client"' not in http.get(form_path(member)).content.decode()
    submit(member, client="")
    assert Job.objects.get().client == default_client(member.account)
    make_client(member.account)
    assert 'name="client"' in http.get(form_path(member)).content.decode()


def test_the_priority_is_folded_away_unless_it_costs_credits() -> None:
    for fee, is_folded in ((0, True), (320, False)):
        member = make_member(make_account(high_priority_fee_credits=fee))
        page = browser_of(member).get(form_path(member)).content.decode()
        assert ('name="priority"' in page.partition('id="developer-options"')[2]) is is_folded


def test_developer_options_with_an_error_are_unfolded(member: Membership) -> None:
    opened = 'id="developer-options" open'
    assert opened in submit(member, metadata="a: " + "x" * 501).content.decode()
    assert opened not in submit(member, cap="0").content.decode()


def test_the_sample_fills_in_the_form(member: Membership) -> None:
    page = browser_of(member).get(form_path(member), {"sample": "1"})
    assert "Sample mage" in page.content.decode().partition("<textarea")[2]
    assert "?sample=1" in page.content.decode()


def test_the_bar_shows_variants_and_the_most_that_the_job_costs(member: Membership) -> None:
    text = text_of(check(member, profile=PROFILE + 'copy="Twin"\n', cap="640"))
    assert "1 variant at most 640 credits" in text
