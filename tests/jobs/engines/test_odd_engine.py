"""Outcomes of a simulator that misbehaves as real builds were reported to."""

from pathlib import Path
from typing import Any

import pytest

from clients.models import ApiKey
from jobs.models import Artifact, Job, Run
from jobs.results import labels
from tests.conftest import Api
from tests.dashboard.browsing import pages_of
from tests.jobs.simulators import LEAVE_REPORT, RUN_UNTIL_INTERRUPTED, content, make_odd_engine, make_stand_in, run

pytestmark = pytest.mark.django_db(transaction=True)

CAP: dict[str, Any] = {"ceiling_credits": 64, "ceiling_runtime_seconds": 2}
ABORT = "kill -ABRT $$; exit 134;;"


def run_odd(folder: Path, mode: str, *lines: str, changes: dict[str, str] | None = None, **fields: Any) -> Job:
    """Run a profile whose actor's name is a mode of the simulator."""
    make_odd_engine(folder, changes=changes)
    return run(text="\n".join([f'mage="odd {mode}"', *lines, ""]), **fields)


def end_of(job: Job) -> tuple[str, str | None]:
    return job.status, job.error_code


def advice_on(job: Job) -> str:
    return labels.advice(job, list(Run.objects.filter(job=job))) or ""


def kinds_of(job: Job) -> set[str]:
    return set(Artifact.objects.filter(job=job).values_list("kind", flat=True))


class TestBlame:
    @pytest.mark.parametrize(
        ("mode", "code", "reason", "advice"),
        [
            ("exit11", "simulation_error", "Option 'fight_style' with value 'Patchwork': Invalid", "Correct"),
            ("empty", "simulation_error", "Option 'x' with value 'y': bad", "Correct"),
            ("exit51", "simulation_error", "Simulation stuck: player", "Correct"),
            ("exit60", "execution_failed", "Network error: Unable to download JSON", "game platform"),
            ("exit61", "execution_failed", "Report output error: Unable to open", "did not cause this error"),
            ("exit81", "simulation_error", "Initialization error: Player", "Correct"),
            ("healer", "simulation_error", "Druid restoration healing for player", "Correct"),
            ("nothing", "input_invalid", "Nothing to sim!", "needs a character"),
        ],
    )
    def test_the_cause_decides_code_and_advice(
        self, tmp_path: Path, mode: str, code: str, reason: str, advice: str
    ) -> None:
        job = run_odd(tmp_path, mode)
        assert end_of(job) == ("failed", code)
        assert str(job.status_reason).startswith(reason)
        assert advice in advice_on(job)
        assert job.started_at is not None

    @pytest.mark.parametrize(
        ("statement", "code"),
        [
            ("Error: Network error: Unable to download JSON from 'https://a/404/b'", "execution_failed"),
            ("Error: Unable to download JSON from 'https://a/b': timed out", "execution_failed"),
            ("Error: Report output error: Unable to open html report 'report.html'", "execution_failed"),
            ("Error: std::bad_alloc", "execution_failed"),
            (
                "Error: Unable to download JSON from 'http://a/b': Error response 404 from Blizzard API: Not Found",
                "simulation_error",
            ),
        ],
    )
    def test_the_message_decides_before_the_status(self, tmp_path: Path, statement: str, code: str) -> None:
        job = run_odd(tmp_path, "healer", changes={'echo "Simulation was canceled."': f'echo "{statement}"'})
        assert end_of(job) == ("failed", code)

    @pytest.mark.parametrize("end", ["exit 11", "exit 134", "exit 139", "kill -SEGV $$"])
    def test_a_crash_has_a_signal_or_no_error(self, tmp_path: Path, end: str) -> None:
        job = run_odd(
            tmp_path, "empty", changes={"Error: Option 'x' with value 'y': bad": "", "exit 11;;": f"{end};;"}
        )
        assert end_of(job) == ("failed", "execution_failed")
        assert "crashed" in str(job.status_reason)
        assert advice_on(job) == labels.CRASHED

    def test_an_unknown_item_is_named_with_its_line(self, tmp_path: Path) -> None:
        job = run_odd(tmp_path, "item", "wrists=,id=990924")
        assert str(job.status_reason).startswith("Line 2, wrists, item 990924: Initializing: Actor 'odd item'")

    def test_an_option_is_named_with_its_line(self, tmp_path: Path) -> None:
        job = run_odd(tmp_path, "exit11", "# a comment", "fight_style=Patchwork")
        assert str(job.status_reason).startswith("Line 3, fight_style: Option 'fight_style'")

    @pytest.mark.parametrize("stream", [">&2", ""])
    def test_the_simulators_message_explains_an_invalid_report(self, tmp_path: Path, stream: str) -> None:
        said = "Error generating JSON report: JSON Writer did not accept document."
        job = run_odd(tmp_path, "nan", changes={'report "odd nan"': f'echo "{said}" {stream}; report "odd nan"'})
        assert end_of(job) == ("failed", "execution_failed")
        assert str(job.status_reason).endswith(f"It reported: {said}")


