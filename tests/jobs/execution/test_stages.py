"""Jobs in stages, with the built-in simulator and fake ones that fail at a stage."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from clients.models import ApiKey
from jobs.artifacts import artifact_files
from jobs.enums import Renewal
from jobs.execution import conductor
from jobs.execution.time_limits import JobLimit
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Try
from jobs.live.progress import Progress, Publisher, progress_of
from jobs.models import Artifact, Build, Job, Run
from jobs.results import details
from tests.conftest import Api
from tests.dashboard.browsing import pages_of
from tests.jobs.simulators import contents, make_shifted_minisim, make_stand_in, run, run_with_action

pytestmark = pytest.mark.django_db(transaction=True)

NAMES = [f"set {number}" for number in range(1, 9)]
SETS = "".join(f'profileset."{name}"+=trinket1=stone,id=1,ilevel={600 + 12 * n}\n' for n, name in enumerate(NAMES))
PROFILE = f'mage="A"\ncalculate_scale_factors=0\n{SETS}'

# Reports a mean for each profileset that grows with its number, as precise as the stage requires.
STAND_IN = r"""
import re
text = open('profile.simc').read().replace('"', '')
names = list(dict.fromkeys(re.findall(r'profileset\.(set \d+(?:~replicate)?)', text)))
error = float(re.findall(r'target_error=([\d.]+)', text)[-1])
def entry(name, mean):
    known = {'mean': mean, 'mean_stddev': mean * error / 196, 'stddev': mean * error / 10}
    return {'name': name, **known, 'min': 1, 'max': 2 * mean}
def leave(names):
    sample = {'mean': 1000, 'mean_std_dev': 10 * error / 1.96, 'std_dev': 5, 'min': 1, 'max': 2000}
    sets = [entry(name, 1000 + 5 * int(name[4:].partition('~')[0])) for name in names]
    sim = {'options': {'iterations': 10}, 'players': [{'name': 'A', 'collected_data': {'dps': sample}}],
           'profilesets': {'metric': 'Damage per Second', 'results': sets}}
    json.dump({'version': '1', 'report_version': '2.0.0', 'sim': sim}, open('report.json', 'w'))
def stop(*_):
    leave(names[:4])
    sys.exit(1)
signal.signal(signal.SIGINT, stop)
"""
# The mean of a profileset.
MEAN = "1000 + 5 * int(name[4:].partition('~')[0])"
# With this seed and shifted results, the built-in simulator ranks the best set far behind another.
LOSES_WITHOUT_REPLICATES = 11
LATER = "\nif error < 1: time.sleep(60)\nleave(names)"


def run_staged(**fields: Any) -> Job:
    return run(**{"text": PROFILE, "multi_stage": True, **fields})


def stages_of(job: Job) -> list[tuple[str, int, int]]:
    assert job.summary is not None
    stages = job.summary["multiStage"]["stages"]
    return [(stage["label"], stage["profilesets"], stage["culled"]) for stage in stages]


def results_of(job: Job) -> dict[str, int]:
    """Return the stage of each profileset's result."""
    assert job.summary is not None
    return {row["name"]: row["stage"] for row in job.summary["mainActor"]["profilesets"]["results"]}


