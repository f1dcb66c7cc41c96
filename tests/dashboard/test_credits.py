"""Credits on the dashboard: balances, credit history, usage and CSV downloads."""

import csv
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from billing import ledger, statement
from billing.models import ALLOWED_MOVES, Entry, GrantReason, Pocket
from clients.models import Membership
from jobs.lifecycle import usage
from jobs.models import DailyUsage
from tests.billing import door
from tests.dashboard.browsing import browser_of, text_of
from tests.factories import BuildFactory, make_account, make_client, make_member

pytestmark = pytest.mark.django_db
TODAY = datetime.now(tz=UTC).date()
MONTH = TODAY.replace(day=1)


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
    for expected in ("Available 40", "Reserved for jobs 0", "Credits added: Invoice 7", "Spent on job", "+50"):
        assert expected in text
    assert "&lt;b&gt;Welcome" in text


def test_a_grant_is_named_by_its_note_or_its_reason(owner: Membership) -> None:
    ledger.grant(owner.account, 100, reason=GrantReason.ONBOARDING)
    ledger.grant(owner.account, 50, reason=GrantReason.GRANT_BETA, note="For the outage")
    door.hold(owner.account, 120, job_id=124)
    response = page(owner, "credits")
    for text in (
        "Credits granted: Welcome credits",
        "from grant “For the outage”",
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


def test_an_empty_history_and_month_say_so(owner: Membership) -> None:
    assert "No changes yet" in text_of(page(owner, "credits"))
    assert "No jobs ended in " in text_of(page(owner, "usage"))


def test_a_long_history_has_pages(owner: Membership, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    for number in range(30):
        ledger.correct(owner.account, 1 + number, reason=f"Invoice {number}.")
    http = browser_of(owner)
    with django_assert_max_num_queries(7):
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
    with django_assert_max_num_queries(7):
        response = http.get(f"/dashboard/{owner.account}/usage", {"by": by})
    text = response.content.decode()
    assert "All 4 3.0 s 1,010" in text_of(response)
    assert "99,999" not in text
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
