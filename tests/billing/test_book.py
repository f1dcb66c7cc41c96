"""What the database itself refuses, whoever writes, and what the proof of the book finds."""

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from billing import ledger
from billing.models import Account, Balance, Entry, Grant, GrantReason
from tests.factories import make_account

pytestmark = pytest.mark.django_db
UNGUARDED = "ALTER TABLE billing_entry DISABLE TRIGGER USER; ALTER TABLE billing_hold DISABLE TRIGGER USER"
MOVES = {
    ("outside", "purchased"),
    ("outside", "grant"),
    ("purchased", "outside"),
    ("grant", "outside"),
    ("purchased", "held"),
    ("grant", "held"),
    ("held", "purchased"),
    ("held", "grant"),
    ("held", "spent"),
    ("held", "expired"),
    ("grant", "expired"),
}
POCKETS = ["outside", "purchased", "grant", "held", "spent", "expired"]
NO_MOVES = [(source, target) for source in POCKETS for target in POCKETS if (source, target) not in MOVES]


@pytest.fixture
def account() -> Account:
    """An account with a grant, a job that paid from it and one that is still held."""
    account = make_account(credits=100)
    ledger.grant(account, 10, reason=GrantReason.GRANT_PROMO, note="a test")
    ledger.hold(account, 30, job_id=1)
    ledger.settle(1, spent=5)
    ledger.hold(account, 20, job_id=2)
    return account


@pytest.fixture
def _unguarded(account: Account) -> None:
    """A database without its triggers, as after a mistake of ours."""
    run(UNGUARDED)


