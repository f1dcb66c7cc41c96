"""`simctl` on a pseudo-terminal: the progress bar, questions, and a key that is not shown."""

import json
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from simservice_client.cli.exits import Exit
from tests.sdk.commands import COMMAND, Simctl, Terminal, lines_on_screen
from tests.sdk.fake_service import KEY, Answer, Service, example, refusal

CREDITS, SUBMIT = "GET /v1/sim/credits", "POST /v1/sim/jobs"
STATUS, CANCEL = "GET /v1/sim/jobs/{job_id}/status", "POST /v1/sim/jobs/{job_id}/cancel"
JOB = example(SUBMIT)["id"]


@pytest.fixture
def profile(tmp_path: Path) -> str:
    path = tmp_path / "mage.simc"
    path.write_text('mage="Frost"\n')
    return str(path)


def running(percent: float = 40.0) -> Answer:
    """Return the status of a running job with its mean so far."""
    return status_answer(status="running", queue=None, progress={"percent": percent, "stage": None})


def status_answer(**fields: Any) -> Answer:
    preview = {
        "updatedAt": "2026-01-01T00:00:00.000Z",
        "secondsLeft": 90,
        "baseline": {"mean": 123456.7, "mean_error": 89.0},
        "profilesets": {"finished": 0, "count": 0, "results": []},
    }
    return Answer(example(STATUS) | {"preview": preview} | fields)


def test_a_run_shows_a_bar_with_the_mean_so_far(simctl: Simctl, service: Service, profile: str) -> None:
    service.answers[STATUS] = [running(40), running(80), status_answer(status="completed")]
    with simctl.on_terminal("run", profile, columns=120) as terminal:
        assert terminal.wait() == Exit.COMPLETED
    assert "] 100 %" not in terminal.output
    assert "]  40 %  123,457 ± 89  1 min 30 s left" in terminal.output
    assert "]  80 %" in terminal.output
    assert not any("[###" in line for line in lines_on_screen(terminal.output))


def test_a_run_says_that_its_job_is_paused(simctl: Simctl, service: Service, profile: str) -> None:
    paused = status_answer(status="queued", pausedAt="2026-01-01T00:00:00.000Z")
    service.answers[STATUS] = [paused, status_answer(status="completed")]
    with simctl.on_terminal("run", profile, columns=120) as terminal:
        assert terminal.wait() == Exit.COMPLETED
    assert "mage.simc  paused" in terminal.output


def test_a_bar_fits_a_narrow_terminal(simctl: Simctl, service: Service, profile: str) -> None:
    service.answers[STATUS] = [running(), status_answer(status="completed")]
    with simctl.on_terminal("run", profile, columns=30) as terminal:
        terminal.wait()
    bars = [part for part in terminal.output.split("\r") if "[##" in part]
    assert bars
    assert max(map(len, bars)) <= 29


def test_json_has_no_bar(simctl: Simctl, service: Service, profile: str) -> None:
    service.answers[STATUS] = [running(), status_answer(status="completed")]
    with simctl.on_terminal("run", "--json", profile) as terminal:
        assert terminal.wait() == Exit.COMPLETED
    events = [json.loads(line)["type"] for line in terminal.output.splitlines() if line.startswith("{")]
    assert events == ["submitted", "status", "status", "result"]


def interrupted(terminal: Terminal) -> None:
    """Press Ctrl-C once the bar is there, and wait for the question."""
    terminal.wait_for("40 %")
    terminal.type("\x03")
    terminal.wait_for("[y/N] ")


def cancellations(service: Service) -> int:
    return service.requests.count(f"POST /v1/sim/jobs/{JOB}/cancel")


@pytest.mark.parametrize("answer", ["\n", "n\n", "never\n", "\x03", "\x04"])
def test_ctrl_c_asks_and_leaves_the_job(simctl: Simctl, service: Service, profile: str, answer: str) -> None:
    service.answers[STATUS] = [running()]
    with simctl.on_terminal("run", profile) as terminal:
        interrupted(terminal)
        terminal.type(answer)
        assert terminal.wait() == Exit.INTERRUPTED
    assert f"Cancel job {JOB}? [y/N]" in terminal.output
    assert f"simctl cancel {JOB}" in terminal.output
    assert "Traceback" not in terminal.output
    assert cancellations(service) == 0


@pytest.mark.parametrize("answer", ["y\n", " YES \n"])
def test_ctrl_c_can_cancel_the_job(simctl: Simctl, service: Service, profile: str, answer: str) -> None:
    service.answers[STATUS] = [running()]
    with simctl.on_terminal("run", profile, profile) as terminal:
        terminal.wait_for("40 %")
        terminal.type("\x03")
        terminal.wait_for("Cancel 2 jobs? [y/N] ")
        terminal.type(answer)
        assert terminal.wait() == Exit.INTERRUPTED
    assert cancellations(service) == 2
    assert f"Job {JOB} is" in terminal.output