class TestWorkDone:
    def test_a_run_with_too_few_iterations_fails(self, tmp_path: Path, api: Api, key: tuple[ApiKey, str]) -> None:
        job = run_odd(tmp_path, "child", "iterations=10000", client=key[0].client, csv=True)
        assert end_of(job) == ("failed", "execution_failed")
        assert str(job.status_reason).startswith(
            "The simulator ended after 37 of 10,000 iterations. It reported: Error in child simulation: Player"
        )
        body = api.get(f"jobs/{job.pk}/result").json()["result"]
        assert (body["summary"]["partial"], body["summary"]["iterations"]) == (True, 37)
        assert {"json_report", "csv_report"} <= kinds_of(job)
        for page in pages_of(job):
            assert "100,000" in page
            assert "ended after 37 of 10,000 iterations" in page

    def test_too_few_iterations_need_no_message(self, tmp_path: Path) -> None:
        said = ('echo "Error in child', 'echo "Simulation has been canceled')
        job = run_odd(tmp_path, "child", "iterations=10000", changes={each: f": {each}" for each in said})
        assert end_of(job) == ("failed", "execution_failed")
        assert job.status_reason == "The simulator ended after 37 of 10,000 iterations."

    @pytest.mark.parametrize("lines", [[], ["target_error=0.5"]])
    def test_a_cancelled_run_without_iterations_fails(self, tmp_path: Path, lines: list[str]) -> None:
        job = run_odd(tmp_path, "child", *lines)
        assert end_of(job) == ("failed", "execution_failed")
        assert "Error in child simulation" in str(job.status_reason)

    def test_a_missing_character_fails_the_job(self, tmp_path: Path) -> None:
        job = run_odd(tmp_path, "plain", 'mage="B"')
        assert end_of(job) == ("failed", "execution_failed")
        assert job.status_reason == "The simulator returned results for only 1 of 2 characters."
        assert (job.summary or {})["partial"] is True

    @pytest.mark.parametrize(
        ("mode", "lines"),
        [
            ("twins", ['mage="odd twins"']),
            ("plain", ['mage="B"', "quiet=1"]),
            ("plain", ["iterations=10000"]),
            ("plain", ["iterations=10001"]),
        ],
    )
    def test_runs_with_all_that_is_certain_complete(self, tmp_path: Path, mode: str, lines: list[str]) -> None:
        job = run_odd(tmp_path, mode, *lines)
        assert (job.status, (job.summary or {}).get("partial")) == ("completed", None)


