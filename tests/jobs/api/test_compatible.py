"""Compatible addresses for community scripts (docs/how-to/use-existing-tools.md)."""

import importlib
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client as HttpClient
from django.test.utils import CaptureQueriesContext
from django.urls import clear_url_caches, resolve
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

import jobs.api.urls
from billing import ledger
from billing.models import Hold, Plan
from clients.models import ApiKey
from jobs.api import compatible
from jobs.enums import Channel, Status
from jobs.live.progress import Progress, Publisher
from jobs.models import Job
from jobs.queue import forecast
from tests.factories import PROFILE, make_job, make_key, make_member, make_running_job, unknown_key
from tests.jobs.api.bodies import only_in

SIM: dict[str, Any] = {"type": "advanced", "advancedInput": PROFILE}

pytestmark = [pytest.mark.django_db, only_in("C")]


@pytest.fixture
def secret(key: tuple[ApiKey, str]) -> str:
    return key[1]


def post(body: Any, secret: str | None = None, *, path: str = "/sim", **headers: str) -> Any:
    """Submit like a script, with the key in the header if there is one."""
    sent = headers if secret is None else {"Authorization": f"Bearer {secret}", **headers}
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    return HttpClient().generic("POST", path, text, content_type="application/json", headers=sent)


def poll(job_id: str, secret: str | None = None) -> Any:
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    return HttpClient().get(f"/api/job/{job_id}", headers=headers)


def refused(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def issues(response: Any) -> dict[str, str]:
    """Return the messages of an invalid request by field."""
    assert refused(response) == (400, "validation_failed")
    return {issue["path"]: issue["message"] for issue in response.json()["meta"]["issues"]}


@pytest.mark.parametrize("place", ["header", "body"])
def test_a_script_submits_and_gets_two_ids(place: str, secret: str) -> None:
    response = post(SIM, secret) if place == "header" else post(SIM | {"apiKey": secret})
    job = Job.objects.get()
    assert (response.status_code, response.json()) == (200, {"simId": job.share_token, "jobId": str(job.pk)})
    assert (job.status, job.channel, job.profile.text) == (Status.QUEUED, Channel.WEEKLY, PROFILE)
    assert response.headers["X-Active-Jobs"] == "1"
    assert "X-RateLimit-Remaining" in response.headers


@pytest.mark.parametrize("channel", Channel.values)
def test_versions_are_channels(channel: str, secret: str) -> None:
    assert post(SIM | {"simcVersion": channel}, secret).status_code == 200
    assert Job.objects.get().channel == channel


def test_both_types_run_the_text_of_either_field(secret: str) -> None:
    for kind in compatible.TYPES:
        for name, other in (("text", "advancedInput"), ("advancedInput", "text")):
            assert post({"type": kind, name: PROFILE, other: ""}, secret).status_code == 200
    assert {job.profile.text for job in Job.objects.all()} == {PROFILE}


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({"iterations": 500}, "iterations=500\n"),
        ({"iterations": 500.0, "smartStages": []}, "iterations=500\n"),
        ({"iterations": "smart"}, None),
        ({"iterations": None}, None),
        ({"smartStages": [1.0, 0.3, 0.1]}, "target_error=0.1\n"),
        ({"iterations": 9, "smartStages": [0.5]}, "iterations=9\ntarget_error=0.5\n"),
    ],
)
def test_options_of_the_request_become_last_lines(fields: dict[str, Any], lines: str | None, secret: str) -> None:
    assert post(SIM | fields, secret).status_code == 200
    job = Job.objects.get()
    assert job.profile.text == (PROFILE if lines is None else f"{PROFILE}\n{lines}")
    assert job.multi_stage is bool(fields.get("smartStages"))


def test_the_report_name_is_the_title(secret: str) -> None:
    assert post(SIM | {"reportName": "Rings of the week"}, secret).status_code == 200
    assert Job.objects.get().title == "Rings of the week"


def test_fields_without_effect_are_ignored(secret: str) -> None:
    form = {"email": "a@example.com", "sendEmail": True, "baseActorName": "Me", "frontendHost": "x"}
    assert (
        post(SIM | form | {"gearsets": [], "simcItems": {}, "apl": "", "relics": None}, secret).status_code == 200
    )


