"""`simctl` with wrong arguments, files, keys and addresses: one line on standard error, and an exit status."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simservice_client.cli.exits import Exit
from tests.sdk.commands import COMMAND, Simctl, lines_on_screen
from tests.sdk.fake_service import KEY, Answer, Service, example, refusal
from tests.stack import ROOT

CREDITS, LIST = "GET /v1/sim/credits", "GET /v1/sim/jobs"
RESULT, STATUS = "GET /v1/sim/jobs/{job_id}/result", "GET /v1/sim/jobs/{job_id}/status"
HOSTILE = "\x1b[31m\u202eevil\r\n" + "x" * 300
PROFILE = 'mage="Frost"\n'
# Fewer would mean that the HTTP client has other locks.
LINES_OF_LOCKS = 10


def assert_fails(done: subprocess.CompletedProcess[str], status: Exit, text: str) -> None:
    """Check the exit status and that there is one line, which contains a text."""
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert done.stderr.startswith("simctl: ")
    assert done.stderr.count("\n") == 1
    assert text in done.stderr
    assert KEY not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "COMMAND"),
        (["fly"], "fly"),
        (["run"], "FILE"),
        (["run", "-", "-"], "only once"),
        (["run", "--priority", "top", "x"], "top"),
        (["run", "--max-credits", "0", "x"], "at least 1"),
        (["run", "--metadata", "x", "x"], "KEY=VALUE"),
        (["list", "--since", "yesterday"], "yesterday"),
        (["list", "--stat", "failed"], "--stat"),
        (["fly\x1b[31m\n"], r"fly\x1b[31m\n"),
        (["credits", "--url", "ftp://x"], "https://"),
        (["login"], "--key-stdin"),
        (["login", "--url", "http://x", "--key-stdin"], "no key"),
    ],
)
def test_invalid_arguments(simctl: Simctl, service: Service, arguments: list[str], text: str) -> None:
    assert_fails(simctl.call(*arguments), Exit.USAGE, text)
    assert service.requests == []


def test_no_key(simctl: Simctl) -> None:
    done = simctl.with_variables(SIMSERVICE_API_KEY=None)("credits")
    assert_fails(done, Exit.USAGE, "simctl login")


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (refusal(401, "invalid_token"), Exit.REFUSED, "(invalid_token)"),
        (refusal(429, "rate_limit_exceeded", **{"Retry-After": "900"}), Exit.REFUSED, "(rate_limit_exceeded)"),
        (refusal(503, "api_maintenance", **{"Retry-After": "0"}), Exit.UNREACHABLE, "(api_maintenance)"),
        (Answer(b"<html>Log in</html>", 200, {"Content-Type": "text/html"}), Exit.UNREACHABLE, "check the address"),
        (Answer(b"<h1>Not found</h1>", 404, {"Content-Type": "text/html"}), Exit.UNREACHABLE, "text/html"),
        (Answer(b"", 301, {"Location": "https://elsewhere/"}), Exit.UNREACHABLE, "redirects to"),
        (Answer(b"", 200), Exit.UNREACHABLE, "check the address"),
        (Answer([1, 2]), Exit.UNREACHABLE, "check the address"),
        (Answer({"purchased": "many", "reserved": [], "grants": []}), Exit.UNREACHABLE, "Unexpected response"),
        (Answer({"error": HOSTILE, "code": HOSTILE, "meta": [], "requestId": 1}, 403), Exit.REFUSED, r"\x1b[31m"),
        (
            Answer({"error": "No", "code": "x", "meta": {"issues": [7, {}]}, "requestId": 1}, 400),
            Exit.REFUSED,
            "No",
        ),
    ],
)
def test_answers_that_are_no_success(
    simctl: Simctl, service: Service, answer: Answer, status: Exit, text: str
) -> None:
    service.answers[CREDITS] = [answer]
    assert_fails(simctl.call("credits"), status, text)


def test_an_address_without_a_server(simctl: Simctl) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    assert_fails(simctl("credits", "--url", url), Exit.UNREACHABLE, f"{url} does not answer")


def test_an_unknown_host(simctl: Simctl) -> None:
    impatient = simctl.with_variables(RES_OPTIONS="timeout:1 attempts:1")
    assert_fails(impatient("credits", "--url", "http://simctl.invalid"), Exit.UNREACHABLE, "simctl.invalid")


UNSENDABLE = {
    "empty": (b"", "is empty"),
    "blank": (b" \n\t", "is empty"),
    "latin": (b'mage="x"\nname=\xff\n', "is not UTF-8: see line 2"),
    "large": (b"#" * (2 * 1024 * 1024 + 1), "is larger than 2 MB"),
}


@pytest.mark.parametrize("case", UNSENDABLE)
@pytest.mark.parametrize("command", ["run", "check"])
def test_profiles_that_cannot_be_sent(
    simctl: Simctl, service: Service, tmp_path: Path, case: str, command: str
) -> None:
    content, text = UNSENDABLE[case]
    path = tmp_path / "mage.simc"
    path.write_bytes(content)
    assert_fails(simctl.call(command, str(path)), Exit.LOCAL, f"mage.simc {text}")
    assert_fails(simctl.call(command, "-", stdin=content), Exit.LOCAL, f"standard input {text}")
    assert service.requests == []


def test_files_that_cannot_be_read(simctl: Simctl, service: Service, tmp_path: Path) -> None:
    assert_fails(simctl("run", "none.simc"), Exit.LOCAL, "none.simc cannot be read: No such file")
    assert_fails(simctl("run", str(tmp_path)), Exit.LOCAL, "Is a directory")
    assert_fails(simctl("run", "x" * 300), Exit.LOCAL, "File name too long")
    assert service.requests == []


def test_a_profile_of_two_megabytes_is_sent(simctl: Simctl, service: Service) -> None:
    text = "#" * (2 * 1024 * 1024)
    assert simctl("check", "-", stdin=text).returncode == Exit.COMPLETED
    assert service.bodies[-1]["profile"]["text"] == text


@pytest.mark.parametrize("arguments", [["show", "x"], ["cancel", "x"], ["logs", "x"], ["download", "x"]])
def test_an_unknown_job(simctl: Simctl, service: Service, arguments: list[str]) -> None:
    for operation in (RESULT, STATUS, "GET /v1/sim/jobs/{job_id}", "POST /v1/sim/jobs/{job_id}/cancel"):
        service.answers[operation] = [refusal(404, "not_found")]
    assert_fails(simctl.call(*arguments), Exit.REFUSED, "(not_found)")


@pytest.mark.parametrize("arguments", [["download", "7"], ["compare", "7", "8"]])
def test_a_job_that_has_not_ended(simctl: Simctl, service: Service, arguments: list[str]) -> None:
    service.answers[RESULT] = [refusal(409, "result_not_ready", **{"Retry-After": "1"})]
    assert_fails(simctl(*arguments), Exit.REFUSED, "(result_not_ready)")


def test_a_job_without_figures_cannot_be_compared(simctl: Simctl, service: Service) -> None:
    result = example(RESULT)
    result["result"]["summary"] = None
    service.answers[RESULT] = [Answer(result)]
    assert_fails(simctl("compare", "7", "8"), Exit.NOT_COMPLETED, "no figures")


def with_artifact(service: Service, content: bytes) -> None:
    """Let the service have a job with one file."""
    result = example(RESULT)
    (artifact,) = result["result"]["artifacts"][:1]
    own = {"url": f"{service.url}/file", "bytes": len(content), "name": "a.bin"}
    result["result"]["artifacts"] = [artifact | own]
    service.answers[RESULT] = [Answer(result)]
    service.answers["GET /file"] = [Answer(content)]


def test_a_full_disk_during_a_download(simctl: Simctl, service: Service, tmp_path: Path) -> None:
    with_artifact(service, b"x" * 500_000)
    limited = ["bash", "-c", 'ulimit -f 100 && exec "$@"', "bash", *COMMAND, "download", "7", str(tmp_path / "out")]
    done = subprocess.run(limited, env=simctl.environment, capture_output=True, text=True, check=False)
    assert_fails(done, Exit.LOCAL, "a.bin cannot be written: File too large")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_download_into_a_file(simctl: Simctl, service: Service, tmp_path: Path) -> None:
    with_artifact(service, b"x")
    (tmp_path / "out").write_text("kept")
    assert_fails(simctl("download", "7", str(tmp_path / "out")), Exit.LOCAL, "cannot be written")
    assert (tmp_path / "out").read_text() == "kept"


def test_a_download_with_other_content(simctl: Simctl, service: Service, tmp_path: Path) -> None:
    with_artifact(service, b"x")
    service.answers["GET /file"] = [Answer(b"y", 200, {"ETag": f'"{64 * "0"}"'})]
    assert_fails(simctl("download", "7", str(tmp_path)), Exit.UNREACHABLE, "differs")


@pytest.mark.parametrize("command", ["list", "builds", "usage", "--help"])
def test_a_closed_output_is_quiet(simctl: Simctl, command: str) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    process = simctl.start(command, stdout=theirs)
    os.close(theirs)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (Exit.OUTPUT_CLOSED, "")


def test_a_full_disk_behind_the_output(simctl: Simctl) -> None:
    with Path("/dev/full").open("w") as full:
        process = simctl.start("list", stdout=full.fileno())
        _, errors = process.communicate()
    assert process.returncode == Exit.LOCAL
    assert errors == "simctl: The output cannot be written: No space left on device\n"


def hostile_list() -> dict[str, Any]:
    page: dict[str, Any] = example(LIST)
    page["jobs"] = [page["jobs"][0] | {"title": HOSTILE, "status": HOSTILE}]
    return page


def test_hostile_names_do_not_reach_the_terminal(simctl: Simctl, service: Service) -> None:
    service.answers[LIST] = [Answer(hostile_list())]
    output = simctl("list").stdout
    assert r"\x1b[31m\u202eevil\r\n" in output
    assert {character for character in output if not character.isprintable()} == {"\n"}


def test_a_table_fits_the_terminal(simctl: Simctl, service: Service) -> None:
    service.answers[LIST] = [Answer(hostile_list())]
    with simctl.on_terminal("list", columns=100) as terminal:
        assert terminal.wait() == Exit.COMPLETED
    plain = terminal.output.replace("\x1b[2m", "").replace("\x1b[0m", "")
    assert "\x1b" not in plain
    assert max(map(len, lines_on_screen(plain))) <= 100


def test_colours_only_on_a_terminal_that_wants_them(simctl: Simctl) -> None:
    assert "\x1b" not in simctl("list").stdout
    for chosen, has_colours in (("", True), ("1", False)):
        with simctl.with_variables(NO_COLOR=chosen).on_terminal("list") as terminal:
            terminal.wait()
        assert ("\x1b[32mcompleted" in terminal.output) is has_colours


def test_an_output_that_cannot_show_a_character(simctl: Simctl) -> None:
    done = simctl.with_variables(PYTHONIOENCODING="ascii", PYTHONUTF8="0")("show", "7")
    assert (done.returncode, done.stderr) == (Exit.COMPLETED, "")
    assert r"\xb1" in done.stdout


def test_a_stored_key_is_not_sent_to_another_service(simctl: Simctl, service: Service, tmp_path: Path) -> None:
    bare = simctl.with_variables(SIMSERVICE_URL=None, SIMSERVICE_API_KEY=None)
    stored = tmp_path / "configuration" / "simservice" / "credentials.json"
    stored.parent.mkdir(parents=True)
    stored.write_text(json.dumps({"url": "https://sims.example", "apiKey": KEY}))
    done = bare("credits", "--url", service.url)
    assert_fails(done, Exit.USAGE, "The stored API key is for https://sims.example.")
    assert service.requests == []


def test_a_damaged_file_of_the_login(simctl: Simctl, tmp_path: Path) -> None:
    stored = tmp_path / "configuration" / "simservice" / "credentials.json"
    stored.parent.mkdir(parents=True)
    stored.write_text("{")
    bare = simctl.with_variables(SIMSERVICE_API_KEY=None)
    assert_fails(bare("credits"), Exit.USAGE, "Run `simctl login` again.")


def test_an_interruption_without_a_terminal_leaves_the_job(simctl: Simctl, service: Service) -> None:
    process = simctl.start("run", "-")
    assert process.stdin is not None
    process.stdin.write(PROFILE)
    process.stdin.close()
    process.stdin = None
    service.wait_for(lambda known: any("/status" in request for request in known.requests))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    job = example("POST /v1/sim/jobs")["id"]
    assert process.returncode == Exit.INTERRUPTED
    assert errors.endswith(f"simctl: Interrupted. The job continues. To cancel: simctl cancel {job}\n")
    assert not any("cancel" in request for request in service.requests)


@pytest.mark.parametrize("command", [["run", "a.simc"], ["logs", "--follow", "1"]])
def test_ctrl_c_ends_a_command_at_every_line_of_a_lock(
    simctl: Simctl, service: Service, tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "a.simc").write_text(PROFILE)
    result = example(RESULT)
    result["result"]["artifacts"] = []
    service.answers = {STATUS: [Answer(example(STATUS) | {"status": "completed"})], RESULT: [Answer(result)]}
    done = subprocess.run(
        [sys.executable, "-m", "tests.sdk.interruptions", *command],
        env={**simctl.environment, "PYTHONPATH": f"{simctl.environment['PYTHONPATH']}:{ROOT}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    *ended, last = map(int, done.stdout.split())
    assert last == Exit.COMPLETED
    assert set(ended) == {Exit.INTERRUPTED}, done.stdout
    assert len(ended) > LINES_OF_LOCKS


def test_a_refused_file_does_not_prevent_the_others(simctl: Simctl, service: Service, tmp_path: Path) -> None:
    for name in ("a.simc", "b.simc"):
        (tmp_path / name).write_text(PROFILE)
    service.answers["POST /v1/sim/jobs"] = [refusal(422, "too_many_variants"), Answer(example("POST /v1/sim/jobs"))]
    done = simctl("run", "--no-wait", str(tmp_path / "a.simc"), str(tmp_path / "b.simc"))
    assert (done.returncode, done.stdout) == (Exit.REFUSED, f"{example('POST /v1/sim/jobs')['id']}\n")
    assert "a.simc: The sentence of too_many_variants." in done.stderr


@pytest.mark.parametrize(("status", "code"), [(401, "invalid_token"), (403, "insufficient_scope")])
def test_a_refused_key_ends_the_submissions(
    simctl: Simctl, service: Service, tmp_path: Path, status: int, code: str
) -> None:
    (tmp_path / "a.simc").write_text(PROFILE)
    service.answers["POST /v1/sim/jobs"] = [refusal(status, code)]
    done = simctl("run", *(3 * [str(tmp_path / "a.simc")]))
    assert done.returncode == Exit.REFUSED
    assert "2 more files were not submitted" in done.stderr
    assert service.requests == ["POST /v1/sim/jobs"]


def test_a_job_that_fails(simctl: Simctl, service: Service) -> None:
    failed = {"status": "failed", "errorCode": "simulation_error", "statusReason": f"No such item: {HOSTILE}"}
    service.answers[STATUS] = [Answer(example(STATUS) | failed)]
    service.answers[RESULT] = [refusal(409, "result_unavailable")]
    done = simctl("run", "-", stdin=PROFILE)
    assert (done.returncode, done.stdout) == (Exit.NOT_COMPLETED, "")
    assert r"failed: No such item: \x1b[31m\u202eevil\r\n" in done.stderr


def test_a_job_that_fails_with_files_that_cannot_be_stored(
    simctl: Simctl, service: Service, tmp_path: Path
) -> None:
    service.answers[STATUS] = [Answer(example(STATUS) | {"status": "timed_out", "statusReason": "Too long"})]
    with_artifact(service, b"x")
    (tmp_path / "out").write_text("kept")
    done = simctl("run", "-", "--output", str(tmp_path / "out"), stdin=PROFILE)
    assert done.returncode == Exit.LOCAL
    assert "timed out: Too long" in done.stderr
    assert "cannot be written" in done.stderr


def test_a_refused_profile(simctl: Simctl, service: Service) -> None:
    checked = example("POST /v1/sim/jobs/validate")
    refused = [{"line": 3, "text": "output=\x1bx", "reason": "it writes a file"}]
    error = {"status": 422, "error": "No.", "code": "input_sanitized_rejected", "meta": None}
    checked |= {"valid": False, "refusal": error, "refusedLines": refused, "refusedCount": 3}
    service.answers["POST /v1/sim/jobs/validate"] = [Answer(checked)]
    done = simctl("check", "-", stdin=PROFILE)
    assert done.returncode == Exit.NOT_COMPLETED
    assert "simctl: standard input: No. (input_sanitized_rejected)\n" in done.stderr
    assert "simctl: standard input:3: output=\\x1bx: it writes a file\n" in done.stderr
    assert "2 more refused options" in done.stderr