class TestOptionalParts:
    def test_an_abort_after_the_json_report_costs_the_html(self, tmp_path: Path) -> None:
        job = run_odd(tmp_path, "abort", html=True)
        assert end_of(job) == ("completed", None)
        assert "html_report" not in kinds_of(job)
        (missing,) = job.missing_artifacts
        assert (missing["kind"], "en_US.UTF-8" in missing["reason"]) == ("html_report", True)
        assert job.listed_warnings == [f"The HTML report is missing: t{missing['reason'][1:]}"]
        for page in pages_of(job):
            assert "Show the HTML report" not in page
            assert "en_US.UTF-8" in page

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (ABORT, "The simulator crashed (SIGABRT) while writing it."),
            (f': > "$html"; {ABORT}', "The simulator crashed (SIGABRT) while writing it."),
            (': > "$html"; exit 0;;', "The file is empty."),
            ("exit 0;;", "The simulator did not write it."),
            (
                'echo "Error generating HTML report: no template." >&2; exit 0;;',
                "The simulator reported: Error generating HTML report: no template.",
            ),
            (
                'echo "Error: Report output error: no html" >&2; exit 61;;',
                "The simulator exited with status 61 while writing it: Report output error: no html.",
            ),
        ],
    )
    def test_a_failed_html_report_costs_only_itself(self, tmp_path: Path, change: str, reason: str) -> None:
        noisy = ('echo "terminate called', 'echo "  what():')
        changes = {each: f": {each}" for each in noisy} | {ABORT: change}
        job = run_odd(tmp_path, "abort", "iterations=10000", html=True, changes=changes)
        assert end_of(job) == ("completed", None)
        assert job.missing_artifacts == [{"kind": "html_report", "stage": None, "reason": reason}]
        assert "html_report" not in kinds_of(job)
        assert any(warning.startswith("The HTML report is missing") for warning in job.listed_warnings)

    def test_without_the_json_report_an_abort_fails_the_job(self, tmp_path: Path) -> None:
        job = run_odd(tmp_path, "abort", html=True, changes={'report "odd abort" 100000.5 10000': ":"})
        assert end_of(job) == ("failed", "execution_failed")

    def test_an_html_report_does_not_hide_missing_work(self, tmp_path: Path) -> None:
        job = run_odd(tmp_path, "abort", "iterations=99999", html=True)
        assert end_of(job) == ("failed", "execution_failed")

    def test_a_hanging_html_report_is_named_at_the_cap(self, tmp_path: Path) -> None:
        job = run_odd(tmp_path, "hang", html=True, **CAP)
        assert end_of(job) == ("timed_out", "max_credits_reached")
        assert str(job.status_reason).endswith(
            "All fights were done, but the simulator did not finish the HTML report."
        )
        assert advice_on(job) == labels.LEAVE_OUT_HTML
        assert labels.LEAVE_OUT_HTML in pages_of(job)[0]

    def test_reports_begun_after_a_stop_say_nothing_about_fights(self, tmp_path: Path) -> None:
        body = RUN_UNTIL_INTERRUPTED.replace(LEAVE_REPORT, "print('Generating reports...', flush=True)")
        make_stand_in(tmp_path, body)
        job = run(html=True, **CAP)
        assert end_of(job) == ("timed_out", "max_credits_reached")
        assert "fights" not in str(job.status_reason)

    def test_a_report_before_a_hanging_html_report_counts(self, tmp_path: Path) -> None:
        report = 'report "odd hang" 100000.5 10000; '
        changes = {'[ -n "$html" ] && while': f'{report} [ -n "$html" ] && while'}
        job = run_odd(tmp_path, "hang", "iterations=10000", html=True, changes=changes, **CAP)
        assert (job.status, (job.summary or {}).get("partial")) == ("completed", None)
        assert [missing["kind"] for missing in job.missing_artifacts] == ["html_report"]
        assert advice_on(job) == ""

    def test_an_empty_json_report_is_not_offered(self, tmp_path: Path) -> None:
        job = run_odd(tmp_path, "nan", changes={'report "odd nan" -nan 10000': ': > "$json"'})
        assert (end_of(job), "json_report" in kinds_of(job)) == (("failed", "execution_failed"), False)


