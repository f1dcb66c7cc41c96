"""Credits on the dashboard: balances, credit history, usage and CSV downloads."""

import csv
import json
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from billing import ledger, statement
from billing.models import ALLOWED_MOVES, Entry, Grant, GrantReason, Pocket
from billing.statement import Kind
from clients.accounts import default_client
from clients.models import CreditsNotice, Membership
from dashboard.account import credits as credit_pages
from jobs.lifecycle import usage
from jobs.models import DailyUsage
from tests.billing import door
from tests.dashboard.browsing import browser_of, text_of
from tests.dashboard.summaries import EVIL, make_completed_job
from tests.factories import BuildFactory, make_account, make_client, make_member

pytestmark = pytest.mark.django_db
TODAY = datetime.now(tz=UTC).date()
MONTH = TODAY.replace(day=1)
MAX_QUERIES = 13


@pytest.fixture
def owner() -> Membership:
    return make_member(make_account(credits=0))


def page(owner: Membership, path: str) -> Any:
    """Return a page of the account as its owner."""
    response = browser_of(owner).get(f"/dashboard/{owner.account}/{path}")
    assert response.status_code == 200
    return response


def rows_of(response: Any) -> list[list[str]]:
    """Return the rows of a CSV response."""
    text = b"".join(response.streaming_content).decode()
    return list(csv.reader(text.splitlines()))


def add_usage(owner: Membership, *, day: date = MONTH, client: str = "bot", credits: int = 10) -> None:  # noqa: A002
    """Add usage of a client, which is created if it is missing."""
    existing = owner.account.clients.filter(name=client).first() or make_client(owner.account, client)
    build = BuildFactory.create()
    DailyUsage.objects.create(
        account=owner.account, client=existing, build=build, day=day, jobs=2, runs=1, sim_ms=1500, credits=credits
    )


def test_every_allowed_move_has_a_description() -> None:
    assert set(statement.DESCRIPTIONS) == set(ALLOWED_MOVES)


@pytest.mark.parametrize(("source", "target"), ALLOWED_MOVES, ids=str)
def test_an_entry_changes_the_available_credits(source: Pocket, target: Pocket) -> None:
    signs = {Pocket.PURCHASED: 1, Pocket.GRANT: 1}
    entry = Entry(source=source, target=target, credits=7)
    assert statement.change(entry) == 7 * (signs.get(target, 0) - signs.get(source, 0))


def test_the_credit_history_describes_entries(owner: Membership) -> None:
    ledger.grant(owner.account, 100, reason=GrantReason.GRANT_PROMO, note="<b>Welcome</b>")
    ledger.correct(owner.account, 50, reason="Invoice 7")
    door.hold(owner.account, 120, job_id=123)
    door.settle(123, spent=110)
    text = text_of(page(owner, "credits"))
    for expected in (
        "Available 40",
        "Reserved for jobs 0",
        "Credits added: Invoice 7",
        "+50",
        "\N{MINUS SIGN}110 40",
    ):
        assert expected in text
    assert "&lt;b&gt;Welcome" in text


def test_a_grant_is_named_by_its_note_or_its_reason(owner: Membership) -> None:
    ledger.grant(owner.account, 100, reason=GrantReason.ONBOARDING)
    ledger.grant(owner.account, 50, reason=GrantReason.GRANT_BETA, note="For the outage")
    door.hold(owner.account, 120, job_id=124)
    response = page(owner, "credits")
    for text in (
        "Credits granted: Welcome credits",
        "Credits granted: For the outage",
        "Reserved: 120 credits",
        "For the outage 30 50",
    ):
        assert text in text_of(response)
    assert "Beta" not in text_of(response)
    assert {row[-2] for row in rows_of(page(owner, "credits.csv"))} == {
        "grant",
        "Welcome credits",
        "For the outage",
    }


