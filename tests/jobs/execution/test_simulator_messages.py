"""The simulator's messages, from a real process to the API's responses and the pages."""

import json
from pathlib import Path
from typing import Any

import pytest

from clients.models import ApiKey
from jobs.live.progress import log_entries_of
from jobs.models import Job
from tests.conftest import Api
from tests.dashboard.browsing import pages_of
from tests.jobs.simulators import LEAVE_REPORT, REPORT, make_stand_in, run, run_with_action, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

NO_LIST = "Player 'Frosty' uses call_action_list with unknown action list nolist"
CANCELLED = f"""
print({NO_LIST!r}, file=sys.stderr)
print("Simulation has been canceled during player setup! (thread=0)", file=sys.stderr)
print("Error: Canceled", file=sys.stderr)
sys.exit(1)
"""
EVIL = "Warning: Unknown option '<script>top.x = 1</script>' with value '1', ignoring"


def warned(job: Job) -> list[str]:
    """Return the warnings in a job's summary."""
    assert job.summary is not None
    warnings: list[str] = job.summary["warnings"]
    return warnings


@pytest.mark.parametrize("variant", ["C", "R"])
def test_a_failed_job_shows_the_first_error(
    tmp_path: Path, api: Api, key: tuple[ApiKey, str], settings: Any, variant: str
) -> None:
    settings.API_VARIANT = variant
    make_stand_in(tmp_path, CANCELLED)
    job = run(key[0].client)
    body = api.get(f"jobs/{job.pk}").json()
    assert (body["errorCode"], body["statusReason"]) == ("simulation_error", NO_LIST)
    assert all("unknown action list nolist" in page for page in pages_of(job))


@pytest.mark.parametrize("variant", ["C", "R"])
def test_a_completed_job_lists_its_warnings(
    tmp_path: Path, api: Api, key: tuple[ApiKey, str], settings: Any, variant: str
) -> None:
    settings.API_VARIANT = variant
    make_stand_in(tmp_path, f"print({EVIL!r}, file=sys.stderr)\n{LEAVE_REPORT}")
    job = run(key[0].client)
    assert api.get(f"jobs/{job.pk}/result").json()["result"]["summary"]["warnings"] == [EVIL]
    for page in pages_of(job):
        assert "Warning</h2>" in page
        assert "Unknown option &#x27;&lt;script&gt;top.x" in page
        assert "<script>top" not in page


def test_a_job_without_warnings_has_no_warnings_field(tmp_path: Path) -> None:
    make_stand_in(tmp_path, LEAVE_REPORT)
    job = run()
    assert "warnings" not in (job.summary or {})
    assert not any("Warnings" in page for page in pages_of(job))


@pytest.mark.parametrize(
    "messages", [{"logs": [{"level": "trivial", "message": EVIL}]}, {"notifications": [EVIL]}], ids=["2025", "2020"]
)
def test_warnings_in_the_report_alone_are_listed(tmp_path: Path, messages: dict[str, Any]) -> None:
    report = json.dumps({**REPORT, **messages})
    make_stand_in(tmp_path, f"open('report.json', 'w').write({report!r})")
    assert warned(run()) == [EVIL]


def test_a_repeated_warning_is_listed_once(tmp_path: Path) -> None:
    report = json.dumps({**REPORT, "logs": [{"level": "trivial", "message": EVIL}]})
    body = f"print({EVIL!r}); print('Trivial: ' + {EVIL!r}, file=sys.stderr)"
    make_stand_in(tmp_path, f"{body}\nopen('report.json', 'w').write({report!r})")
    assert warned(run()) == [EVIL]


def test_the_number_of_warnings_is_limited(tmp_path: Path) -> None:
    body = "print('Warning:', chr(0x4E00 + n % 20_000), 'x' * 900 if n < 9 else '', file=sys.stderr)"
    make_stand_in(tmp_path, f"for n in range(200_000): {body}\n{LEAVE_REPORT}")
    warnings = warned(run())
    assert len(warnings) == 20
    assert max(map(len, warnings)) == 500
    assert warnings[-1] == "At least 181 more warnings are in the logs."


def test_the_warnings_of_all_stages_are_merged(tmp_path: Path) -> None:
    sets = "".join(f'profileset."set {number}"+=level={number}\n' for number in range(1, 41))
    results = [{"name": f"set {number}", "mean": 5 + number, "mean_stddev": 1} for number in range(1, 41)]
    report = json.dumps({**REPORT, "sim": {**REPORT["sim"], "profilesets": {"results": results}}})  # type: ignore[dict-item]
    # Words for the target errors of the stages, because warnings are compared without numbers.
    body = """
import re
own = re.findall('target_error=(.*)', open('profile.simc').read())[-1]
for text in ('both', own.translate(str.maketrans('0123456789.', 'abcdefghijk'))):
    print('Warning:', text, file=sys.stderr)
"""
    make_stand_in(tmp_path, f"{body}\nopen('report.json', 'w').write({report!r})")
    job = run(text=f'mage="A"\nlevel=80\n{sets}', multi_stage=True)
    first, *others = warned(job)
    assert first == "Warning: both"
    assert len(others) == 3


@pytest.mark.usefixtures("minisim")
def test_the_built_in_simulator_warns_like_the_real_one() -> None:
    assert warned(run(text='mage="A"\niterations=20\nno_such=5\n')) == [
        "Warning: Unknown option 'no_such' with value '5', ignoring"
    ]
    assert "warnings" not in (run(text='mage="A"\niterations=20\n').summary or {})


def test_a_replaced_executable_adds_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make_stand_in(tmp_path, f"print('SimulationCraft 1210-01 for World of Warcraft 12.1.0')\n{LEAVE_REPORT}")
    job = run()
    assert warned(job) == [
        "The simulator reports version 1210-01, but its build was registered with version 1120-01."
    ]
    assert "was registered as 1120-01 and is now 1210-01" in caplog.text


def test_a_run_goes_on_when_its_executable_is_replaced(tmp_path: Path) -> None:
    """The running job ends on the old file; the next job runs the new one."""
    build = make_stand_in(
        tmp_path, f"print('Warning: old', file=sys.stderr, flush=True)\ntime.sleep(2)\n{LEAVE_REPORT}"
    )
    executable = Path(build.executable)
    fresh = tmp_path / "fresh"
    fresh.write_text(executable.read_text().replace("old", "new"))
    fresh.chmod(0o755)

    def replace(job: Job) -> None:
        # The interpreter has read the file when it prints.
        wait_until(lambda: bool(log_entries_of(job)))
        fresh.rename(executable)

    assert warned(run_with_action(replace)) == ["Warning: old"]
    assert warned(run()) == ["Warning: new"]
