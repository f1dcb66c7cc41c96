"""`POST jobs/batch`: several submissions in one request (docs/reference/api.md#batches)."""

import copy
import json
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from billing import ledger
from billing.models import Hold
from clients import rate_limits
from clients.models import ApiKey
from jobs.api.batch import EXAMPLE_RESULT
from jobs.models import IdempotencyKey, Job
from jobs.submission import accept
from jobs.submission.batch import MAX_JOBS
from tests.concurrency import at_once
from tests.conftest import Api
from tests.factories import PROFILE, make_account, make_job, make_key
from tests.jobs.api.bodies import BODY, body_with, only_in
from tests.jobs.api.response_checks import checked

REFUSED = body_with("profile.text", PROFILE + "html=/tmp/x")
NUL = body_with("profile.text", "mage=\0")
# Queries of a submission with an idempotency key, beside those of the request
OF_EACH = 6
UNREADABLE: list[Any] = [None, 5, "text", [], {}, body_with("build.channel", "yearly"), body_with("more", 1), NUL]


def post(api: Api, *entries: Any, key: str | None = None) -> Any:
    headers = {} if key is None else {"idempotency-key": key}
    return api.post("jobs/batch", {"jobs": list(entries)}, headers=headers)


def numbered(count: int) -> list[dict[str, Any]]:
    """Return different submissions."""
    return [body_with("profile.text", f"{PROFILE}iterations={number + 1}\n") for number in range(count)]


def capped(credits_per_job: int) -> dict[str, Any]:
    """Return a submission that reserves some credits."""
    return body_with("runtime.maxCredits", credits_per_job)


def codes(response: Any) -> list[str | None]:
    """Return the code of each refusal, None for accepted submissions."""
    return [entry["refusal"] and entry["refusal"]["code"] for entry in response.json()["jobs"]]


def ids(response: Any) -> list[str]:
    """Return the ids of the accepted jobs in order."""
    return [entry["job"]["id"] for entry in response.json()["jobs"] if entry["job"]]


def test_each_submission_is_accepted_or_refused_by_itself(api: Api, variant: str) -> None:
    named = body_with("metadata", {"number": "2"})
    response = post(api, BODY, REFUSED, named, *UNREADABLE)
    body = checked(response, variant)
    assert codes(response) == [None, "input_sanitized_rejected", None] + ["validation_failed"] * len(UNREADABLE)
    assert [entry["job"] is None for entry in body["jobs"]] == [False, True, False] + [True] * len(UNREADABLE)
    assert body["jobs"][2]["job"]["metadata"] == {"number": "2"}
    assert sorted(ids(response)) == sorted(map(str, Job.objects.values_list("pk", flat=True)))
    assert response.headers["X-Active-Jobs"] == "2"


@pytest.mark.parametrize("entry", [*UNREADABLE[4:], REFUSED, body_with("webhook.events", ["job.terminal"])])
def test_a_refusal_is_the_error_of_a_single_submission(api: Api, entry: Any) -> None:
    single = api.post("jobs", copy.deepcopy(entry))
    (refusal,) = (each["refusal"] for each in post(api, entry).json()["jobs"])
    expected = single.json()
    assert refusal == {"status": single.status_code, **{name: expected[name] for name in ("error", "code", "meta")}}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"jobs": []}, "jobs"),
        ({"jobs": [BODY] * (MAX_JOBS + 1)}, "jobs"),
        ({"jobs": BODY}, "jobs"),
        ({"jobs": None}, "jobs"),
        ({}, "jobs"),
        ({"jobs": [BODY], "more": 1}, "more"),
        ([BODY], ""),
        ("text", ""),
        (None, ""),
    ],
)
def test_a_request_that_is_no_batch_is_refused_as_a_whole(api: Api, body: Any, path: str) -> None:
    response = api.post("jobs/batch", json.dumps(body))
    assert (response.status_code, Job.objects.count()) == (400, 0)
    assert response.json()["meta"]["issues"][0]["path"] == path


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"jobs": []}, "Must have at least 1 entry."),
        ({"jobs": {}}, "Must be a list."),
        (None, "Must be an object."),
    ],
)
def test_the_problem_with_a_batch_is_named(api: Api, body: Any, message: str) -> None:
    (issue,) = api.post("jobs/batch", json.dumps(body)).json()["meta"]["issues"]
    assert issue["message"] == message