def test_changes_add_up_to_the_available_credits(owner: Membership) -> None:
    ledger.grant(owner.account, 100, reason=GrantReason.GRANT_PROMO, note="Welcome")
    door.hold(owner.account, 60, job_id=123)
    door.settle(123, spent=20)
    ledger.correct(owner.account, -5, reason="Wrong")
    changes = [statement.change(entry) for entry in statement.each_entry(owner.account)]
    assert sum(changes) == ledger.available(owner.account) == 75


def lines_of(response: Any) -> list[tuple[int, int | None]]:
    """Return the amount of each line of a statement, and the balance after it."""
    return [(row["line"].amount, row["balance"]) for row in response.context["lines"]]


def add_jobs(owner: Membership, count: int) -> None:
    """Hold credits for jobs that overlap, extend and settle them. Each spends its number."""
    ledger.correct(owner.account, 1_000_000, reason="Invoice.")
    for number in range(1, count + 1):
        door.hold(owner.account, 500, job_id=number)
        ledger.extend(number, 700)
    for number in range(1, count + 1):
        door.settle(number, spent=number)


def test_a_job_has_one_line_with_the_balance_after_it(owner: Membership) -> None:
    ledger.grant(owner.account, 100, reason=GrantReason.GRANT_PROMO)
    ledger.correct(owner.account, 1000, reason="Invoice")
    door.hold(owner.account, 150, job_id=1)
    ledger.extend(1, 200)
    door.hold(owner.account, 300, job_id=2)
    door.settle(1, spent=120)
    assert lines_of(page(owner, "credits")) == [(-120, 980), (0, 1100), (1000, 1100), (100, 100)]
    assert "Reserved: 300 credits" in text_of(page(owner, "credits"))
    door.settle(2, spent=0)
    assert lines_of(page(owner, "credits"))[0] == (0, 980)
    assert statement.balance(owner.account) == ledger.available(owner.account) == 980


def test_balances_continue_on_the_next_page(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credit_pages, "ROWS", 4)
    add_jobs(owner, 9)
    seen: list[tuple[int, int | None]] = []
    path = "credits"
    while path:
        response = page(owner, path)
        seen += lines_of(response)
        following = response.context["page"].following
        path = f"credits{following}" if following else ""
    assert [amount for amount, _ in seen] == [-number for number in range(9, 0, -1)] + [1_000_000]
    assert [balance for _, balance in seen] == [
        1_000_000 - sum(range(1, number + 1)) for number in range(9, -1, -1)
    ]


@pytest.mark.parametrize("balance", ["x", "5"])
def test_a_forged_balance_is_not_found(owner: Membership, balance: str) -> None:
    assert browser_of(owner).get(f"/dashboard/{owner.account}/credits?balance={balance}").status_code == 404


def test_a_balance_belongs_to_its_page(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credit_pages, "ROWS", 2)
    for number in range(5):
        ledger.correct(owner.account, number + 1, reason="Invoice")
    first = parse_qs(page(owner, "credits").context["page"].following[1:])
    second = parse_qs(page(owner, f"credits?{urlencode(first, doseq=True)}").context["page"].following[1:])
    path = f"/dashboard/{owner.account}/credits?"
    exchanged = urlencode({"after": second["after"], "balance": first["balance"]}, doseq=True)
    assert browser_of(owner).get(path + exchanged).status_code == 404
    assert browser_of(owner).get(path + urlencode({"balance": first["balance"]}, doseq=True)).status_code == 404
    # Filtered lines do not add up to the balance, so their links have none.
    filtered = page(owner, "credits?type=added").context["page"].following
    assert "balance" not in parse_qs(filtered[1:])


