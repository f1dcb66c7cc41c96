"""The costs of a job without its simulator: statements, Redis commands, threads, file writes and log bytes."""

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import pytest
from django.db import connection
from redis.connection import AbstractConnection

from jobs.execution import attempt
from jobs.lifecycle import job_moves
from jobs.models import Job
from simservice.storages.local import LocalStorage
from tests.costs import Costs, counted
from tests.factories import BuildFactory, make_job
from tests.jobs.simulators import REPORT, claim
from tests.statements import Traffic, traffic

pytestmark = pytest.mark.django_db(transaction=True)

REPORT_TEXT = str(REPORT).replace("'", '"')
# A line of the log, without the job's id
LOGGED_BYTES = 60
# Each of these calls releases the interpreter's lock, which is expensive while other slots are busy.
MAX_LOOKS = 45


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A claimed job, whose simulator prints a line, writes its report and ends at once."""
    tmp_path.chmod(0o755)
    script = tmp_path / "simulator"
    script.write_text(f"#!/bin/sh\necho SimulationCraft 1120-01\necho '{REPORT_TEXT}' > report.json\n")
    script.chmod(0o755)
    BuildFactory.create(executable=str(script), readable_paths=[str(tmp_path)])
    # The first job of a process starts threads and connections that later jobs share.
    first = make_job()
    attempt.execute(claim())
    assert Job.objects.get(pk=first.pk).status == "completed"
    make_job()
    return claim()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], list[tuple[Any, ...]]]:
    """Return a function that records the arguments of a function's calls."""

    def record(owner: Any, name: str) -> list[tuple[Any, ...]]:
        function, recorded = getattr(owner, name), list[tuple[Any, ...]]()

        def called(*args: Any, **named: Any) -> Any:
            recorded.append(args)
            return function(*args, **named)

        monkeypatch.setattr(owner, name, called)
        return recorded

    return record


def mark(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send a statement before and after each call of a function."""
    function = getattr(owner, name)

    def called(*args: Any, **named: Any) -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 'a move begins'")
            result = function(*args, **named)
            cursor.execute("SELECT 'a move ends'")
        return result

    monkeypatch.setattr(owner, name, called)


def outside_moves(sent: Traffic) -> Iterator[str]:
    """Yield the statements that are not part of a move of the job."""
    in_move = False
    for statement in sent.statements:
        if "a move" in statement:
            in_move = "begins" in statement
        elif not in_move:
            yield statement


def test_a_run_sends_two_statements_besides_its_moves(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    mark(job_moves, "start_run", monkeypatch)
    mark(attempt, "conclude", monkeypatch)
    with traffic() as sent:
        attempt.execute(job)
    prepared, ended = outside_moves(sent)
    assert prepared.startswith("/* prepare_latest */")
    assert ended.startswith("/* end_run */")


def test_costs_of_a_run(job: Job) -> None:
    """Statements: the preparation, the start, the end of the run, two locks and the end of the job.

    The launcher starts processes.
    """
    with counted() as costs:
        attempt.execute(job)
    assert costs == Costs(statements=6, round_trips=4, processes=0, log_bytes=96)


def test_a_job_that_ends_at_once_sends_nothing_to_redis(job: Job, calls: Any) -> None:
    sent = calls(AbstractConnection, "send_packed_command")
    attempt.execute(job)
    assert sent == []


def test_a_job_that_ends_at_once_starts_two_threads(job: Job, calls: Any) -> None:
    started = calls(threading.Thread, "start")
    attempt.execute(job)
    assert len(started) == 2, "one for each stream of the simulator"


def test_all_files_of_a_run_are_saved_together(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    saves: list[list[str]] = []
    synced: list[int] = []
    save_many = LocalStorage.save_many

    def save(storage: LocalStorage, files: Mapping[str, IO[bytes]]) -> None:
        saves.append([name.rpartition("-")[2] for name in files])
        save_many(storage, files)

    monkeypatch.setattr(LocalStorage, "save_many", save)
    monkeypatch.setattr(os, "fsync", synced.append)
    attempt.execute(job)
    assert saves == [["input.gz", "json_report.gz", "stdout_log.gz", "stderr_log.gz"]]
    assert len(synced) == 5, "each file once, and their folder once"


def test_a_run_looks_at_few_files(job: Job, calls: Any) -> None:
    looked = [calls(os, name) for name in ("stat", "lstat", "scandir")]
    attempt.execute(job)
    assert sum(map(len, looked)) <= MAX_LOOKS


def test_small_files_need_no_temporary_file(job: Job, calls: Any) -> None:
    created = calls(tempfile, "TemporaryFile")
    attempt.execute(job)
    assert created == []


def test_a_completed_job_logs_one_short_line(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        attempt.execute(job)
    assert [len(message) for message in caplog.messages if len(message) > LOGGED_BYTES] == []
    assert len(caplog.messages) == 1
