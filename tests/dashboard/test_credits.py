"""Credits on the dashboard: balances, the book in words, what was used, and the tables to download."""

import csv
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from billing import ledger, statement
from billing.models import MOVES, Entry, GrantReason, Pocket
from clients.models import Membership
from jobs import usage
from jobs.models import DailyUsage
from tests.dashboard.browsing import browser_of, text_of
from tests.factories import BuildFactory, make_account, make_client, make_member

pytestmark = pytest.mark.django_db
TODAY = datetime.now(tz=UTC).date()
MONTH = TODAY.replace(day=1)


@pytest.fixture
def owner() -> Membership:
    return make_member(make_account(credits=0))


def page(owner: Membership, path: str) -> Any:
    """Return one of the account's pages as its owner sees it."""
    answer = browser_of(owner).get(f"/dashboard/{owner.account}/{path}")
    assert answer.status_code == 200
    return answer


def rows_of(answer: Any) -> list[list[str]]:
    """Return the rows of a downloaded table."""
    text = b"".join(answer.streaming_content).decode()
    return list(csv.reader(text.splitlines()))


def use(owner: Membership, *, day: date = MONTH, client: str = "bot", credits: int = 10) -> None:  # noqa: A002
    """Count use of a client that is made when it is missing."""
    found = owner.account.clients.filter(name=client).first() or make_client(owner.account, client)
    build = BuildFactory.create()
    DailyUsage.objects.create(
        account=owner.account, client=found, build=build, day=day, jobs=2, runs=1, sim_ms=1500, credits=credits
    )


def test_every_move_has_words() -> None:
    assert set(statement.SENTENCES) == set(MOVES)


@pytest.mark.parametrize(("source", "target"), MOVES, ids=str)
def test_an_entry_says_by_how_much_it_changed_what_is_available(source: Pocket, target: Pocket) -> None:
    signs = {Pocket.PURCHASED: 1, Pocket.GRANT: 1}
    entry = Entry(source=source, target=target, credits=7)
    assert statement.change(entry) == 7 * (signs.get(target, 0) - signs.get(source, 0))


def test_the_book_is_told_in_words(owner: Membership) -> None:
    ledger.grant(owner.account, 100, reason=GrantReason.GRANT_PROMO, note="<b>Welcome</b>")
    ledger.purchase(owner.account, 50, reason="Invoice 7")
    ledger.hold(owner.account, 120, job_id=123)
    ledger.settle(123, spent=110)
    text = text_of(page(owner, "credits"))
    for words in ("Available 40", "Reserved for jobs 0", "Credits were added: Invoice 7", "Spent by a job", "+50"):
        assert words in text
    assert "&lt;b&gt;Welcome" in text


def test_a_grant_is_shown_by_its_note_else_by_its_reason(owner: Membership) -> None:
    ledger.grant(owner.account, 100, reason=GrantReason.ONBOARDING)
    ledger.grant(owner.account, 50, reason=GrantReason.GRANT_BETA, note="For the outage")
    ledger.hold(owner.account, 120, job_id=124)
    answer = page(owner, "credits")
    for words in (
        "Credits were granted: Welcome credits",
        "from the grant “For the outage”",
        "For the outage 30 50",
    ):
        assert words in text_of(answer)
    assert "Beta" not in text_of(answer)
    assert {row[-2] for row in rows_of(page(owner, "credits.csv"))} == {
        "grant",
        "Welcome credits",
        "For the outage",
    }


def test_changes_add_up_to_what_is_available(owner: Membership) -> None:
    ledger.grant(owner.account, 100, reason=GrantReason.GRANT_PROMO, note="Welcome")
    ledger.hold(owner.account, 60, job_id=123)
    ledger.settle(123, spent=20)
    ledger.correct(owner.account, -5, reason="Wrong")
    changes = [statement.change(one) for one in ledger.each_entry(owner.account)]
    assert sum(changes) == ledger.available(owner.account) == 75


def test_nothing_yet_is_said_in_words(owner: Membership) -> None:
    assert "Nothing has happened yet" in text_of(page(owner, "credits"))
    assert "No job ended in this month" in text_of(page(owner, "usage"))


def test_a_long_book_has_pages(owner: Membership, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    for number in range(30):
        ledger.purchase(owner.account, 1 + number, reason=f"Invoice {number}.")
    http = browser_of(owner)
    with django_assert_max_num_queries(6):
        text = http.get(f"/dashboard/{owner.account}/credits").content.decode()
    assert "Invoice 29." in text
    assert "Invoice 4." not in text
    assert 'rel="next"' in text


def test_the_whole_book_is_downloaded_whatever_its_length(
    owner: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "ENTRIES_AT_ONCE", 2)
    for number in range(5):
        ledger.grant(owner.account, 1 + number, reason=GrantReason.GRANT_PROMO, note="=HYPERLINK(1)")
    ledger.purchase(make_account(), 9, reason="Another's")
    answer = page(owner, "credits.csv")
    header, *rows = rows_of(answer)
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{owner.account}-credits.csv"'
    assert [dict(zip(header, row, strict=True))["change"] for row in rows] == ["5", "4", "3", "2", "1"]
    assert {row[-2] for row in rows} == {"'=HYPERLINK(1)"}


@pytest.mark.parametrize("by", ["day", "client", "build"])
def test_use_is_summed(owner: Membership, by: str, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    use(owner, credits=10)
    use(owner, client="<i>", credits=1_000)
    use(owner, day=usage.previous_month(MONTH), credits=99_999)
    http = browser_of(owner)
    with django_assert_max_num_queries(6):
        answer = http.get(f"/dashboard/{owner.account}/usage", {"by": by})
    text = answer.content.decode()
    assert "All 4 3.0 s 1,010" in text_of(answer)
    assert "99,999" not in text
    assert ("&lt;i&gt;" in text) == (by == "client")


def test_an_earlier_month_is_shown(owner: Membership) -> None:
    earlier = usage.previous_month(MONTH)
    use(owner, day=earlier, credits=99_999)
    assert "99,999" in text_of(page(owner, f"usage?month={earlier:%Y-%m}"))


@pytest.mark.parametrize("query", ["by=x", "month=x", "month=2999-01", "month=0001-01", "month=2026-13"])
def test_what_is_no_month_is_not_found(owner: Membership, query: str) -> None:
    for path in ("usage", "usage.csv") if "month" in query else ("usage",):
        assert browser_of(owner).get(f"/dashboard/{owner.account}/{path}?{query}").status_code == 404


def test_use_is_downloaded_row_by_row(owner: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "ROWS_AT_ONCE", 2)
    for number in range(5):
        use(owner, client=f"@bot-{number}", credits=number)
    use(make_member())
    header, *rows = rows_of(page(owner, "usage.csv"))
    assert header == ["day", "client", "build", "jobs", "simulations", "seconds", "credits"]
    assert [row[1] for row in rows] == [f"'@bot-{number}" for number in range(5)]
    assert rows[0][3:] == ["2", "1", "1.500", "0"]