def test_a_cancellation_that_is_refused(simctl: Simctl, service: Service, profile: str) -> None:
    service.answers |= {STATUS: [running()], CANCEL: [refusal(409, "job_not_cancellable")]}
    with simctl.on_terminal("run", profile) as terminal:
        interrupted(terminal)
        terminal.type("y\n")
        assert terminal.wait() == Exit.INTERRUPTED
    assert "(job_not_cancellable)" in terminal.output


def test_the_question_is_asked_although_the_profile_is_piped(
    simctl: Simctl, service: Service, profile: str
) -> None:
    service.answers[STATUS] = [running()]
    piped = Simctl(simctl.environment)
    with piped.on_terminal("run", "-", stdin=subprocess.PIPE) as terminal:
        assert terminal.process.stdin is not None
        terminal.process.stdin.write(b'mage="Frost"\n')
        terminal.process.stdin.close()
        interrupted(terminal)
        terminal.type("y\n")
        assert terminal.wait() == Exit.INTERRUPTED
    assert cancellations(service) == 1


def credentials(tmp_path: Path) -> Path:
    return tmp_path / "configuration" / "simservice" / "credentials.json"


@pytest.fixture
def bare(simctl: Simctl) -> Simctl:
    """The command without an address and a key."""
    return simctl.with_variables(SIMSERVICE_URL=None, SIMSERVICE_API_KEY=None)


def test_login_asks_and_stores(bare: Simctl, service: Service, tmp_path: Path) -> None:
    with bare.on_terminal("login") as terminal:
        terminal.wait_for("Address of the service: ")
        terminal.type(f"{service.url}/\n")
        terminal.wait_for("API key (not shown): ")
        terminal.type(f"{KEY}\n")
        assert terminal.wait() == Exit.COMPLETED
    assert KEY not in terminal.output
    assert json.loads(credentials(tmp_path).read_text()) == {"url": service.url, "apiKey": KEY}
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (credentials(tmp_path), credentials(tmp_path).parent)]
    assert modes == [0o600, 0o700]
    assert bare("credits").returncode == Exit.COMPLETED
    assert service.keys == {f"Bearer {KEY}"}


def test_login_offers_the_last_address(bare: Simctl, service: Service, tmp_path: Path) -> None:
    assert bare("login", "--url", service.url, "--key-stdin", stdin="sk_old\n").returncode == Exit.COMPLETED
    credentials(tmp_path).chmod(0o644)
    with bare.on_terminal("login") as terminal:
        terminal.wait_for(f"[{service.url}]: ")
        terminal.type("\n")
        terminal.wait_for("not shown")
        terminal.type(f"{KEY}\n")
        assert terminal.wait() == Exit.COMPLETED
    assert json.loads(credentials(tmp_path).read_text())["apiKey"] == KEY
    assert stat.S_IMODE(credentials(tmp_path).stat().st_mode) == 0o600
    assert [path.name for path in credentials(tmp_path).parent.iterdir()] == ["credentials.json"]


def test_a_wrong_key_is_not_stored(bare: Simctl, service: Service, tmp_path: Path) -> None:
    service.answers[CREDITS] = [refusal(401, "invalid_token")]
    done = bare("login", "--url", service.url, "--key-stdin", stdin=f"{KEY}\n")
    assert (done.returncode, done.stdout) == (Exit.REFUSED, "")
    assert done.stderr == "simctl: The sentence of invalid_token. (invalid_token)\n"
    assert not credentials(tmp_path).exists()


def test_ctrl_c_at_the_key_stores_nothing(bare: Simctl, service: Service, tmp_path: Path) -> None:
    with bare.on_terminal("login", "--url", service.url) as terminal:
        terminal.wait_for("not shown")
        terminal.type("\x03")
        assert terminal.wait() == Exit.INTERRUPTED
    assert "Traceback" not in terminal.output
    assert not credentials(tmp_path).exists()


def test_a_full_disk_keeps_the_last_login(bare: Simctl, service: Service, tmp_path: Path) -> None:
    login = ["login", "--url", service.url, "--key-stdin"]
    bare(*login, stdin="sk_old")
    limited = ["bash", "-c", 'ulimit -f 0 && exec "$@"', "bash", *COMMAND, *login]
    done = subprocess.run(limited, env=bare.environment, input=KEY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (Exit.LOCAL, "")
    assert done.stderr == f"simctl: {credentials(tmp_path)} cannot be written: File too large\n"
    assert json.loads(credentials(tmp_path).read_text())["apiKey"] == "sk_old"
    assert [path.name for path in credentials(tmp_path).parent.iterdir()] == ["credentials.json"]


def test_login_repairs_a_damaged_file(bare: Simctl, service: Service, tmp_path: Path) -> None:
    credentials(tmp_path).parent.mkdir(parents=True)
    credentials(tmp_path).write_text("{")
    assert bare("login", "--url", service.url, "--key-stdin", stdin=KEY).returncode == Exit.COMPLETED
    assert bare("credits").returncode == Exit.COMPLETED
