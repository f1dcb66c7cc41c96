"""The editor of plans in the admin."""

from html import unescape
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from billing.admin import CHANGED, NEEDED, OVERTAKEN, described
from billing.models import MAX_AMOUNT, Account, Plan
from clients.accounts import default_client, open_account
from jobs.models import StoredBytes
from tests.admin_actions import HIDDEN
from tests.factories import make_account, make_job

pytestmark = pytest.mark.django_db
PLANS = "/admin/billing/plan/"


@pytest.fixture
def plan() -> Plan:
    return make_account().plan


def page_of(plan: Plan) -> str:
    return f"{PLANS}{plan.pk}/change/"


def opened(browser: Browser, page: str) -> dict[str, Any]:
    """Return the fields of a form as a browser sends them."""
    form = browser.get(page).context["adminform"].form
    values = {name: form[name].value() for name in form.fields}
    return {name: "" if value is None else value for name, value in values.items() if value is not False}


def confirm(browser: Browser, plan: Plan, preview: Any) -> Any:
    fields = {name: unescape(value) for name, value in HIDDEN.findall(preview.content.decode())}
    return browser.post(page_of(plan), fields)


def change(browser: Browser, plan: Plan, **fields: object) -> Any:
    """Change fields of a plan, confirm the preview, and return the response."""
    preview = browser.post(page_of(plan), opened(browser, page_of(plan)) | fields)
    assert "Check the changes" in preview.content.decode()
    return confirm(browser, plan, preview)


def stored(plan: Plan) -> Plan:
    return Plan.objects.get(pk=plan.pk)


def messages_of(response: Any) -> list[str]:
    return [str(message) for message in get_messages(response.wsgi_request)]


def test_a_change_is_shown_before_it_is_saved(operator: Browser, plan: Plan) -> None:
    fields = opened(operator, page_of(plan)) | {"credits_per_second": 40, "retention_days": 7}
    preview = operator.post(page_of(plan), fields)
    text = preview.content.decode()
    assert "<td><bdi>32</bdi></td><td><bdi>40</bdi></td>" in text
    assert "<td><bdi>none</bdi></td><td><bdi>7</bdi></td>" in text
    assert "1 account has this plan." in text
    assert stored(plan).credits_per_second == 32
    assert confirm(operator, plan, preview).status_code == 302
    assert (stored(plan).credits_per_second, stored(plan).retention_days) == (40, 7)


def test_the_old_and_new_values_are_logged(operator: Browser, plan: Plan) -> None:
    change(operator, plan, max_active_jobs=7, max_stored_bytes=10**9)
    entry = LogEntry.objects.get(object_id=str(plan.pk))
    assert entry.change_message == "Max active jobs: 200 → 7; Max stored bytes: None → 1000000000"


@pytest.mark.parametrize("slots", [1, 256])
def test_a_plan_can_have_from_1_to_256_slots_for_a_job(operator: Browser, slots: int) -> None:
    plan = make_account(max_parallel_slots=5).plan
    assert change(operator, plan, max_parallel_slots=slots).status_code == 302
    assert stored(plan).max_parallel_slots == slots


INVALID: dict[str, list[Any]] = {
    "credits_per_second": [0, -1, "", "x", 2**31],
    "vcpu_per_job": [0, 32768],
    "max_active_jobs": [-1, 0, 2**31],
    "max_credits_per_job": [0, 31, 2**31],
    "max_queue_seconds": [0, 1799],
    "default_queue_seconds": [0, 86_401],
    "monthly_credits": [-1, MAX_AMOUNT + 1],
    "submissions_per_minute": [0],
    "submission_bytes_per_minute": [0, 2**63],
    "reads_per_minute": [0],
    "max_parallel_slots": [0, 257],
    "retention_days": [0, 3651],
    "max_stored_bytes": [-1, 0, 2**63],
    "pool": ["unknown"],
    "name": ["", "x" * 65],
}


INVALID_FIELDS = [(name, value) for name, values in INVALID.items() for value in values]