@pytest.mark.parametrize("kind", ["droptimizer", "gear", "stats", "topGear", "", 1, True, {}, ["advanced"]])
def test_other_types_are_refused_with_the_supported_ones(kind: Any, secret: str) -> None:
    fields = {"type": kind, "droptimizer": {"instance": 1}}
    assert issues(post(SIM | fields, secret)) == {"type": "Must be one of: quick, advanced."}


def test_a_type_is_required(secret: str) -> None:
    assert issues(post({"text": PROFILE}, secret)) == {"type": "Required. Add a value."}
    assert issues(post({"text": PROFILE, "type": None}, secret)) == {"type": "Must not be null."}


def test_options_outside_the_profile_are_refused(secret: str) -> None:
    fields = {"fightStyle": "Patchwerk", "ptr": False, "enemyCount": 0, "armory": {"name": "Me"}}
    assert issues(post(SIM | fields, secret)) == dict.fromkeys(fields, "Unknown field.")


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"advancedInput": 5}, "advancedInput"),
        ({"advancedInput": "a\0b"}, "advancedInput"),
        ({"advancedInput": "\ud800"}, "advancedInput"),
        ({"advancedInput": " \n"}, "advancedInput"),
        ({"text": PROFILE}, "advancedInput"),
        ({"simcVersion": "bfa-dev"}, "simcVersion"),
        ({"iterations": 0}, "iterations"),
        ({"iterations": "500\nhtml=/etc/passwd"}, "iterations"),
        ({"iterations": True}, "iterations"),
        ({"smartStages": ["nan"]}, "smartStages[0]"),
        ({"smartStages": [0.1] * 11}, "smartStages"),
        ({"smartStages": "0.1"}, "smartStages"),
        ({"reportName": "x" * 501}, "reportName"),
        ({"reportName": "\0"}, "reportName"),
        ({"apiKey": 5}, "apiKey"),
        ({"x" * 5000: 1}, "x" * 200),
        ({"\ud800": 1}, "\\ud800"),
    ],
)
def test_hostile_fields_are_refused(fields: dict[str, Any], path: str, secret: str) -> None:
    assert list(issues(post(SIM | fields, secret))) == [path]
    assert not Job.objects.exists()


@pytest.mark.parametrize("body", ["{", "[]", "5", "null", '{"type":"advanced","type":"quick"}', b"\xff", ""])
def test_hostile_bodies_are_refused_with_and_without_a_key(body: str | bytes, secret: str) -> None:
    assert post(body, secret).status_code == 400
    assert post(body).status_code in (400, 401)


def test_unknown_parameters_and_idempotency_keys_are_refused(secret: str) -> None:
    assert list(issues(post(SIM, secret, path="/sim?iterations=5"))) == ["iterations"]
    assert list(issues(post(SIM, secret, **{"Idempotency-Key": "a"}))) == ["idempotency-key"]