@pytest.mark.parametrize(
    ("kind", "amounts"), [("jobs", [-30]), ("added", [50, 100]), ("removed", [-5]), ("", [-5, -30, 50, 100])]
)
def test_lines_are_filtered_by_type(owner: Membership, kind: str, amounts: list[int]) -> None:
    ledger.grant(owner.account, 100, reason=GrantReason.GRANT_PROMO)
    ledger.correct(owner.account, 50, reason="Invoice")
    door.hold(owner.account, 40, job_id=1)
    door.settle(1, spent=30)
    ledger.correct(owner.account, -5, reason="Mistake")
    response = page(owner, f"credits?type={kind}")
    assert [amount for amount, _ in lines_of(response)] == amounts
    assert ("Balance" in text_of(response).partition("Time (UTC)")[2]) == (kind == "")
    assert browser_of(owner).get(f"/dashboard/{owner.account}/credits?type=x").status_code == 404


def test_a_line_says_how_the_charge_adds_up(owner: Membership) -> None:
    job = make_completed_job(client=default_client(owner.account), metadata={"title": EVIL})
    text = text_of(page(owner, "credits"))
    assert "2 s billed (1.5 s, rounded up) × 32 credits = 64" in text
    assert "&lt;img src=x" in text
    assert "2 s billed (1.5 s, rounded up) × 32 credits = 64" in text_of(page(owner, f"jobs/{job.pk}/log"))


def test_credits_that_expired_with_their_grant_are_in_the_line_of_the_job(owner: Membership) -> None:
    granted = ledger.grant(owner.account, 100, reason=GrantReason.GRANT_PROMO)
    door.hold(owner.account, 100, job_id=1)
    Grant.objects.filter(pk=granted.pk).update(
        created_at=granted.created_at - timedelta(days=2), expires_at=granted.created_at - timedelta(days=1)
    )
    door.settle(1, spent=30)
    response = page(owner, "credits")
    assert lines_of(response)[0] == (-100, 0)
    assert "70 unused credits expired with their grant" in text_of(response)


def test_the_chart_ends_with_the_current_balance(owner: Membership) -> None:
    add_usage(owner, day=TODAY - timedelta(days=3), credits=400)
    ledger.correct(owner.account, 1_000, reason="Invoice")
    days = page(owner, "credits").context["chart"].days
    assert [mark.value for mark in days[-5:]] == [400, 0, 0, 0, 1_000]
    assert len(days) == credit_pages.CHART_DAYS


def test_the_pace_is_shown_only_after_a_week_of_jobs(owner: Membership) -> None:
    ledger.correct(owner.account, 1_000, reason="Invoice")
    for number in range(1, 7):
        add_usage(owner, day=TODAY - timedelta(days=number), credits=100)
    assert "At this pace" not in text_of(page(owner, "credits"))
    add_usage(owner, day=TODAY - timedelta(days=7), credits=100)
    last = TODAY + timedelta(days=10)
    assert f"At this pace, credits last until {last} ." in text_of(page(owner, "credits"))


@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
def test_a_statement_reads_only_its_page(owner: Membership) -> None:
    add_jobs(owner, 400)
    other = make_member(make_account(credits=0))
    ledger.correct(other.account, 10, reason="Invoice")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE billing_entry")
    for kind in Kind:
        rows = statement.lines_of(owner.account, kind).order_by("-pk")
        plan = json.loads(rows[:26].explain(format="json", analyze=True, buffers=True))[0]["Plan"]
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 400, kind
    assert statement.lines_of(owner.account, Kind.ADDED).count() == 1


def test_an_empty_history_and_month_say_so(owner: Membership) -> None:
    assert "No changes yet" in text_of(page(owner, "credits"))
    assert "No jobs ended in " in text_of(page(owner, "usage"))


