"""The figures of jobs on many slots, and the simulator that sleeps."""

import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench import parallel, scaling, stub
from bench.local import ACTIVE
from bench.slot_time import SlotRun, divided
from bench.statement_log import Statement, statements
from jobs.planning.multistage import beaten
from simc import command
from simc.report_reader import read_report
from simc.reports import Player, Profileset, Report, Statistics

LOG = f"""\
2026-11-23 02:00:00.000 UTC [12] LOG:  duration: 0.050 ms  bind _pg3_7: /* claim_shard */ WITH open AS (
2026-11-23 02:00:00.000 UTC [12] LOG:  duration: 0.250 ms  execute _pg3_7: /* claim_shard */ WITH open AS (
2026-11-23 02:00:00.000 UTC [12] LOG:  duration: 1.500 ms  statement: SELECT 1
2026-11-23 02:00:00.000 UTC [12] LOG:  duration: 0.100 ms  parse <unnamed>: SELECT 2
2026-11-23 02:00:00.000 UTC [12] LOG:  duration: 0.300 ms  execute <unnamed>: UPDATE "jobs_job"
\tSET id = 1
2026-11-23 02:00:00.000 UTC [12] LOG:  duration: 0.300 ms  statement: {ACTIVE}
2026-11-23 02:00:00.000 UTC [12] LOG:  checkpoint starting: time
"""


def slot_run(*, seat: int, started: float, ended: float, stage: int = 1) -> SlotRun:
    return SlotRun(stage=stage, seat=seat, started=started, ended=ended)


def statistics(mean: float, error: float) -> Statistics:
    return Statistics(mean=mean, mean_stddev=error, stddev=10.0, min=0.0, max=2 * mean)


def report(**means: float) -> Report:
    """Return a report of profilesets with standard errors of 3."""
    profilesets = tuple(
        Profileset(name=name, statistics=statistics(mean, 3.0), stage=1) for name, mean in means.items()
    )
    nothing = statistics(0.0, 0.0)
    return Report(
        players=(Player(name="Ada", dps=nothing),),
        profilesets=profilesets,
        raid_dps=nothing,
        iterations=1,
        errors=(),
    )


def test_the_time_of_slots_is_divided() -> None:
    runs = [
        slot_run(seat=0, started=1, ended=4),
        slot_run(seat=0, started=5, ended=9),
        slot_run(seat=1, started=2, ended=7),
    ]
    time = divided(runs, slots=2, started=0, ended=10, simulating=11)
    assert (time.starting, time.between, time.around, time.tail, time.outside) == (1, 1, 1, 2, 4)
    assert time.total == 2 * 10
    assert time.efficiency == 0.55
    assert time.percent("tail") == 10


def test_slots_without_a_shard_idle_during_the_stage() -> None:
    time = divided([slot_run(seat=0, started=0, ended=4)], slots=3, started=0, ended=4, simulating=4)
    assert (time.tail, time.total) == (8, 12)


def test_stages_are_divided_separately() -> None:
    runs = [slot_run(seat=0, started=0, ended=2), slot_run(seat=0, started=5, ended=6, stage=2)]
    time = divided(runs, slots=1, started=0, ended=6, simulating=3)
    assert (time.between, time.outside) == (0, 3)


def test_executed_statements_are_counted_once() -> None:
    assert statements(LOG.splitlines()) == [
        Statement(0.25, "claim_shard"),
        Statement(1.5, "SELECT"),
        Statement(0.3, "UPDATE jobs_job"),
    ]


def test_idle_statements_are_not_part_of_the_cost() -> None:
    cost = scaling.Cost(executed=statements(LOG.splitlines()), idle_statements=1.0, cpu={})
    assert cost.statements == 2
    assert cost.claim_ms() == [0.25]
    assert cost.by_name() == {"claim_shard": 1, "SELECT": 1, "UPDATE jobs_job": 1}


def test_means_agree_within_the_interval_of_their_difference() -> None:
    one, two = report(a=100, b=100, c=100), report(a=108.3, b=108.4, c=91.7)
    assert parallel.agreeing(one, two) == 2
    assert parallel.agreeing(one, report(a=100)) == 1


def test_fields_are_compared_by_name() -> None:
    def document(*results: Mapping[str, Any]) -> dict[str, Any]:
        return {"sim": {"players": [{"name": "Ada"}], "profilesets": {"results": list(results)}}}

    one = document({"name": "a", "mean": 1}, {"name": "b", "mean": 2})
    assert parallel.different_fields(one, document({"name": "b", "mean": 2}, {"name": "a", "mean": 1})) == []
    changed = document({"name": "b", "mean": 3})
    assert parallel.different_fields(one, changed) == [
        "profileset a: mean",
        "profileset a: name",
        "profileset b: mean",
    ]


@pytest.fixture
def sleeper(tmp_path: Path) -> Path:
    """Return the simulator that sleeps."""
    if not any(map(shutil.which, stub.COMPILERS)):
        pytest.skip("no C compiler")
    return stub.build_sleeper(tmp_path / "build")


def simulated(sleeper: Path, folder: Path, text: str) -> Report:
    (folder / command.PROFILE_NAME).write_text(text)
    arguments = command.arguments(threads=1, json_version=2, html=False)
    subprocess.run([sleeper, *arguments], cwd=folder, capture_output=True, check=True)
    return read(folder)


def read(folder: Path) -> Report:
    with (folder / command.REPORT_NAME).open("rb") as stream:
        return read_report(stream, max_bytes=1 << 20)


def test_the_sleeper_prints_its_version(sleeper: Path) -> None:
    done = subprocess.run([sleeper, *command.probe_arguments()], capture_output=True, text=True, check=True)
    assert command.parse_version_line(done.stdout) is not None


def test_profilesets_sleep_with_their_own_numbers(sleeper: Path, tmp_path: Path) -> None:
    lines = ["iterations=5", 'profileset."a"+=x=1', "profileset.b+=x=1", "profileset.b+=iterations=7"]
    lines += ["profileset.b+=target_error=0", "profileset.c+=iterations=900", "profileset.c+=target_error=1.2"]
    found = simulated(sleeper, tmp_path, "\n".join(lines))
    assert found.iterations == 5
    assert {entry.name: entry.iterations for entry in found.profilesets} == {"a": 5, "b": 7, "c": 200}


def test_stages_cull_the_sleepers_profilesets(sleeper: Path, tmp_path: Path) -> None:
    found = simulated(sleeper, tmp_path, scaling.profile(100, staged=True) + "iterations=100000\ntarget_error=1\n")
    culled = beaten(found.profilesets)
    assert 30 < len(culled) < 90
    assert "set0" not in culled


def test_an_interrupted_sleeper_reports_what_has_ended(sleeper: Path, tmp_path: Path) -> None:
    (tmp_path / command.PROFILE_NAME).write_text(
        "iterations=1\nprofileset.a+=x=1\nprofileset.b+=iterations=900000\n"
    )
    arguments = command.arguments(threads=1, json_version=2, html=False)
    with subprocess.Popen([sleeper, *arguments], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "2500/900000" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 1
    assert [entry.name for entry in read(tmp_path).profilesets] == ["a"]
