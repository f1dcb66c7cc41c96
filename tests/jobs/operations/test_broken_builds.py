"""Builds that break after their registration: how their jobs end, and what operators see."""

import logging
import shutil
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import Settings

from clients.models import ApiKey
from jobs import registry
from jobs.execution import attempt, simulator_run, stages
from jobs.execution.machine import Machine, RunLost
from jobs.execution.simulator_run import SimulatorRun
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Build, Job, JobEvent, Run
from jobs.operations import build_registration
from jobs.planning.multistage import Stage
from jobs.queue import claims, sweep
from sandbox.process import ConfinedProcess, LauncherLost, NotStarted
from tests.admin_actions import act, choose
from tests.concurrency import at_once
from tests.conftest import Api
from tests.dashboard.browsing import browser_of
from tests.factories import make_job, make_member
from tests.jobs.simulators import LEAVE_REPORT, build_of, claim, make_stand_in, run

pytestmark = pytest.mark.django_db(transaction=True)

PRINTS_ITS_VERSION = 'if "display_build=2" in sys.argv: sys.exit(print("SimulationCraft 1120-01"))'


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry a build that does not start without a delay."""
    monkeypatch.setattr(simulator_run, "SECOND_START_SECONDS", 0.0)


def stand_in(parent: Path, name: str, body: str = LEAVE_REPORT, *, days_old: int = 0) -> Build:
    """Register a fake simulator in its own folder; by default it works."""
    folder = parent / name
    folder.mkdir()
    parent.chmod(0o755)
    build = make_stand_in(folder, body)
    build.created_at = timezone.now() - timedelta(days=days_old)
    build.save()
    return build


def is_gone(executable: Path) -> None:
    executable.unlink()


def is_not_runnable(executable: Path) -> None:
    executable.chmod(0o644)


def is_closed_to_the_worker(executable: Path) -> None:
    executable.chmod(0o700)
    executable.parent.chmod(0o700)
    shutil.chown(executable, 12345)
    shutil.chown(executable.parent, 12345)


def is_for_another_machine(executable: Path) -> None:
    # An ELF header for s390x, on which no test runs.
    header = b"\x7fELF\x02\x02\x01" + bytes(9) + b"\x00\x02\x00\x16" + bytes(44)
    executable.write_bytes(header)


def is_no_program(executable: Path) -> None:
    executable.write_bytes(b"\x00" * 4096)


def lacks_its_interpreter(executable: Path) -> None:
    executable.write_text("#!/nowhere/python\n")


def lost_its_folder(executable: Path) -> None:
    shutil.rmtree(executable.parent)


def lacks_a_library(executable: Path) -> None:
    executable.write_text(
        "#!/bin/sh\necho 'simc: error while loading shared libraries: libcurl.so.4' >&2\nexit 127\n"
    )


DAMAGES = [
    (is_not_runnable, "is not an executable file"),
    (is_closed_to_the_worker, ""),
    (is_for_another_machine, "Exec format error"),
    (is_no_program, "Exec format error"),
    (lacks_its_interpreter, "No such file"),
    (lacks_a_library, "libcurl.so.4"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGES, ids=[damage.__name__ for damage, _ in DAMAGES])
def test_a_job_runs_on_the_next_build_if_its_own_is_broken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None], reason: str
) -> None:
    broken, older = stand_in(tmp_path, "new"), stand_in(tmp_path, "old", days_old=3)
    damage(Path(broken.executable))
    with caplog.at_level(logging.ERROR):
        job = run()
        if job.status == "queued":
            attempt.execute(claim())
            job.refresh_from_db()
    broken.refresh_from_db()
    assert (job.status, job.build) == ("completed", older)
    assert broken.withdrawn_at is not None
    assert reason in broken.broken_reason
    assert broken.broken_reason.endswith(f" (on {socket.gethostname()})")
    assert f"build {broken.pk} ({broken}) is broken" in caplog.text


@pytest.mark.parametrize("damage", [is_gone, lost_its_folder])
def test_a_build_that_one_machine_lacks_stays_available(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None]
) -> None:
    absent, older = stand_in(tmp_path, "new"), stand_in(tmp_path, "old", days_old=3)
    damage(Path(absent.executable))
    job = run()
    assert (job.status, job.build) == ("completed", older)
    absent.refresh_from_db()
    assert (absent.withdrawn_at, absent.broken_reason) == (None, "")
    caplog.clear()
    assert run().build == older
    assert "did not start" not in caplog.text, "the next job does not try the missing build"


def test_a_machine_without_builds_leaves_their_branch_to_others(tmp_path: Path) -> None:
    build = stand_in(tmp_path, "new")
    is_gone(Path(build.executable))
    submitted, on_another_branch = make_job(), make_job(git_branch="another")
    attempt.execute(claim())
    job = Job.objects.get(pk=submitted.pk)
    assert (job.status, job.error_code, job.queue_deadline_at) == ("queued", None, submitted.queue_deadline_at)
    assert build_of(job) == build
    assert [claims.claim_work("w"), claims.claim_work("w")] == [on_another_branch, None]


@pytest.mark.parametrize("reason", ["", "w was killed"])
def test_machines_without_builds_use_up_no_attempts(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """But expired leases and killed workers do."""
    settings.MAX_ATTEMPTS = 2
    monkeypatch.setattr(claims.branches_without_builds, "seconds", 0.0)
    is_gone(Path(stand_in(tmp_path, "new").executable))
    job = make_job()
    for _ in range(3):
        attempt.execute(claim())
    for expected in ("queued", "failed"):
        lost = claim()
        Job.objects.filter(pk=job.pk).update(lease_expires_at=timezone.now() - timedelta(seconds=1))
        lost.refresh_from_db()
        assert sweep.recover(lost, reason=reason)
        job.refresh_from_db()
        assert job.status == expected
    assert (job.attempt, job.error_code) == (5, "execution_interrupted")


def test_a_missing_readable_path_breaks_a_build(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    broken, older = stand_in(tmp_path, "new"), stand_in(tmp_path, "old", days_old=3)
    Build.objects.filter(pk=broken.pk).update(readable_paths=[*broken.readable_paths, str(tmp_path / "data")])
    assert run().build == broken
    (tmp_path / "data").rmdir()
    assert run().build == older
    broken.refresh_from_db()
    assert f"{tmp_path}/data is missing" in broken.broken_reason


@pytest.mark.parametrize("variant", ["C", "R"])
def test_callers_see_the_build_that_ran(
    tmp_path: Path, api: Api, key: tuple[ApiKey, str], settings: Settings, variant: str
) -> None:
    settings.API_VARIANT = variant
    broken, older = stand_in(tmp_path, "new"), stand_in(tmp_path, "old", days_old=3)
    is_not_runnable(Path(broken.executable))
    job = run(key[0].client)
    assert api.get(f"jobs/{job.pk}").json()["build"]["id"] == str(older.pk)
    assert {build["id"] for build in api.get("builds").json()["builds"]} == {str(older.pk)}
    is_not_runnable(Path(older.executable))
    failed = api.get(f"jobs/{run(key[0].client).pk}").json()
    assert (failed["errorCode"], failed["build"]) == ("build_unavailable", None)
    assert failed["runtime"]["creditsConsumed"] == 0
    page = browser_of(make_member(job.account)).get(f"/dashboard/{job.account}/jobs/{failed['id']}")
    assert "No build is available for the job&#x27;s channel and branch" in page.content.decode()


def test_a_broken_pin_gives_way_to_the_channels_build(tmp_path: Path) -> None:
    newest, pinned = stand_in(tmp_path, "new"), stand_in(tmp_path, "old", days_old=3)
    is_not_runnable(Path(pinned.executable))
    job = run(pinned_build=pinned)
    assert (job.status, job.build) == ("completed", newest)


def test_a_job_fails_with_a_reason_without_another_build(tmp_path: Path) -> None:
    broken = stand_in(tmp_path, "new")
    is_not_runnable(Path(broken.executable))
    job = run()
    assert (job.status, job.error_code, job.credits_consumed) == ("failed", "build_unavailable", 0)
    assert not Run.objects.exists()
    assert build_of(job) is None


def test_a_build_that_breaks_between_stages_requeues_its_job(tmp_path: Path) -> None:
    """Nothing of the first attempt is stored, and the next attempt runs on the next build."""
    sets = [f'profileset."set {number}"+=level={number}' for number in range(1, 41)]
    report = """