def test_a_long_history_has_pages(owner: Membership, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    for number in range(30):
        ledger.correct(owner.account, 1 + number, reason=f"Invoice {number}.")
    http = browser_of(owner)
    with django_assert_max_num_queries(MAX_QUERIES):
        text = http.get(f"/dashboard/{owner.account}/credits").content.decode()
    assert "Invoice 29." in text
    assert "Invoice 4." not in text
    assert 'rel="next"' in text


def test_the_csv_contains_all_entries(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement, "ENTRIES_AT_ONCE", 2)
    for number in range(5):
        ledger.grant(owner.account, 1 + number, reason=GrantReason.GRANT_PROMO, note="=HYPERLINK(1)")
    ledger.correct(make_account(), 9, reason="Another's")
    response = page(owner, "credits.csv")
    header, *rows = rows_of(response)
    assert response.headers["Content-Disposition"] == f'attachment; filename="{owner.account}-credits.csv"'
    assert [dict(zip(header, row, strict=True))["change"] for row in rows] == ["5", "4", "3", "2", "1"]
    assert {row[-2] for row in rows} == {"'=HYPERLINK(1)"}


@pytest.mark.parametrize("by", ["day", "client", "build"])
def test_usage_is_summed(owner: Membership, by: str, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    add_usage(owner, credits=10)
    add_usage(owner, client="<i>", credits=1_000)
    add_usage(owner, day=usage.previous_month(MONTH), credits=99_999)
    http = browser_of(owner)
    with django_assert_max_num_queries(9):
        response = http.get(f"/dashboard/{owner.account}/usage", {"by": by})
    text = response.content.decode()
    assert "All 4 3 s 1,010" in text_of(response)
    assert f"99,999 in {usage.previous_month(MONTH):%B}" in text_of(response)
    assert text.count("99,999") == 1
    assert ("&lt;i&gt;" in text) == (by == "client")


def test_an_earlier_month_is_shown(owner: Membership) -> None:
    earlier = usage.previous_month(MONTH)
    add_usage(owner, day=earlier, credits=99_999)
    assert "99,999" in text_of(page(owner, f"usage?month={earlier:%Y-%m}"))


@pytest.mark.parametrize("query", ["by=x", "month=x", "month=2999-01", "month=0001-01", "month=2026-13"])
def test_an_invalid_month_or_group_is_not_found(owner: Membership, query: str) -> None:
    for path in ("usage", "usage.csv") if "month" in query else ("usage",):
        assert browser_of(owner).get(f"/dashboard/{owner.account}/{path}?{query}").status_code == 404


def test_the_usage_csv_has_a_row_per_client(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "ROW_BATCH", 2)
    for number in range(5):
        add_usage(owner, client=f"@bot-{number}", credits=number)
    add_usage(make_member())
    header, *rows = rows_of(page(owner, "usage.csv"))
    assert header == ["day", "client", "build", "jobs", "simulations", "seconds", "credits"]
    assert [row[1] for row in rows] == [f"'@bot-{number}" for number in range(5)]
    assert rows[0][3:] == ["2", "1", "1.500", "0"]


def test_days_without_jobs_are_shown(owner: Membership) -> None:
    earlier = usage.previous_month(MONTH)
    add_usage(owner, day=earlier + timedelta(days=2))
    response = page(owner, f"usage?month={earlier:%Y-%m}")
    labels = [row["used"].label for row in response.context["used"]]
    assert labels == [f"{earlier + timedelta(days=number):%Y-%m-%d}" for number in range((MONTH - earlier).days)]
    assert [row["share"] for row in response.context["used"]][:4] == ["0.0%", "0.0%", "100.0%", "0.0%"]


def test_owners_choose_the_number_of_a_notice(owner: Membership) -> None:
    http, path = browser_of(owner), f"/dashboard/{owner.account}/credits/notice"
    http.post(path, {"threshold": "500"})
    assert 'value="500"' in http.get(path).content.decode()
    for wrong in ("0", "-1", "x", str(10**12 + 1)):
        assert 'aria-invalid="true"' in http.post(path, {"threshold": wrong}).content.decode()
    assert CreditsNotice.objects.get().threshold == 500
    http.post(path, {"threshold": ""})
    assert not CreditsNotice.objects.exists()
    member = make_member(owner.account, role="member")
    assert browser_of(member).get(path).status_code == browser_of(member).post(path).status_code == 403