class TestWarnings:
    def test_no_damage_is_a_warning_that_names_profilesets(self, tmp_path: Path) -> None:
        sets = [f"profileset.B{number}+=gear_intellect={number}" for number in range(5)]
        job = run_odd(tmp_path, "zero", *sets)
        assert job.status == "completed"
        damage, lost, remark = job.listed_warnings
        assert damage.startswith("No damage (0 DPS): 'odd zero'.")
        assert lost == "5 profilesets have no result: 'B0', 'B1', 'B2' and 2 more."
        assert remark == "Warning: Player 'odd zero' has no usable action at level 18."

    def test_warnings_that_differ_in_numbers_are_listed_once(self, tmp_path: Path) -> None:
        unknown, twice = run_odd(tmp_path, "crowd").listed_warnings
        assert unknown == "Warning: Unknown option 'gear_hast_rating' with value '900', ignoring"
        assert "twice the expected combat length" in twice

    def test_checks_of_the_builds_data_are_not_warnings(self, tmp_path: Path) -> None:
        assert run_odd(tmp_path, "exit81").listed_warnings == []

    def test_warnings_survive_a_failure_without_a_report(
        self, tmp_path: Path, api: Api, key: tuple[ApiKey, str]
    ) -> None:
        job = run_odd(tmp_path, "item", "wrists=,id=990924", client=key[0].client)
        body = api.get(f"jobs/{job.pk}/result").json()["result"]
        assert body["summary"] is None
        assert body["warnings"][0].startswith("BCP API: Player 'odd item' unable to download item")
        for page in pages_of(job):
            assert "Warnings</h2>" in page
            assert "BCP API: Player" in page

    def test_a_duplicate_name_is_a_warning(self, tmp_path: Path) -> None:
        (warning,) = run_odd(tmp_path, "twins", 'mage="odd twins"').listed_warnings
        assert "duplicate name, renaming to" in warning

    def test_a_partial_result_without_a_target_error_is_biased(self, tmp_path: Path) -> None:
        assert "biased" in run_odd(tmp_path, "child", "iterations=10000").listed_warnings[0]

    def test_with_a_target_error_a_partial_result_is_not_biased(self, tmp_path: Path) -> None:
        assert run_odd(tmp_path, "child", "target_error=0.5").listed_warnings == []


@pytest.mark.parametrize(
    ("lines", "warned"),
    [
        (["iterations=10000", "target_error=0.5"], True),
        (["iterations=10000", "target_error=2"], False),
        ([], False),
    ],
)
def test_a_target_error_that_was_not_reached_is_named(tmp_path: Path, lines: list[str], warned: bool) -> None:  # noqa: FBT001
    job = run_odd(tmp_path, "plain", *lines)
    expected = (
        "The limit of 10,000 iterations ended the simulation before the target error of 0.5 % was reached. The "
        "largest error is 1.61 %."
    )
    assert job.listed_warnings == ([expected] if warned else [])


def test_the_engine_leaves_its_report_as_it_is(tmp_path: Path) -> None:
    job = run_odd(tmp_path, "plain", html=True)
    assert content(job, Artifact.Kind.HTML_REPORT).startswith(b"<!DOCTYPE html>")


def test_a_stopped_run_shows_its_real_fight_lengths(tmp_path: Path) -> None:
    fights = '"fight_length":{"sum":1,"count":$3,"mean":300'
    waits = "trap 'report \"odd child\" 100000.5 37; exit 0' INT; sleep 30 & wait"
    changes = {
        'echo "Error in child': f'{waits}; : "Error in child',
        fights: f'{fights},"min":299.5,"max":300.5',
    }
    job = run_odd(tmp_path, "child", "iterations=10000", changes=changes, **CAP)
    assert end_of(job) == ("timed_out", "max_credits_reached")
    (warning,) = job.listed_warnings
    assert warning.startswith("These results are biased: without a target error")
    assert "The simulated fights lasted 299.5 to 300.5 s." in warning
    for page in pages_of(job):
        assert "The fights lasted 299.5 to 300.5 s, 300.0 s on average." in page