players = [{"name": "A", "collected_data": {"dps": {"mean": 5, "mean_std_dev": 1}}}]
results = [{"name": f"set {n}", "mean": 5 + n, "mean_stddev": 1} for n in range(1, 41)]
sim = {"options": {"iterations": 10}, "players": players, "profilesets": {"results": results}}
open("report.json", "w").write(json.dumps({"version": "1", "report_version": "2.0.0", "sim": sim}))
"""
    broken, older = stand_in(tmp_path, "new", report), stand_in(tmp_path, "old", report, days_old=3)
    run_one = stages.Stages._run_stage
    with pytest.MonkeyPatch.context() as patch:

        def run_stage(self: stages.Stages, stage: Stage) -> Outcome:
            if stage.number == 2 and self.build == broken:
                is_not_runnable(Path(broken.executable))
            return run_one(self, stage)

        patch.setattr(stages.Stages, "_run_stage", run_stage)
        job = run(text='mage="A"\nlevel=80\n' + "\n".join(sets) + "\n", multi_stage=True)
        assert (job.status, job.attempt, job.retried) == ("queued", 1, True)
        attempt.execute(claim())
    job.refresh_from_db()
    assert (job.status, job.build) == ("completed", older)
    assert set(Run.objects.filter(job=job, attempt=2).values_list("build", flat=True)) == {older.pk}


def test_a_simulator_exiting_with_127_does_not_break_its_build(tmp_path: Path) -> None:
    build = stand_in(tmp_path, "new", f"{PRINTS_ITS_VERSION}\nsys.exit(127)")
    job = run()
    assert (job.status, job.error_code) == ("failed", "execution_failed")
    assert build_of(job) == build


@pytest.mark.parametrize("failure", [LauncherLost, NotStarted])
def test_a_lost_check_does_not_break_a_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    """The simulator exits with 127, and the sandbox of the check that follows fails."""
    build = stand_in(tmp_path, "new", f"{PRINTS_ITS_VERSION}\nsys.exit(127)")
    start, starts = ConfinedProcess.start, iter(range(9))

    def fails_at_the_second(self: ConfinedProcess) -> None:
        if next(starts):
            raise failure("the launcher ended")
        start(self)

    monkeypatch.setattr(ConfinedProcess, "start", fails_at_the_second)
    monkeypatch.setattr(attempt, "LOST_PAUSE_SECONDS", 0.0)
    assert run().status == "running", "the sweep retries the job"
    build.refresh_from_db()
    assert (build.withdrawn_at, build.broken_reason) == (None, "")


def test_a_failed_sandbox_does_not_break_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = stand_in(tmp_path, "new")

    def fails(*_: object, **__: object) -> None:
        raise NotStarted("the sandbox lacks: own identity")

    monkeypatch.setattr(ConfinedProcess, "start", fails)
    job = run()
    assert (job.status, job.error_code) == ("queued", None)
    assert JobEvent.objects.latest("pk").reason.endswith("the sandbox does not start")
    build.refresh_from_db()
    assert (build.withdrawn_at, build.broken_reason) == (None, "")


def test_only_a_job_that_ran_ends_the_pause_of_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tested = Machine()
    monkeypatch.setattr(attempt, "machine", tested)
    with suppress(RunLost), tested.counts_failures():
        raise RunLost
    assert run().error_code == "build_unavailable"
    assert tested.pause_seconds > 0
    stand_in(tmp_path, "new")
    assert run().status == "completed"
    assert tested.pause_seconds == 0


def test_a_build_replaced_meanwhile_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = stand_in(tmp_path, "new")
    executable, moved_path = Path(build.executable), tmp_path / "aside"
    executable.rename(moved_path)
    start_once = SimulatorRun._start

    def replaced_afterwards(*args: object, **named: object) -> object:
        try:
            return start_once(*args, **named)  # type: ignore[arg-type]
        finally:
            if moved_path.exists():
                moved_path.rename(executable)

    monkeypatch.setattr(SimulatorRun, "_start", replaced_afterwards)
    job = run()
    assert (job.status, job.build) == ("completed", build)


def test_two_workers_mark_a_broken_build_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broken, older = stand_in(tmp_path, "new"), stand_in(tmp_path, "old", days_old=3)
    is_not_runnable(Path(broken.executable))
    for _ in range(2):
        make_job()
    jobs = [claim(), claim()]
    with caplog.at_level(logging.ERROR):
        at_once(2, lambda: attempt.execute(jobs.pop()))
    assert set(Job.objects.values_list("status", "build")) == {("completed", older.pk)}
    assert caplog.text.count("is broken") == 1


def test_a_reregistered_build_is_not_marked_for_its_old_file(tmp_path: Path) -> None:
    build = stand_in(tmp_path, "new")
    Build.objects.filter(pk=build.pk).update(executable="/elsewhere/simc")
    assert not registry.mark_broken(build, "gone")
    assert build_of(make_job()) == build


def test_a_withdrawn_build_is_not_marked_as_broken(tmp_path: Path) -> None:
    build = stand_in(tmp_path, "new")
    registry.withdraw(Build.objects.filter(pk=build.pk))
    assert not registry.mark_broken(build, "gone")
    build.refresh_from_db()
    assert build.broken_reason == ""


def restore(operator: HttpClient, build: Build) -> str:
    """Restore a build in the admin; return the resulting page."""
    act(operator, "/admin/jobs/build/", "restore", [build.pk])
    build.refresh_from_db()
    return operator.get("/admin/jobs/build/").content.decode()


def test_operators_see_why_a_build_is_broken(tmp_path: Path, operator: HttpClient) -> None:
    build = stand_in(tmp_path, "new")
    registry.withdraw(Build.objects.filter(pk=stand_in(tmp_path, "old").pk))
    registry.mark_broken(build, "worker-1: <gone>")
    shown = operator.get("/admin/jobs/build/?availability=broken").content.decode()
    assert "worker-1: &lt;gone&gt;" in shown
    assert str(build.pk) in shown
    assert shown.count('name="_selected_action"') == 1
    withdrawn = operator.get("/admin/jobs/build/?availability=withdrawn").content.decode()
    assert "gone" not in withdrawn
    assert "worker-1: &lt;gone&gt;" in operator.get(f"/admin/jobs/build/{build.pk}/change/").content.decode()


def test_restoring_a_broken_build_probes_it_first(tmp_path: Path, operator: HttpClient) -> None:
    build = stand_in(tmp_path, "new", PRINTS_ITS_VERSION)
    moved_path = tmp_path / "aside"
    Path(build.executable).rename(moved_path)
    registry.mark_broken(build, "worker-1: gone")
    assert "No such file" in restore(operator, build)
    assert build.broken_reason == "worker-1: gone"
    moved_path.rename(build.executable)
    assert "1 build restored" in restore(operator, build)
    assert (build.withdrawn_at, build.broken_reason) == (None, "")


def test_a_withdrawn_build_without_files_is_not_restored(tmp_path: Path, operator: HttpClient) -> None:
    build = stand_in(tmp_path, "new")
    registry.withdraw(Build.objects.all())
    lost_its_folder(Path(build.executable))
    assert "No such file" in restore(operator, build)
    assert build.withdrawn_at is not None


def test_withdrawing_a_broken_build_clears_its_state(tmp_path: Path, operator: HttpClient) -> None:
    build = stand_in(tmp_path, "new")
    registry.mark_broken(build, "worker-1: gone")
    build.refresh_from_db()
    preview = choose(operator, "/admin/jobs/build/", "withdraw", [build.pk])
    assert "It stays withdrawn, but is no longer reported as broken." in preview.content.decode()
    assert act(operator, "/admin/jobs/build/", "withdraw", [build.pk]) == ["1 build withdrawn."]
    cleared = Build.objects.get(pk=build.pk)
    assert (cleared.withdrawn_at, cleared.broken_reason) == (build.withdrawn_at, "")


def test_a_build_of_another_version_is_not_restored(tmp_path: Path, operator: HttpClient) -> None:
    build = stand_in(tmp_path, "new", PRINTS_ITS_VERSION.replace("1120-01", "1210-01"))
    registry.mark_broken(build, "worker-1: gone")
    assert "registered as 1120-01 and is now 1210-01" in restore(operator, build)
    assert build.withdrawn_at is not None


def test_registering_a_broken_build_again_restores_it(tmp_path: Path) -> None:
    build = stand_in(tmp_path, "new", PRINTS_ITS_VERSION)
    registry.mark_broken(build, "worker-1: gone")
    origin = build_registration.Origin(git_branch="midnight", commit=build.commit, created_at=timezone.now())
    readable = [Path(path) for path in build.readable_paths]
    again = build_registration.register(Path(build.executable), origin, readable=readable)
    assert (again.pk, again.withdrawn_at, again.broken_reason) == (build.pk, None, "")
    registry.withdraw(Build.objects.all())
    assert build_registration.register(Path(build.executable), origin, readable=readable).withdrawn_at is not None
