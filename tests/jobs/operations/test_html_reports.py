"""Builds that cannot write HTML reports: found when they are registered and checked, and named to callers."""

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from billing.models import Plan
from clients.models import ApiKey
from dashboard.jobs.job_check import check_of
from jobs.api.submission_request import from_json
from jobs.execution.build_probe import NotChecked
from jobs.models import Build
from jobs.operations import build_registration, doctor, html_reports
from jobs.submission import dry_run
from jobs.submission.validation import Sender
from sandbox import locales
from sandbox.process import ConfinedProcess, LauncherLost
from simservice.operations.doctor import Level
from tests.conftest import Api
from tests.factories import make_key
from tests.jobs.api.bodies import BODY
from tests.jobs.simulators import LEAVE_REPORT, make_stand_in

pytestmark = pytest.mark.django_db(transaction=True)

VERSION = "if 'display_build=2' in sys.argv: sys.exit(print('SimulationCraft 1120-01'))\n"
WITH_HTML = "'html=report.html' in sys.argv"
WRITE_HTML = "open('report.html', 'w').write('<html></html>')"
LOCALE_ERROR = """what():  locale::facet::_S_create_c_locale name not valid"""
# As builds of 2025 behave without the locale: the JSON report is complete, the HTML file empty.
ABORT = f"""{LEAVE_REPORT}
if {WITH_HTML}:
    open('report.html', 'w').close()
    print({LOCALE_ERROR!r}, file=sys.stderr, flush=True)
    os.abort()
"""
FAILURES = {
    "lacks the locale": (ABORT, html_reports.LACKS_LOCALE),
    "crashes": (f"{LEAVE_REPORT}\nif {WITH_HTML}: os.abort()", "It ends with SIGABRT while writing the report."),
    "rejects": (
        f"{LEAVE_REPORT}\nif {WITH_HTML}: sys.exit(61)",
        "It ends with status 61 while writing the report.",
    ),
    "writes none": (LEAVE_REPORT, "It exits with status 0 but writes no report."),
    "empty": (
        f"{LEAVE_REPORT}\nif {WITH_HTML}: open('report.html', 'w').close()",
        "It exits with status 0 but writes no report.",
    ),
    "hangs": (f"if {WITH_HTML}: time.sleep(60)\n{LEAVE_REPORT}", "It did not finish the report within 5 s."),
}


@pytest.mark.parametrize(("body", "reason"), FAILURES.values(), ids=FAILURES)
def test_a_build_that_cannot_write_one_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, reason: str
) -> None:
    monkeypatch.setattr(html_reports, "SECONDS", 5)
    build = make_stand_in(tmp_path, VERSION + body)
    assert html_reports.record(build) == reason
    assert Build.objects.get().html_failure == reason


def test_a_build_that_needs_the_locale_gets_it(tmp_path: Path) -> None:
    needs = "import locale\nif 'html=report.html' in sys.argv: locale.setlocale(locale.LC_ALL, 'en_US.UTF-8')\n"
    build = make_stand_in(tmp_path, f"{VERSION}{needs}{LEAVE_REPORT}\n{WRITE_HTML}")
    expected = "" if locales.source() else html_reports.LACKS_LOCALE
    assert html_reports.record(build) == expected


def test_a_machine_without_the_locale_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locales, "source", lambda: None)
    needs = "import locale\nif 'html=report.html' in sys.argv: locale.setlocale(locale.LC_ALL, 'xx_XX.UTF-8')\n"
    build = make_stand_in(tmp_path, f"{VERSION}{LEAVE_REPORT}\n{needs}{WRITE_HTML}")
    assert html_reports.check(build) == html_reports.LACKS_LOCALE
    assert "en_US.UTF-8" in html_reports.LACKS_LOCALE


def test_the_built_in_simulator_writes_html_reports(minisim: Build) -> None:
    assert html_reports.check(minisim) == ""


def test_a_build_that_simulates_nothing_is_unknown(tmp_path: Path) -> None:
    build = make_stand_in(tmp_path, f"{VERSION}sys.exit(1)")
    Build.objects.update(html_failure="It crashed.")
    assert html_reports.record(build) is None
    assert Build.objects.get().html_failure == "It crashed."


