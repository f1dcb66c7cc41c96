"""The console's page of lanes and machines, on which operators pause and drain them."""

import io
from typing import NoReturn

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext
from redis.exceptions import RedisError

from clients.audit import COMMAND_LINE
from jobs.enums import Priority
from jobs.models import Closure
from jobs.operations import doctor
from jobs.operations.metrics import QueueCollector
from jobs.queue import closures, sweep
from simservice import worker_heartbeats
from simservice.operations.doctor import Level
from tests.dashboard.browsing import text_of
from tests.dashboard.console.conftest import Staff
from tests.factories import make_job, make_member, make_running_job

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]
CAPACITY = "/admin/console/capacity/"
LANE, MACHINE = f"{CAPACITY}lanes/standard/", f"{CAPACITY}machines/sim-1/"


@pytest.fixture(autouse=True)
def _live_worker() -> None:
    worker_heartbeats.report("sim@sim-1-77", slots=4)


@pytest.mark.parametrize("address", [LANE, MACHINE])
def test_only_operators_change_lanes_and_machines(staff: Staff, client: Browser, address: str) -> None:
    client.force_login(make_member().user)
    for browser, status in ((client, 302), (staff("view_job"), 403), (staff("view_closure"), 403)):
        assert browser.get(address).status_code == browser.post(address).status_code == status
    assert not Closure.objects.exists()
    viewer = staff("view_closure")
    assert address not in viewer.get(CAPACITY).content.decode()
    assert viewer.post(CAPACITY).status_code == 405
    assert staff("view_job").get(CAPACITY).status_code == 403


def test_a_lane_is_paused_and_resumed(operator: Browser) -> None:
    make_running_job()
    assert "Its claimed jobs (1) continue." in text_of(operator.get(LANE))
    assert not Closure.objects.exists()
    page = operator.post(LANE, {"begin": "", "reason": "<b>"}, follow=True)
    assert "The standard lane is paused." in text_of(page)
    assert "&lt;b&gt;" in page.content.decode()
    row = closures.current().get()
    assert (row.lane, row.reason, row.began_by.startswith("Operator ")) == (Priority.STANDARD, "<b>", True)
    assert "claim its jobs again" in text_of(operator.get(LANE))
    # The form of another browser was opened before.
    assert "was already paused" in text_of(operator.post(LANE, {"begin": ""}, follow=True))
    page = operator.post(LANE, {"end": ""}, follow=True)
    assert "The standard lane is no longer paused." in text_of(page)
    assert "Lane standard" in text_of(page), "the history lists it"
    assert not closures.current().exists()
    # Its number is 0.
    assert "The high lane is paused." in text_of(
        operator.post(f"{CAPACITY}lanes/high/", {"begin": ""}, follow=True)
    )


def test_a_machine_is_drained_and_resumed(operator: Browser) -> None:
    assert "What it runs (0) ends within" in text_of(operator.get(MACHINE))
    assert "sim-1 is drained." in text_of(operator.post(MACHINE, {"begin": ""}, follow=True))
    assert closures.current().get().host == "sim-1"
    assert "sim-1 is no longer drained." in text_of(operator.post(MACHINE, {"end": ""}, follow=True))
    assert not closures.current().exists()


@pytest.mark.parametrize("path", ["lanes/urgent/", "machines/unknown/", "machines/%3Cb%3E/", "lanes/0/"])
def test_unknown_lanes_and_machines_do_not_exist(operator: Browser, path: str) -> None:
    assert operator.get(CAPACITY + path).status_code == operator.post(CAPACITY + path).status_code == 404
    assert not Closure.objects.exists()


def test_workers_are_unknown_while_redis_does_not_respond(
    operator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    closures.begin(host="sim-1", by=COMMAND_LINE)
    make_running_job()
    monkeypatch.setattr(worker_heartbeats, "simulation_workers", unreachable)
    text = text_of(operator.get(CAPACITY))
    assert "worker-1 Unknown, because Redis does not respond" in text
    assert "No live workers" not in text
    assert run("machines").splitlines()[1] == "worker-1  workers ?  slots ?  running 1"
    assert "No live worker" not in run("machines", "drain", "sim-1")


def unreachable() -> NoReturn:
    raise RedisError


def test_the_page_takes_the_same_queries_however_many_machines_there_are(operator: Browser) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            operator.get(CAPACITY)
        return len(captured)

    queries()
    before = queries()
    for number in range(5):
        worker_heartbeats.report(f"sim@sim-{number}-1", slots=2)
        closures.begin(host=f"sim-{number}", by=COMMAND_LINE)
        make_running_job()
    assert queries() == before


def test_operators_and_owners_see_that_a_lane_is_paused(operator: Browser) -> None:
    member, job = make_member(), make_job()
    closures.begin(lane=Priority(job.priority), by=COMMAND_LINE)
    sweep.sweep()
    assert "paused by the operator" in text_of(operator.get("/admin/overview/"))
    share = text_of(Browser().get(f"/share/{job.share_token}"))
    assert "The operator has paused standard-priority jobs." in share
    browser = Browser()
    browser.force_login(member.user)
    assert "paused standard-priority jobs" in text_of(browser.get(f"/dashboard/{member.account}/"))
    closures.begin(lane=Priority.HIGH, by=COMMAND_LINE)
    sweep.sweep()
    assert "high-priority and standard-priority jobs" in text_of(browser.get(f"/dashboard/{member.account}/"))


def run(*arguments: str) -> str:
    """Run a command and return what it prints."""
    out = io.StringIO()
    call_command(*arguments, stdout=out, stderr=out)
    return out.getvalue()


def test_lanes_are_paused_by_a_command() -> None:
    assert run("lanes", "pause", "high", "--reason", "upgrade") == "Lane high is paused.\n"
    assert run("lanes", "pause", "high") == "Lane high was already paused.\n"
    assert "by Operator (command line): upgrade" in run("lanes").splitlines()[0]
    assert run("lanes", "resume", "high") == "Lane high is no longer paused.\n"
    assert run("lanes", "resume", "high") == "Lane high was not paused.\n"
    assert "paused" not in run("lanes")


def test_machines_are_drained_by_a_command() -> None:
    assert run("machines") == "sim-1  workers 1  slots 4  running 0\n"
    assert run("machines", "drain", "sim-1") == "Machine sim-1 is drained.\n"
    assert "drained since" in run("machines")
    assert run("machines", "resume", "sim-1") == "Machine sim-1 is no longer drained.\n"
    assert "No live worker runs on sim-2. Machines with live workers: sim-1." in run("machines", "drain", "sim-2")
    with pytest.raises(CommandError, match="not a host name"):
        run("machines", "drain", "sim 1")


def test_doctor_and_metrics_say_what_is_paused_and_drained() -> None:
    closures.begin(lane=Priority.HIGH, by=COMMAND_LINE)
    closures.begin(host="sim-1", by=COMMAND_LINE)
    worker_heartbeats.report("sim@sim-1-77", slots=0, problem="an operator drained this machine")
    found = list(doctor.check_workers())
    assert {finding.level for finding in found} == {Level.OK, Level.WARNING}
    assert [finding.advice.partition("run ")[2] for finding in found if finding.level is Level.WARNING] == [
        "`python manage.py lanes resume high`.",
        "`python manage.py machines resume sim-1`.",
    ]
    samples = {(s.name, s.labels.get("lane")): s.value for m in QueueCollector().collect() for s in m.samples}
    assert samples["simservice_machines_drained", None] == 1
    assert [samples["simservice_lane_paused", lane.api_name] for lane in Priority] == [1, 0, 0]
