"""Logs of a job, for every way in which its simulator can end."""

from functools import partial
from pathlib import Path

import pytest
from pytest_django import Settings

from clients.audit import SYSTEM
from jobs.artifacts import credentials
from jobs.artifacts.credentials import GameCredentials
from jobs.execution import attempt, verdict
from jobs.lifecycle import cancellation
from jobs.models import Artifact, Job
from simc import command
from tests.factories import make_job
from tests.jobs.simulators import (
    LEAVE_REPORT,
    RUN_UNTIL_INTERRUPTED,
    claim,
    content,
    make_stand_in,
    run,
    run_with_action,
)

pytestmark = pytest.mark.django_db(transaction=True)

STDOUT, STDERR = Artifact.Kind.STDOUT_LOG, Artifact.Kind.STDERR_LOG
PRINT_TWO_LINES = "print('half way', flush=True); print('a warning', file=sys.stderr, flush=True)\n"
FLOOD = "line = b'x' * 65535 + b'\\n'\nfor _ in range(1024): sys.stdout.buffer.write(line)"
DISK_FLOOD = "out = open('big', 'wb')\nwhile True: out.write(bytes(1 << 20)); out.flush()"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (LEAVE_REPORT, None),
        ("print('Error: bad talents', file=sys.stderr); sys.exit(1)", "simulation_error"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "execution_failed"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "execution_failed"),
        (FLOOD, "execution_failed"),
        (DISK_FLOOD, "execution_failed"),
        ("signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)", "max_credits_reached"),
    ],
    ids=["completed", "refused", "crashed", "killed", "output flood", "disk flood", "timed out"],
)
def test_both_logs_are_kept_however_a_job_ends(
    tmp_path: Path, settings: Settings, body: str, code: str | None
) -> None:
    settings.SIM_OUTPUT_BYTES, settings.SIM_DISK_BYTES = 4 << 20, 4 << 20
    make_stand_in(tmp_path, PRINT_TWO_LINES + body)
    job = run(ceiling_credits=64, ceiling_runtime_seconds=2)
    assert job.error_code == code
    assert content(job, STDOUT).startswith(b"half way\n")
    assert content(job, STDERR).startswith(b"a warning\n")


@pytest.mark.parametrize("broken", [(verdict, "outcome_of"), (command, "input_text")], ids=["judging", "storing"])
def test_an_internal_error_keeps_only_the_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: tuple[object, str]
) -> None:
    make_stand_in(tmp_path, PRINT_TWO_LINES + LEAVE_REPORT)
    monkeypatch.setattr(*broken, lambda *_, **__: 1 / 0)
    job = run(csv=True)
    assert (job.error_code, job.credits_consumed, job.summary) == ("internal", 0, None)
    assert set(Artifact.objects.filter(job=job).values_list("kind", flat=True)) == {STDOUT, STDERR}
    assert content(job, STDERR) == b"a warning\n"


def test_a_cancelled_job_keeps_both_logs(tmp_path: Path) -> None:
    make_stand_in(tmp_path, PRINT_TWO_LINES + RUN_UNTIL_INTERRUPTED)
    job = run_with_action(partial(cancellation.cancel, by=SYSTEM))
    assert job.status == "cancelled"
    assert content(job, STDOUT).startswith(b"half way\n")
    assert content(job, STDERR) == b"a warning\n"


def test_size_and_hash_are_of_the_collapsed_log(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"for _ in range(5000): print('the same again')\n{LEAVE_REPORT}")
    job = run()
    log = content(job, STDOUT)
    assert log == b"the same again\n[the line above came 5000 times in a row]\n"
    assert Artifact.objects.get(job=job, kind=STDOUT).bytes == len(log)


def test_a_redrawn_progress_bar_keeps_its_last_state(tmp_path: Path) -> None:
    bar = "for n in range(10001): print(f'Generating: {n}/10000', end='\\r')\nprint()\n"
    make_stand_in(tmp_path, bar + LEAVE_REPORT)
    assert content(run(), STDOUT) == b"Generating: 10000/10000\n"


def test_collapsed_lines_contain_no_secret(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"for _ in range(999): print('token {'s3cr3t' * 3} refused')\n{LEAVE_REPORT}")
    job = make_job(has_credentials=True)
    credentials.store(job.pk, GameCredentials(client_id="client-id", client_secret="s3cr3t" * 3), seconds=60)
    attempt.execute(claim())
    log = content(Job.objects.get(pk=job.pk), STDOUT)
    assert log == b"token [removed] refused\n[the line above came 999 times in a row]\n"