def run(sql: str) -> None:
    """Run a statement past every line of the program, with no check left for the transaction's end."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(sql)


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    ("sql", "refusal"),
    [
        ("UPDATE billing_entry SET credits = 1", "never changed"),
        ("UPDATE billing_entry SET reason = '' WHERE false", "never changed"),
        ("DELETE FROM billing_entry", "never changed"),
        ("UPDATE billing_hold SET resolved_at = NULL, spent = NULL WHERE job_id = 1", "has been resolved"),
        ("UPDATE billing_hold SET spent = 6 WHERE job_id = 1", "has been resolved"),
        ("DELETE FROM billing_hold WHERE job_id = 2", "part of the book"),
        ("UPDATE billing_grant SET reason = 'welcome'", "grant_reason_known"),
        ("UPDATE billing_plan SET pool = 'shared'", "plan_pool_known"),
        ("UPDATE billing_hold SET spent = 21, resolved_at = now() WHERE job_id = 2", "hold_spent_le_held"),
        ("UPDATE billing_hold SET spent = 1 WHERE job_id = 2", "hold_spent_iff_resolved"),
        ("UPDATE billing_hold SET resolved_at = now() WHERE job_id = 2", "hold_spent_iff_resolved"),
        ("UPDATE billing_hold SET credits = 0 WHERE job_id = 2", "hold_positive"),
        (
            "INSERT INTO billing_hold (job_id, account_id, credits) SELECT 2, account_id, 5 FROM billing_balance",
            "pkey",
        ),
        ("UPDATE billing_balance SET purchased = -1", "purchased_check"),
        ("UPDATE billing_balance SET reserved = -1", "reserved_check"),
        ("UPDATE billing_grant SET remaining = -1", "remaining_check"),
        ("UPDATE billing_grant SET remaining = 11", "grant_remaining_le_original"),
        ("UPDATE billing_grant SET expires_at = created_at", "grant_expires_after_creation"),
        ("UPDATE billing_plan SET monthly_credits = 1000000000001", "plan_allowance_bounded"),
        ("DELETE FROM billing_grant", "foreign key"),
        ("DELETE FROM billing_account", "foreign key"),
    ],
    ids=str,
)
def test_the_database_refuses_what_cannot_be(sql: str, refusal: str) -> None:
    with pytest.raises(IntegrityError, match=refusal):
        run(sql)


def entry(account: Account, **fields: Any) -> None:
    """Write an entry past the ledger."""
    with transaction.atomic():
        Entry.objects.create(account=account, credits=fields.pop("credits", 1), **fields)


@pytest.mark.parametrize(("source", "target"), NO_MOVES)
def test_there_is_no_other_move(account: Account, source: str, target: str) -> None:
    held = "held" in (source, target)
    with pytest.raises(IntegrityError):
        entry(account, source=source, target=target, job_id=2 if held else None)
    with pytest.raises(IntegrityError, match=r"entry_move_known|entry_of_purchased"):
        entry(account, source=source, target=target, job_id=2 if held else None, grant=account.grants.get())


@pytest.mark.parametrize(
    ("constraint", "fields"),
    [
        ("entry_positive", {"source": "outside", "target": "purchased", "credits": 0}),
        ("entry_of_grant_names_it", {"source": "outside", "target": "grant"}),
        ("entry_of_grant_names_it", {"source": "grant", "target": "held", "job_id": 2}),
        ("entry_of_grant_names_it", {"source": "held", "target": "expired", "job_id": 2}),
        ("entry_job_iff_held", {"source": "purchased", "target": "held"}),
        ("entry_job_iff_held", {"source": "outside", "target": "purchased", "job_id": 2}),
    ],
)
def test_an_entry_says_whose_credits_it_moves(account: Account, constraint: str, fields: dict[str, object]) -> None:
    with pytest.raises(IntegrityError, match=constraint):
        entry(account, **fields)


@pytest.mark.parametrize("source_or_target", ["source", "target"])
def test_purchased_credits_come_from_no_grant(account: Account, source_or_target: str) -> None:
    other = {"source": "target", "target": "source"}[source_or_target]
    sides = {source_or_target: "purchased", other: "held"}
    with pytest.raises(IntegrityError, match="entry_of_purchased_names_no_grant"):
        entry(account, **sides, job_id=2, grant=account.grants.get())


def test_the_stored_balances_are_what_the_entries_add_up_to(account: Account) -> None:
    assert list(ledger.verify()) == []
    balance = Balance.objects.get(account=account)
    assert (balance.purchased, balance.reserved, Grant.objects.get().remaining) == (85, 20, 0)


TAMPERED = {
    "UPDATE billing_balance SET purchased = purchased + 1": ["purchased credits of account"],
    "UPDATE billing_balance SET reserved = 0": ["reserved credits of account"],
    "DELETE FROM billing_balance": ["purchased credits of account", "reserved credits of account"],
    "UPDATE billing_grant SET remaining = 1": ["what remains of grant"],
    "UPDATE billing_grant SET original = 11": ["the original size of grant"],
    "UPDATE billing_hold SET credits = 21 WHERE job_id = 2": ["credits ever held", "credits still held"],
    "UPDATE billing_hold SET spent = 6 WHERE job_id = 1": ["credits spent on job"],
    "UPDATE billing_hold SET spent = NULL, resolved_at = NULL WHERE job_id = 1": [
        "credits still held",
        "credits spent on job",
    ],
    "DELETE FROM billing_hold WHERE job_id = 2": ["credits ever held"],
    "UPDATE billing_entry SET credits = credits + 1 WHERE target = 'spent'": [
        "reserved credits of account",
        "credits still held for job",
        "credits spent on job",
        "credits still held for job",
    ],
    "DELETE FROM billing_entry WHERE source = 'outside' AND target = 'purchased'": ["purchased credits of account"],
}


@pytest.mark.usefixtures("_unguarded")
@pytest.mark.parametrize(("sql", "subjects"), TAMPERED.items(), ids=range(len(TAMPERED)))
def test_the_proof_finds_what_was_tampered_with(sql: str, subjects: list[str]) -> None:
    run(sql)
    found = list(ledger.verify())
    assert len(found) == len(subjects), [str(line) for line in found]
    assert all(line.subject.startswith(subject) for line, subject in zip(found, subjects, strict=True))


@pytest.mark.usefixtures("_unguarded")
def test_the_proof_finds_credits_that_went_back_to_another_source() -> None:
    run(
        "UPDATE billing_entry SET target = 'expired', grant_id = (SELECT id FROM billing_grant) "
        "WHERE source = 'held' AND target = 'purchased'"
    )
    subjects = [line.subject for line in ledger.verify()]
    assert any("from grant" in subject for subject in subjects)
    assert any("from purchased credits" in subject for subject in subjects)


@pytest.mark.usefixtures("_unguarded")
@pytest.mark.parametrize("table", ["billing_grant", "billing_hold"])
def test_the_proof_finds_an_entry_of_somebody_elses_credits(table: str) -> None:
    other = make_account(credits=1)
    run(f"UPDATE {table} SET account_id = {other.pk}")  # noqa: S608
    assert any(line.subject.startswith("the account of entry") for line in ledger.verify())


def test_a_discrepancy_reads_as_a_sentence(account: Account) -> None:
    Balance.objects.update(purchased=99)
    assert [str(line) for line in ledger.verify()] == [
        f"purchased credits of account {account.pk}: stored 99, by the entries 85"
    ]