@pytest.mark.parametrize(("name", "value"), INVALID_FIELDS)
def test_an_invalid_value_is_refused_at_its_field(operator: Browser, plan: Plan, name: str, value: object) -> None:
    response = operator.post(page_of(plan), opened(operator, page_of(plan)) | {name: value})
    form = response.context["adminform"].form
    expected = "default_queue_seconds" if (name, value) == ("max_queue_seconds", 1799) else name
    assert expected in form.errors
    assert form.non_field_errors() == []
    assert stored(plan) == plan


def test_all_problems_are_reported_at_once(operator: Browser, plan: Plan) -> None:
    wrong = {"credits_per_second": 0, "max_queue_seconds": 60, "retention_days": 0, "name": ""}
    response = operator.post(page_of(plan), opened(operator, page_of(plan)) | wrong)
    errors = response.context["adminform"].form.errors
    assert set(errors) == {"credits_per_second", "default_queue_seconds", "retention_days", "name"}


def test_a_job_must_be_able_to_pay_for_a_second(operator: Browser, plan: Plan) -> None:
    wrong = {"credits_per_second": 100, "max_credits_per_job": 99}
    response = operator.post(page_of(plan), opened(operator, page_of(plan)) | wrong)
    assert "This does not pay for a second" in response.content.decode()


def test_a_new_plan_is_saved_at_once_if_it_is_valid(operator: Browser) -> None:
    fields = opened(operator, f"{PLANS}add/") | {"name": "gold"}
    refused = operator.post(f"{PLANS}add/", fields | {"credits_per_second": 0})
    assert refused.context["adminform"].form.errors.keys() == {"credits_per_second"}
    assert operator.post(f"{PLANS}add/", fields).status_code == 302
    assert Plan.objects.filter(name="gold").exists()


def test_an_unchanged_form_is_saved_without_a_preview(operator: Browser, plan: Plan) -> None:
    assert operator.post(page_of(plan), opened(operator, page_of(plan))).status_code == 302


def test_accounts_that_have_reached_a_lower_limit_are_counted(operator: Browser, plan: Plan) -> None:
    busy = Account.objects.get(plan=plan)
    for _ in range(3):
        make_job(default_client(busy))
    StoredBytes.objects.create(account=busy, bytes=500)
    StoredBytes.objects.create(account=open_account("quiet", plan=plan), bytes=499)
    make_job(make_account(max_active_jobs=1).clients.get())
    text = _preview(operator, plan, max_active_jobs=3, max_stored_bytes=500)
    assert "2 accounts have this plan." in text
    assert "<strong>Max active jobs:</strong> 1 account is at or above the new limit" in text
    assert "<strong>Max stored bytes:</strong> 1 account is at or above the new limit" in text
    assert "at or above" not in _preview(operator, plan, max_active_jobs=4, max_stored_bytes=501)


def _preview(browser: Browser, plan: Plan, **fields: object) -> str:
    return str(browser.post(page_of(plan), opened(browser, page_of(plan)) | fields).content.decode())


def test_the_preview_takes_a_constant_number_of_queries(operator: Browser, plan: Plan) -> None:
    fields = opened(operator, page_of(plan)) | {"max_active_jobs": 1, "max_stored_bytes": 1}
    counts = []
    for number in range(3):
        with CaptureQueriesContext(connection) as captured:
            operator.post(page_of(plan), fields)
        # Django checks each constraint in a savepoint, and without a table.
        counts.append(sum(" FROM " in query["sql"] for query in captured))
        make_job(default_client(open_account(f"another-{number}", plan=plan)))
    assert counts[1] == counts[2] <= 10


def test_a_change_by_someone_else_is_shown(operator: Browser, plan: Plan) -> None:
    fields = opened(operator, page_of(plan)) | {"credits_per_second": 40}
    Plan.objects.filter(pk=plan.pk).update(max_variants=7)
    preview = operator.post(page_of(plan), fields)
    assert OVERTAKEN in messages_of(preview)
    assert "<td><bdi>7</bdi></td><td><bdi>10,000</bdi></td>" in preview.content.decode()