def test_a_real_job_runs_in_stages(minisim: Build) -> None:
    job = run_staged(text=f"{PROFILE}target_error=0.4\n", html=True, csv=True)
    assert (job.status, job.status_reason) == ("completed", None)
    (first, ran, culled), (last, remaining, last_culled) = stages_of(job)
    assert (first, ran, last, remaining, last_culled) == ("initial", 8, "final", 8 - culled, 0)
    assert culled > 0
    rows = results_of(job)
    assert (len(rows), next(iter(rows)), sorted(rows.values())) == (8, "set 8", [1] * culled + [2] * remaining)
    runs = list(Run.objects.filter(job=job).order_by("stage"))
    assert [recorded.stage for recorded in runs] == [1, 2]
    assert job.sim_duration_ms == sum(recorded.wall_ms or 0 for recorded in runs)
    assert job.credits_consumed == -(-job.sim_duration_ms // 1000) * 32
    assert progress_of(job).percent == 100
    found = details.details_of(job)
    assert found is not None
    assert found.fight.target_error == 0.4


def test_every_stage_has_its_own_files(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\nopen('report.html', 'w').write('page')\nleave(names)")
    job = run_staged(html=True, csv=True)
    assert sorted(Artifact.objects.filter(job=job).values_list("kind", "stage"), key=str) == sorted(
        [
            *(
                (kind, stage)
                for kind in ("input", "json_report", "stdout_log", "stderr_log")
                for stage in (1, 2, 3)
            ),
            ("json_report", None),
            ("html_report", 3),
            ("csv_report", None),
        ],
        key=str,
    )
    inputs = contents(job, Artifact.Kind.INPUT)
    assert ["html=report.html" in text for text in inputs] == [False, False, True]
    assert ["calculate_scale_factors" in text for text in inputs] == [False, False, True]
    errors = [re.findall(r"target_error=([\d.]+)", text)[-1] for text in inputs]
    assert errors == ["1.0", "0.2", "0.05"]


def test_the_csv_report_lists_every_profileset_once(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\nleave(names)")
    job = run_staged(csv=True)
    assert stages_of(job) == [("initial", 8, 2), ("intermediate", 6, 4), ("final", 2, 0)]
    rows = list(csv.reader(io.StringIO(contents(job, Artifact.Kind.CSV_REPORT)[0], newline="")))
    assert [row[0] for row in rows] == ["name", "A", *reversed(NAMES)]
    errors = {row[0]: float(row[5]) for row in rows[2:]}
    assert errors["set 8"] < errors["set 5"] < errors["set 1"]


def test_replicates_are_merged_into_one_result(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\nleave(names)")
    job = run_staged()
    assert job.summary is not None
    rows = {row["name"]: row for row in job.summary["mainActor"]["profilesets"]["results"]}
    assert rows.keys() == set(NAMES)
    assert rows["set 1"]["mean"] == 1005
    assert rows["set 1"]["mean_stddev"] == pytest.approx(1005 * 1 / 196, rel=1e-3)


def test_a_spread_beyond_the_errors_culls_less(tmp_path: Path) -> None:
    shifted = STAND_IN.replace(f"{MEAN})", f"{MEAN} + 40 * error * ('~' in name))")
    make_stand_in(tmp_path, f"{shifted}\nleave(names)")
    assert stages_of(run_staged()) == [("initial", 8, 0), ("intermediate", 8, 0), ("final", 8, 0)]


def test_a_spread_beyond_the_errors_adds_a_warning(tmp_path: Path, api: Api, key: tuple[ApiKey, str]) -> None:
    shifted = STAND_IN.replace(f"{MEAN})", f"{MEAN} + 40 * error * ('~' in name))")
    make_stand_in(tmp_path, f"{shifted}\nleave(names)")
    job = run_staged(client=key[0].client)
    (warning,) = api.get(f"jobs/{job.pk}/result").json()["result"]["summary"]["warnings"]
    assert warning.startswith("Two runs of the same profileset differed by about ")
    assert all(warning in page for page in pages_of(job))


def last_stage_of_shifted(folder: Path, *, seed: int, errors: float) -> set[str]:
    """Return the profilesets of the last stage if the seed shifts their means."""
    make_shifted_minisim(folder, seed=seed, errors=errors)
    job = run_staged(text=f"{PROFILE}target_error=0.4\n")
    assert job.status == "completed", job.status_reason
    return {name for name, stage in results_of(job).items() if stage == 2}


def test_the_best_survives_seeds_that_shift_results(tmp_path: Path) -> None:
    assert "set 8" in last_stage_of_shifted(tmp_path, seed=LOSES_WITHOUT_REPLICATES, errors=28)


def test_without_replicates_the_same_seed_loses_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conductor, "widening", lambda *_: 1.0)
    assert "set 8" not in last_stage_of_shifted(tmp_path, seed=LOSES_WITHOUT_REPLICATES, errors=28)


def test_margins_so_far_include_how_much_replicates_differed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[Progress] = []
    monkeypatch.setattr(conductor, "widening", lambda *_: 1.5)
    monkeypatch.setattr(Publisher, "publish", lambda _, progress: published.append(progress))
    make_stand_in(tmp_path, STAND_IN + "\nprint('Generating', flush=True)\ntime.sleep(0.5)\nleave(names)")
    assert run_staged().status == "completed"
    assert {progress.stage.current: progress.widening for progress in published if progress.stage} == {
        1: 1.0, 2: 1.5, 3: 1.5
    }  # fmt: skip


def test_equal_profilesets_are_not_culled(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"{STAND_IN.replace(MEAN, '1000')}\nleave(names)")
    job = run_staged(csv=True)
    assert (job.status, job.credits_consumed) == ("completed", -(-(job.sim_duration_ms or 0) // 1000) * 32)
    assert stages_of(job) == [("initial", 8, 0), ("intermediate", 8, 0), ("final", 8, 0)]
    assert set(results_of(job).values()) == {3}


def test_stopping_a_later_stage_keeps_earlier_results(tmp_path: Path) -> None:
    make_stand_in(tmp_path, STAND_IN + LATER)
    job = run_staged(ceiling_credits=64, ceiling_runtime_seconds=2)
    assert (job.status, job.error_code, job.credits_consumed) == ("timed_out", "max_credits_reached", 64)
    assert job.summary is not None
    assert job.summary["partial"] is True
    assert stages_of(job) == [("initial", 8, 2), ("intermediate", 6, 0)]
    assert results_of(job) == {name: 2 if name in ("set 3", "set 4") else 1 for name in NAMES}


def test_the_ceiling_counts_all_stages_together(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\ntime.sleep(1 if error > 1 else 60)\nleave(names)")
    job = run_staged(ceiling_credits=96, ceiling_runtime_seconds=3)
    assert (job.status, job.credits_consumed) == ("timed_out", 96)
    assert [recorded.stage for recorded in Run.objects.filter(job=job).order_by("stage")] == [1, 2]
    assert 3000 <= (job.sim_duration_ms or 0) < 30_000


def test_the_html_report_of_a_stage_that_never_ran_is_missing(tmp_path: Path) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\ntime.sleep(60)")
    job = run_staged(html=True, ceiling_credits=64, ceiling_runtime_seconds=2)
    reason = "The job ended before the last stage, which creates it."
    assert job.missing_artifacts == [{"kind": "html_report", "stage": 3, "reason": reason}]
    assert str(job.status_reason).endswith(" 6 profilesets were not simulated.")


def test_a_cancel_in_a_later_stage_bills_what_ran(tmp_path: Path) -> None:
    make_stand_in(tmp_path, STAND_IN + LATER)

    def cancel(job: Job) -> None:
        while not Run.objects.filter(job=job, stage=2).exists():
            pass
        job_moves.request_cancel(job)

    job = run_with_action(cancel, text=PROFILE, multi_stage=True)
    assert (job.status, job.error_code) == ("cancelled", "user_cancelled")
    assert (job.credits_consumed or 0) >= 32
    assert len(results_of(job)) == 8


@pytest.mark.parametrize(("when", "code"), [("cancelled", "user_cancelled"), ("used up", "max_credits_reached")])
def test_no_stage_starts_after_the_cap_or_a_cancel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, code: str
) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\nleave(names)")
    store_all = artifact_files.store_all

    def slow_storage(job: Job, *args: Any, **named: Any) -> list[Artifact]:
        stored = store_all(job, *args, **named)
        if when == "cancelled":
            job_moves.request_cancel(job)
        else:
            monkeypatch.setattr(JobLimit, "ran_seconds", 2.0)
        return stored

    monkeypatch.setattr(artifact_files, "store_all", slow_storage)
    job = run_staged(ceiling_credits=32, ceiling_runtime_seconds=1)
    assert (job.error_code, job.credits_consumed) == (code, 32)
    assert [recorded.stage for recorded in Run.objects.filter(job=job)] == [1]
    assert len(results_of(job)) == 8


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("if error < 1: sys.exit(3)\nleave(names)", "execution_failed"),
        ("if error < 1: sys.exit(0)\nleave(names)", "execution_failed"),
        ("leave(names if error > 1 else names[2:])", "simulation_error"),
    ],
    ids=["status 3", "no report", "a profileset lacks"],
)
def test_a_stage_that_fails_ends_the_job(tmp_path: Path, body: str, code: str) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\n{body}")
    job = run_staged()
    assert (job.status, job.error_code) == ("failed", code)
    assert len(results_of(job)) == 8
    assert {stage for stage, *_ in Artifact.objects.filter(job=job).values_list("stage")} == {None, 1, 2}


def test_a_lost_job_starts_no_further_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\nleave(names)")
    start_run = job_moves.start_run

    def requeue_before_the_second(job: Job, *, build: Build, stage: int, shard: Try) -> int | None:
        if stage == 2:
            job_moves.requeue(Job.objects.get(pk=job.pk), reason="taken")
        return start_run(job, build=build, stage=stage, shard=shard)

    monkeypatch.setattr(job_moves, "start_run", requeue_before_the_second)
    job = run_staged()
    assert job.status == "queued"
    assert [recorded.stage for recorded in Run.objects.filter(job=job)] == [1]
    assert not Artifact.objects.filter(job=job).exists()


def test_a_database_outage_between_stages_loses_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\nleave(names)")
    requests_of, outages = job_moves.requests_of, ["away"]

    def fail_once(job: Job) -> Renewal:
        if outages and Run.objects.filter(job=job).exists():
            raise OperationalError(outages.pop())
        return requests_of(job)

    monkeypatch.setattr(job_moves, "requests_of", fail_once)
    assert (run_staged().status, outages) == ("completed", [])


@pytest.mark.parametrize(
    ("requested", "reason"),
    [(True, "below_min_candidates"), (False, "disabled_by_option")],
    ids=["too few", "not asked"],
)
def test_other_jobs_run_in_one_pass_with_a_reason(tmp_path: Path, requested: object, reason: str) -> None:
    text = 'mage="A"\nprofileset."set 1"+=level=1\ntarget_error=1.0\n'
    make_stand_in(tmp_path, f"{STAND_IN}\nleave(names)")
    job = run(text=text, multi_stage=requested)
    assert job.summary is not None
    assert job.summary["multiStage"] == {"enabled": False, "reason": reason, "stages": []}
    assert job.summary["iterations"] == 10
    assert set(Artifact.objects.filter(job=job).values_list("stage", flat=True)) == {None}


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", "failed"),
        ("profileset_controller.set_bonus_enabled=tier,30\n", "completed"),
        ("profileset_metric=hps\n", "completed"),
    ],
    ids=["unexplained", "a controller cancels them", "of a metric that may be zero"],
)
def test_a_report_without_its_profilesets_is_a_failure(tmp_path: Path, text: str, status: str) -> None:
    make_stand_in(tmp_path, f"{STAND_IN}\nprint('Error: set 8 has no head', file=sys.stderr)\nleave(names[:6])")
    job = run(text=f"{PROFILE}target_error=1.0\n{text}")
    assert job.status == status
    if status == "failed":
        assert job.error_code == "simulation_error"
        assert job.status_reason == (
            "The simulator returned no result for 2 of 8 profilesets. It reported: set 8 has no head"
        )
        assert len(results_of(job)) == 6


def test_a_profile_without_damage_completes(tmp_path: Path) -> None:
    report = {"sim": {"options": {}, "players": [{"name": "A"}], "profilesets": {"results": []}}}
    make_stand_in(tmp_path, f"open('report.json', 'w').write({json.dumps(report)!r})")
    assert run(text=PROFILE).status == "completed"


@pytest.mark.parametrize("metric", ["dps", "raid_dps"])
def test_the_metric_is_the_profilesets_own(minisim: Build, metric: str) -> None:
    job = run(text=f'mage="A"\niterations=50\nprofileset_metric={metric}\nprofileset.a+=level=1\n')
    assert job.summary is not None
    assert job.summary["metric"] == metric