def test_the_example_of_a_refusal_is_a_real_one(api: Api, key: tuple[ApiKey, str]) -> None:
    plan = key[0].client.account.plan
    plan.max_active_jobs = 200
    plan.save(update_fields=["max_active_jobs"])
    for number in range(200):
        make_job(key[0].client, id=10**17 + number)
    (entry,) = post(api, BODY).json()["jobs"]
    assert EXAMPLE_RESULT["jobs"][1] == entry


def test_other_forms_are_refused(api: Api) -> None:
    assert api.post("jobs/batch?channel=latest", {"jobs": [BODY]}).status_code == 400
    response = api.post("jobs/batch", "mage", content_type="text/plain")
    assert (response.status_code, response.json()["error"]) == (415, "Send Content-Type: application/json.")
    assert api.get("jobs/batch").status_code == 405
    assert not Job.objects.exists()


def test_a_hundred_jobs_are_accepted(api: Api, key: tuple[ApiKey, str]) -> None:
    plan = key[0].client.account.plan
    plan.max_active_jobs = plan.submissions_per_minute = 500
    plan.save()
    response = post(api, *numbered(MAX_JOBS))
    texts = [Job.objects.get(pk=job_id).profile.text for job_id in ids(response)]
    assert texts == [body["profile"]["text"] for body in numbered(MAX_JOBS)]


@only_in("C")
def test_credits_can_end_in_the_middle(api: Api, key: tuple[ApiKey, str]) -> None:
    account = key[0].client.account
    ledger.correct(account, 2 * 640 - ledger.available(account), reason="for the test")
    refused = "insufficient_credits_liability"
    assert codes(post(api, *[capped(640)] * 3)) == [None, None, refused]
    assert ledger.available(account) == 0


def test_the_room_for_jobs_can_end_in_the_middle(api: Api, key: tuple[ApiKey, str]) -> None:
    plan = key[0].client.account.plan
    plan.max_active_jobs = 2
    plan.save()
    assert codes(post(api, *numbered(4))) == [None, None, *["max_active_jobs_exceeded"] * 2]


def test_a_repetition_creates_no_job_twice(api: Api) -> None:
    first = post(api, *numbered(2), REFUSED, None, key="night")
    again = post(api, *numbered(2), REFUSED, None, key="night")
    assert again.json() == first.json()
    assert [response.headers.get("X-Idempotent-Replay") for response in (first, again)] == [None, "true"]
    assert Job.objects.count() == Hold.objects.count() == IdempotencyKey.objects.count() == 2


def test_without_a_key_every_batch_is_new(api: Api) -> None:
    assert ids(post(api, BODY)) != ids(post(api, BODY))


def test_a_repetition_submits_what_was_refused(api: Api, key: tuple[ApiKey, str]) -> None:
    plan = key[0].client.account.plan
    plan.max_active_jobs = 1
    plan.save()
    first = post(api, *numbered(2), key="night")
    plan.max_active_jobs = 9
    plan.save()
    again = post(api, *numbered(2), key="night")
    assert (len(ids(first)), len(ids(again)), ids(first)[0]) == (1, 2, ids(again)[0])
    assert Job.objects.count() == 2


@pytest.mark.parametrize(
    "other", [numbered(1), numbered(3), numbered(2)[::-1], [*numbered(2), BODY], [REFUSED, *numbered(2)]]
)
def test_a_different_batch_with_the_key_conflicts(api: Api, other: list[Any]) -> None:
    first = post(api, *numbered(2), key="night")
    response = post(api, *other, key="night")
    assert (response.status_code, response.json()["code"]) == (409, "idempotency_key_reuse")
    assert response.json()["meta"]["originalJobId"] in ids(first)
    assert Job.objects.count() == 2


def test_the_position_of_a_submission_belongs_to_the_batch(api: Api) -> None:
    first = post(api, None, BODY, key="night")
    assert post(api, BODY, None, key="night").status_code == 409
    assert post(api, None, BODY, key="night").json() == first.json()


def test_metadata_does_not_change_the_batch(api: Api) -> None:
    first = post(api, body_with("metadata", {"try": "1"}), key="night")
    assert post(api, body_with("metadata", {"try": "2"}), key="night").json() == first.json()