def test_the_profile_is_checked_like_every_other_one(secret: str) -> None:
    assert refused(post(SIM | {"advancedInput": f"{PROFILE}\nhtml=/tmp/x"}, secret)) == (
        422,
        "input_sanitized_rejected",
    )
    large = f"{PROFILE}#{'x' * (2 << 20)}"
    assert refused(post(SIM | {"advancedInput": large}, secret)) == (413, "profile_too_large")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (None, "invalid_token"),
        ({"revoked_at": -1}, "revoked_token"),
        ({"expires_at": -1}, "expired_token"),
    ],
)
def test_a_key_in_the_body_is_checked_like_one_in_the_header(
    change: dict[str, int] | None, code: str, secret: str
) -> None:
    times = {name: timezone.now() + timedelta(seconds=seconds) for name, seconds in (change or {}).items()}
    ApiKey.objects.update(**times) if times else None
    sent = secret if change else unknown_key()
    for response in (post(SIM | {"apiKey": sent}), post(SIM, sent)):
        assert refused(response) == (401, code)
        assert response.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (SIM, "missing_token"),
        (SIM | {"apiKey": ""}, "missing_token"),
        (SIM | {"apiKey": {"a": 1}}, "missing_token"),
        (SIM | {"apiKey": "x" * 100_000}, "invalid_token"),
        (SIM | {"apiKey": "\ud800"}, "invalid_token"),
    ],
)
def test_a_malformed_key_in_the_body_needs_no_query(
    body: Any, code: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        assert refused(post(body)) == (401, code)


def test_a_malformed_header_is_not_replaced_by_the_body(secret: str) -> None:
    assert refused(post(SIM | {"apiKey": secret}, "sk_x")) == (401, "invalid_token")


def test_a_key_of_a_viewer_cannot_submit(key: tuple[ApiKey, str], secret: str) -> None:
    ApiKey.objects.update(created_by=make_member(key[0].client.account, role="viewer").user)
    assert refused(post(SIM | {"apiKey": secret})) == refused(post(SIM, secret)) == (403, "read_only_key")


def test_strangers_send_small_bodies(secret: str) -> None:
    body = json.dumps(SIM | {"apiKey": secret}) + " " * compatible.MAX_BODY_WITH_KEY
    assert refused(post(body)) == (413, "request_too_large")
    assert post(body, secret).status_code == 200


def test_strangers_are_limited_by_address(settings: Settings) -> None:
    settings.PUBLIC_REQUESTS_PER_MINUTE = 2
    assert [post(SIM).status_code for _ in range(3)] == [401, 401, 429]
    assert refused(poll("x" * 22)) == (429, "rate_limit_exceeded")


def test_limits_are_those_of_every_submission(secret: str) -> None:
    Plan.objects.update(max_active_jobs=2, submissions_per_minute=3)
    outcomes = [post(SIM | {"apiKey": secret}) for _ in range(4)]
    assert [response.status_code for response in outcomes] == [200, 200, 429, 429]
    assert [response.json()["code"] for response in outcomes[2:]] == [
        "max_active_jobs_exceeded",
        "rate_limit_exceeded",
    ]
    assert all(int(response.headers["Retry-After"]) > 0 for response in outcomes[2:])


def test_credits_are_reserved_and_missing_ones_refuse_the_job(key: tuple[ApiKey, str]) -> None:
    account = key[0].client.account
    assert post(SIM, key[1]).status_code == 200
    assert Hold.objects.filter(account=account).exists()
    ledger.correct(account, -ledger.available(account), reason="for the test")
    assert refused(post(SIM, key[1])) == (402, "insufficient_credits_liability")
    assert Job.objects.count() == 1


def test_a_key_in_the_body_costs_no_query_more(secret: str) -> None:
    post(SIM, secret)
    with CaptureQueriesContext(connection) as with_header:
        post(SIM, secret)
    with CaptureQueriesContext(connection) as with_body:
        post(SIM | {"apiKey": secret})
    assert len(with_body) == len(with_header)


def test_maintenance_covers_the_addresses(settings: Settings, secret: str) -> None:
    settings.MAINTENANCE_SECONDS = 60
    assert refused(post(SIM, secret)) == refused(poll("x" * 22)) == (503, "api_maintenance")


# Polling


def test_a_waiting_job_has_a_place_in_the_queue() -> None:
    first, second = make_job(), make_job()
    unknown = {"position": None, "total": None}
    assert poll(first.share_token).json()["queue"] == unknown
    forecast._store(forecast.take(slots=1))
    places = [poll(job.share_token).json() for job in (first, second)]
    assert [place["queue"] for place in places] == [{"position": 1, "total": 2}, {"position": 2, "total": 2}]
    assert [place["job"]["state"] for place in places] == ["inactive"] * 2


def test_a_running_job_shows_its_progress() -> None:
    job = make_running_job()
    Publisher(job).publish(Progress(percent=42.5, stage=None))
    assert poll(job.share_token).json() == {
        "job": {"id": str(job.pk), "state": "active", "progress": 42.5},
        "queue": {"position": 0, "total": 0},
        "retriesRemaining": 0,
    }


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (Status.COMPLETED, "complete"),
        (Status.FAILED, "failed"),
        (Status.CANCELLED, "failed"),
        (Status.TIMED_OUT, "failed"),
    ],
)
def test_an_ended_job_is_complete_or_failed(status: Status, state: str) -> None:
    answer = compatible.job_answer(Job(pk=1, status=status))
    assert (answer["job"]["state"], answer["queue"]["position"]) == (state, 0)


def test_a_link_needs_no_key_and_an_id_that_of_its_account(key: tuple[ApiKey, str]) -> None:
    job, (_, stranger) = make_job(key[0].client), make_key()
    mine = poll(str(job.pk), key[1])
    assert mine.json() == poll(job.share_token).json()
    assert mine.headers["X-Active-Jobs"] == "1"
    assert refused(poll(str(job.pk))) == (401, "missing_token")
    assert refused(poll(str(job.pk), stranger)) == (404, "not_found")