def test_a_change_after_the_preview_is_not_overwritten(operator: Browser, plan: Plan) -> None:
    preview = operator.post(page_of(plan), opened(operator, page_of(plan)) | {"credits_per_second": 40})
    Plan.objects.filter(pk=plan.pk).update(max_variants=7)
    second = confirm(operator, plan, preview)
    assert messages_of(second) == [CHANGED]
    assert (stored(plan).credits_per_second, stored(plan).max_variants) == (32, 7)
    assert confirm(operator, plan, second).status_code == 302
    assert (stored(plan).credits_per_second, stored(plan).max_variants) == (40, 10_000)


@pytest.mark.parametrize("digest", ["", "1", "0" * 64])
def test_a_forged_confirmation_saves_nothing(operator: Browser, plan: Plan, digest: str) -> None:
    fields = opened(operator, page_of(plan)) | {"credits_per_second": 40, "confirmed": digest}
    assert "Check the changes" in operator.post(page_of(plan), fields).content.decode()
    assert stored(plan).credits_per_second == 32


@pytest.mark.parametrize(("permission", "status"), [("", 403), ("view_plan", 200)])
def test_only_permitted_staff_change_plans(operator: Browser, plan: Plan, permission: str, status: int) -> None:
    fields = opened(operator, page_of(plan)) | {"credits_per_second": 40}
    user = User.objects.create_user("staff", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename=permission))
    browser = Browser()
    browser.force_login(user)
    assert browser.get(page_of(plan)).status_code == status
    for sent in ({"credits_per_second": 40}, fields):
        assert browser.post(page_of(plan), sent).status_code == 403
    assert stored(plan).credits_per_second == 32


def test_a_plan_with_accounts_cannot_be_deleted(operator: Browser, plan: Plan) -> None:
    unused = Plan.objects.create(name="unused")
    assert operator.post(f"{PLANS}{plan.pk}/delete/", {"post": "yes"}).status_code == 403
    assert operator.post(f"{PLANS}{unused.pk}/delete/", {"post": "yes"}).status_code == 302
    assert set(Plan.objects.values_list("pk", flat=True)) == {plan.pk}
    assert "delete_selected" not in operator.get(PLANS).content.decode()


def test_the_plan_of_new_accounts_keeps_its_name(operator: Browser, settings: Settings) -> None:
    unused = Plan.objects.create(name="unused")
    settings.SIGNUP_PLAN = "unused"
    response = operator.post(page_of(unused), opened(operator, page_of(unused)) | {"name": "other"})
    assert response.context["adminform"].form.errors["name"] == [NEEDED]
    deleted = operator.post(f"{PLANS}{unused.pk}/delete/", {"post": "yes"})
    assert messages_of(deleted) == [NEEDED]
    assert stored(unused).name == "unused"
    assert change(operator, unused, max_active_jobs=7).status_code == 302


def test_an_unknown_plan_leads_back_to_the_index(operator: Browser) -> None:
    for path in (f"{PLANS}999/change/", f"{PLANS}x/change/"):
        assert operator.get(path).headers["Location"] == "/admin/"
        assert operator.post(path, {}).headers["Location"] == "/admin/"


def test_names_are_escaped(operator: Browser, plan: Plan) -> None:
    text = _preview(operator, plan, name='"><img src=x>')
    assert "<img src=x>" not in text
    assert "&lt;img src=x&gt;" in text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("submission_bytes_per_minute", 67_108_864, "67,108,864 bytes (≈ 64.0 MiB)"),
        ("default_queue_seconds", 1_800, "1,800 s (30 min)"),
        ("max_queue_seconds", 90, "90 s (90 s)"),
        ("max_credits_per_job", 57_600, "57,600 credits (≈ 30 min of simulation)"),
        ("monthly_credits", 0, "0"),
        ("max_variants", 10_000, "10,000"),
        ("max_stored_bytes", None, "none"),
        ("allows_build_pin", True, "True"),
        ("pool", "standard", "standard"),
    ],
)
def test_values_are_shown_with_separators_and_units(name: str, value: object, text: str) -> None:
    assert described(name, value, credits_per_second=32) == text


def test_the_form_says_what_its_numbers_mean(operator: Browser, plan: Plan) -> None:
    text = operator.get(page_of(plan)).content.decode()
    assert "Now: 67,108,864 bytes (≈ 64.0 MiB)." in text
    assert "of simulation)." in text
