"""Tests that need the whole stack: real processes, servers and HTTP."""

import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import psutil
import psycopg
import pytest
import requests

from tests.stack import LONG, QUICK, Stack, below

# All tests share one stack, so they run in one test process.
pytestmark = [pytest.mark.xdist_group("stack"), pytest.mark.timeout(240)]


def test_a_job_goes_from_submission_to_share_page(stack: Stack) -> None:
    job_id = stack.submit(artifacts={"html": True}, metadata={"from": "a test"})
    job = stack.wait_for_end(job_id)
    assert (job["status"], job["metadata"]) == ("completed", {"from": "a test"})
    result = stack.call("GET", f"jobs/{job_id}/result")["result"]
    assert result["summary"]["mainActor"]["mean"] > 0
    files = {artifact["kind"]: requests.get(artifact["url"], timeout=5) for artifact in result["artifacts"]}
    assert {kind: response.status_code for kind, response in files.items()} == dict.fromkeys(files, 200)
    assert files["json_report"].json()["sim"]["players"][0]["name"] == "Quick"
    assert "Quick" in requests.get(job["links"]["share"], timeout=5).text


def test_other_users_can_read_no_output(stack: Stack) -> None:
    stack.wait_for_end(stack.submit(artifacts={"html": True}))
    files = [path for path in (stack.data / "files" / "artifacts").rglob("*") if path.is_file()]
    assert files
    assert {path.stat().st_mode & 0o077 for path in files} == {0}


def test_a_killed_worker_loses_nothing(stack: Stack) -> None:
    job_id = stack.submit(LONG, runtime={"maxCredits": 32 * 4})
    stack.wait(job_id, lambda job: job["status"] == "running", seconds=20)
    worker = stack.worker()
    simulators = below(worker, "minisim")
    assert simulators
    worker.kill()
    assert not psutil.wait_procs(simulators, timeout=20)[1]
    stack.wait(job_id, lambda job: bool(job["retried"]) and job["status"] == "running", seconds=60)
    job = stack.wait_for_end(job_id)
    assert (job["status"], job["errorCode"], job["retried"]) == ("timed_out", "max_credits_reached", True)
    assert job["runtime"]["creditsConsumed"] == 32 * 4


def test_an_emptied_redis_loses_nothing(stack: Stack) -> None:
    # The lanes are empty, so each job depends on a message that the sweep sends again.
    stack.worker().kill()
    waiting = [stack.submit() for _ in range(10)]
    stack.redis().flushall()
    statuses = [stack.wait_for_end(job_id)["status"] for job_id in waiting]
    assert statuses == ["completed"] * 10


def test_jobs_start_by_priority_and_then_by_submission(stack: Stack) -> None:
    blocker = stack.submit(LONG)
    stack.pause_when_running(blocker)
    lanes = random.Random(3).choices(["high", "standard", "background"], k=18)  # noqa: S311
    submitted = [(lane, stack.submit(priority=lane)) for lane in lanes]
    assert stack.call("POST", f"jobs/{blocker}/cancel")["status"] == "cancel_requested"
    jobs = [stack.wait_for_end(job_id, seconds=120) for _, job_id in submitted]
    started = [job["id"] for job in sorted(jobs, key=lambda job: job["startedAt"])]
    order = {"high": 0, "standard": 1, "background": 2}
    expected = [job_id for _, job_id in sorted(submitted, key=lambda pair: (order[pair[0]], pair[1]))]
    assert started == expected


def test_unknown_and_malformed_requests_leave_nothing(stack: Stack) -> None:
    url = f"{stack.ready['url']}/v1/sim/jobs"
    headers = {"Authorization": f"Bearer {stack.ready['apiKey']}", "Content-Type": "application/json"}
    responses = [
        requests.post(url, data=body, headers=headers, timeout=5) for body in (b"{", b'{"x": 1}', b"\x00", b"[]")
    ]
    assert [response.status_code for response in responses] == [400] * 4


BURST = """
    WITH burst AS (SELECT id FROM jobs_job WHERE metadata::jsonb->>'burst' = 'yes')
    SELECT (SELECT count(*) FROM burst),
        (SELECT count(*) FROM billing_hold WHERE job_id IN (SELECT id FROM burst)),
        (SELECT count(*) FROM billing_hold WHERE job_id NOT IN (SELECT id FROM jobs_job))
"""


def test_fifty_identical_concurrent_submissions_create_one_job(stack: Stack) -> None:
    headers = {"Authorization": f"Bearer {stack.ready['apiKey']}", "Idempotency-Key": "fifty at once"}
    body = {"build": {"channel": "latest"}, "profile": {"text": QUICK}, "metadata": {"burst": "yes"}}
    start = threading.Barrier(50)

    def submit(_: int) -> requests.Response:
        start.wait(30)
        return requests.post(f"{stack.ready['url']}/v1/sim/jobs", json=body, headers=headers, timeout=60)

    with ThreadPoolExecutor(50) as pool:
        responses = list(pool.map(submit, range(50)))
    assert [response.status_code for response in responses] == [200] * 50
    assert len({response.content for response in responses}) == 1
    assert sum("X-Idempotent-Replay" not in response.headers for response in responses) == 1
    with psycopg.connect(stack.ready["databaseUrl"]) as database:
        assert database.execute(BURST).fetchone() == (1, 1, 0)
    assert stack.wait_for_end(responses[0].json()["id"])["status"] == "completed"


def test_the_login_of_the_ready_line_opens_dashboard_and_admin(stack: Stack) -> None:
    url, browser = stack.ready["url"], requests.Session()
    page = browser.get(f"{url}/dashboard/", timeout=10)
    fields = {
        "csrfmiddlewaretoken": re.findall('name="csrfmiddlewaretoken" value="([^"]+)"', page.text)[0],
        "login": stack.ready["user"],
        "password": stack.ready["password"],
    }
    response = browser.post(page.url, fields, headers={"Referer": page.url}, timeout=10)
    assert (response.url, response.status_code) == (f"{url}/dashboard/demo/", 200)
    assert browser.get(f"{url}/admin/jobs/job/", timeout=10).status_code == 200