def test_a_build_with_other_classes_is_tried_with_its_own(tmp_path: Path) -> None:
    knows = "if 'wizard=' not in open('profile.simc').read(): sys.exit(1)\n"
    build = make_stand_in(tmp_path, VERSION + knows + ABORT)
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "wizard.simc").write_text("wizard=A\n")
    build.profiles_path, build.profiles, build.includable = str(folder), ["wizard.simc"], ["wizard.simc"]
    build.save()
    assert html_reports.check(build) == html_reports.LACKS_LOCALE


def test_a_repaired_build_is_cleared(minisim: Build) -> None:
    Build.objects.update(html_failure="It crashed.")
    assert html_reports.record_all() == {}
    assert Build.objects.get().html_failure == ""


def test_a_failed_sandbox_leaves_the_record(minisim: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise LauncherLost("the launcher ended")

    monkeypatch.setattr(ConfinedProcess, "start", fails)
    Build.objects.update(html_failure="It crashed.")
    with pytest.raises(NotChecked):
        html_reports.check(minisim)
    assert html_reports.record_all() == {}
    assert Build.objects.get().html_failure == "It crashed."


def output_of(command: str, *arguments: str) -> str:
    out = io.StringIO()
    call_command(command, *arguments, stdout=out, stderr=out)
    return out.getvalue()


@pytest.fixture
def unable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """A registered build that cannot write HTML reports for lack of the locale."""
    build = make_stand_in(tmp_path, VERSION + ABORT)
    monkeypatch.setattr(build_registration, "readable_paths", lambda *_: build.readable_paths)
    build.simc_version = "1120-01"
    build.save()
    return build


def test_registration_succeeds_and_warns(unable: Build) -> None:
    options: Any = ["--branch", "midnight", "--commit", "abc"]
    printed = output_of("registerbuild", unable.executable, *options)
    assert f"Warning: this build cannot write HTML reports. {html_reports.LACKS_LOCALE} Install en_US" in printed
    assert Build.objects.get(commit="abc").html_failure == html_reports.LACKS_LOCALE


def test_checkbuilds_lists_the_build_and_keeps_it(unable: Build) -> None:
    printed = output_of("checkbuilds")
    assert printed.startswith(f"No HTML reports: {unable}. {html_reports.LACKS_LOCALE} Install en_US.UTF-8")
    unable.refresh_from_db()
    assert (unable.withdrawn_at, unable.html_failure) == (None, html_reports.LACKS_LOCALE)


def test_doctor_warns_of_the_build(unable: Build) -> None:
    runs, finding = doctor.check_builds()
    assert (runs.level, finding.level) == (Level.OK, Level.WARNING)
    assert "cannot write HTML reports" in finding.message
    assert "en_US.UTF-8" in finding.message


FOR_HTML = BODY | {"artifacts": {"html": True}}


@pytest.mark.parametrize("pinned", [False, True])
def test_a_submission_is_warned_from_the_start(
    api: Api, unable: Build, key: tuple[ApiKey, str], *, pinned: bool
) -> None:
    html_reports.record(unable)
    body = FOR_HTML
    if pinned:
        Plan.objects.update(allows_build_pin=True)
        body = FOR_HTML | {"build": {"channel": "latest", "id": str(unable.pk)}}
    for response in (api.post("jobs", body), api.post("jobs/validate", body)):
        (warning,) = response.json()["warnings"]
        assert warning == {
            "kind": "html_report_unavailable",
            "line": None,
            "requested": None,
            "applied": None,
            "message": f"The build {unable} cannot write HTML reports, so the job will complete without one. "
            f"{html_reports.LACKS_LOCALE}",
        }


def test_submissions_without_html_are_not_warned(api: Api, unable: Build) -> None:
    html_reports.record(unable)
    assert "warnings" not in api.post("jobs", BODY).json()
    Build.objects.update(html_failure="")
    assert "warnings" not in api.post("jobs", FOR_HTML).json()


def test_the_form_shows_the_warning_without_a_line(unable: Build) -> None:
    html_reports.record(unable)
    submission = from_json(FOR_HTML)
    client = make_key()[0].client
    found = dry_run.run(submission, sender=Sender(client))
    (shown,) = check_of(found, plan=client.account.plan)["warnings"]
    assert shown.startswith("The build midnight@")