def test_a_batch_and_a_single_submission_can_have_the_same_key(api: Api) -> None:
    batch = post(api, BODY, key="night")
    single = api.post("jobs", copy.deepcopy(BODY), headers={"idempotency-key": "night"})
    assert ids(batch) != [single.json()["id"]]


def test_keys_belong_to_an_api_key(api: Api) -> None:
    other = Api(make_key(make_account())[1])
    assert ids(post(api, BODY, key="night")) != ids(post(other, BODY, key="night"))


@pytest.mark.parametrize("sent", ["", "x" * 256, "né", "tab\there"])
def test_a_key_is_checked(api: Api, sent: str) -> None:
    assert post(api, BODY, key=sent).status_code == 400
    assert not Job.objects.exists()


def test_a_crash_between_two_submissions_is_made_good(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    submit, left = accept.submit, [2]

    def crash(*args: Any, **kwargs: Any) -> Any:
        if not left[0]:
            raise SystemExit
        left[0] -= 1
        return submit(*args, **kwargs)

    monkeypatch.setattr(accept, "submit", crash)
    with pytest.raises(SystemExit):
        post(api, *numbered(4), key="night")
    stored = set(Job.objects.values_list("pk", flat=True))
    monkeypatch.undo()
    response = post(api, *numbered(4), key="night")
    assert len(stored) == 2
    assert stored < set(map(int, ids(response)))
    assert Job.objects.count() == Hold.objects.count() == len(ids(response)) == 4


def test_an_outage_refuses_the_rest(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    submit, calls = accept.submit, []

    def fail(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise OperationalError
        return submit(*args, **kwargs)

    monkeypatch.setattr(accept, "submit", fail)
    response = post(api, *numbered(4))
    assert [entry["refusal"] and entry["refusal"]["status"] for entry in response.json()["jobs"]] == [
        None,
        *[503] * 3,
    ]
    assert (len(calls), Job.objects.count()) == (2, 1)


def test_equal_batches_at_once_create_each_job_once(transactional_db: None) -> None:
    secret = make_key(make_account())[1]
    responses: list[Any] = []
    at_once(6, lambda: responses.append(post(Api(secret), *numbered(4), key="night")))
    assert {response.status_code for response in responses} == {200}
    assert len({tuple(ids(response)) for response in responses}) == 1
    assert Job.objects.count() == Hold.objects.count() == 4


def test_every_job_counts_against_the_rate_limit(api: Api, key: tuple[ApiKey, str]) -> None:
    plan = key[0].client.account.plan
    plan.submissions_per_minute = 5
    plan.save()
    assert post(api, *numbered(3)).headers["X-RateLimit-Remaining"] == "2"
    refused = post(api, *numbered(3))
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limit_exceeded")
    assert int(refused.headers["Retry-After"]) >= 1
    assert Job.objects.count() == 3


def test_the_wait_after_a_refusal_is_for_the_whole_batch(
    api: Api, key: tuple[ApiKey, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = key[0].client.account.plan
    plan.submissions_per_minute = 5
    plan.save()
    costs: list[int] = []

    def wait_seconds(limit: rate_limits.Limit, counters: rate_limits.Counters, cost: int) -> int:
        costs.append(cost)
        return 7

    monkeypatch.setattr(rate_limits, "wait_seconds", wait_seconds)
    post(api, *numbered(3))
    assert post(api, *numbered(3)).headers["Retry-After"] == "7"
    assert costs == [3]


def test_a_batch_above_the_limit_counts_as_the_whole_limit(api: Api, key: tuple[ApiKey, str]) -> None:
    plan = key[0].client.account.plan
    plan.submissions_per_minute = 2
    plan.save()
    assert len(ids(post(api, *numbered(4)))) == 4
    assert post(api, *numbered(1)).status_code == 429


def test_queries_grow_with_the_jobs_only(api: Api, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    post(api, BODY)
    counts = []
    for count in (1, 2, 6):
        with CaptureQueriesContext(connection) as queries:
            post(api, *numbered(count), key=f"key {count}")
        counts.append(len(queries))
    assert (counts[1] - counts[0], counts[2] - counts[0]) == (OF_EACH, 5 * OF_EACH)
    with django_assert_num_queries(3):
        post(api, *numbered(6), key="key 6")