@pytest.mark.parametrize("job_id", ["x" * 22, "9" * 18, "9" * 19, "-1", "%00", "%0a", "\u0661" * 18, "1" * 400])
def test_an_unknown_job_is_not_found_in_the_words_that_scripts_read(job_id: str, secret: str) -> None:
    response = poll(job_id, secret)
    assert refused(response) == (404, "not_found")
    assert response.json()["message"] == "No job found"


def test_a_job_after_its_retention_is_not_found() -> None:
    job = make_job()
    Job.objects.update(cleared_at=timezone.now())
    assert refused(poll(job.share_token)) == (404, "not_found")


def test_polls_make_one_query(key: tuple[ApiKey, str], django_assert_num_queries: DjangoAssertNumQueries) -> None:
    job = make_running_job(client=key[0].client)
    poll(str(job.pk), key[1])
    with django_assert_num_queries(1):
        assert poll(job.share_token).status_code == 200
    with django_assert_num_queries(2):
        assert poll(str(job.pk), key[1]).status_code == 200


def test_browsers_of_other_sites_may_poll_a_link_but_not_an_id(secret: str) -> None:
    allowed = "Access-Control-Allow-Origin"
    assert poll(make_job().share_token).headers[allowed] == poll("x" * 22).headers[allowed] == "*"
    assert allowed not in poll("9" * 18, secret).headers
    assert allowed not in post(SIM, secret).headers


# Reports


@pytest.mark.parametrize(
    ("path", "target"),
    [
        *((f"/reports/{{}}/{name}", f"/share/{{}}/{target}") for name, target in compatible.FILES.items()),
        ("/simbot/report/{}", "/share/{}"),
        ("/simbot/report/{}/data.json", "/share/{}/data.json"),
    ],
)
def test_reports_are_those_of_the_share_link(
    path: str, target: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    token = "q7VvT0m1xk2bY9d4sLwJ3-"
    with django_assert_num_queries(0):
        response = HttpClient().get(f"{path.format(token)}?cachebust=1")
    assert (response.status_code, response.headers["Location"]) == (302, target.format(token))
    assert resolve(response.headers["Location"])
    assert response.headers["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize(
    "path",
    [
        "/reports/x/data.json",
        f"/reports/{'x' * 22}/data.exe",
        f"/reports/{'x' * 23}/data.json",
        "/reports/",
    ],
)
def test_other_addresses_are_not_found(path: str) -> None:
    assert refused(HttpClient().get(path)) == (404, "not_found")


@pytest.fixture
def switched_off(settings: Settings) -> Iterator[None]:
    """The addresses of a deployment without the setting."""
    settings.COMPATIBLE_ADDRESSES = False
    importlib.reload(jobs.api.urls)
    settings.ROOT_URLCONF = "jobs.api.urls"
    yield
    settings.COMPATIBLE_ADDRESSES = True
    importlib.reload(jobs.api.urls)
    clear_url_caches()


@pytest.mark.usefixtures("switched_off")
def test_the_addresses_do_not_exist_without_the_setting(secret: str) -> None:
    token = make_job().share_token
    unknown = HttpClient().get("/nowhere")
    paths = ["/sim", f"/api/job/{token}", f"/reports/{token}/data.json", f"/simbot/report/{token}"]
    for response in (HttpClient().get(path) for path in paths):
        assert (response.status_code, response.headers["Content-Type"]) == (404, unknown.headers["Content-Type"])
    assert refused(post(SIM, secret)) == (404, "not_found")
    assert Job.objects.count() == 1


@pytest.mark.parametrize("place", ["header", "body"])
def test_a_key_that_only_reads_cannot_submit(place: str, key: tuple[ApiKey, str]) -> None:
    ApiKey.objects.update(scope="read")
    response = post(SIM, key[1]) if place == "header" else post(SIM | {"apiKey": key[1]})
    assert refused(response) == (403, "insufficient_scope")
    job = make_job(key[0].client)
    assert poll(str(job.pk), key[1]).status_code == 200
    ApiKey.objects.update(scope="submit")
    assert post(SIM | {"apiKey": key[1]}).status_code == 200
