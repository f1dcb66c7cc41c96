"""Integrity of the ledger: database constraints and triggers, and verification."""

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from billing import ledger
from billing.models import Account, Balance, Entry, Grant, GrantReason
from tests.billing import door
from tests.factories import make_account

pytestmark = pytest.mark.django_db
DISABLE_TRIGGERS = "ALTER TABLE billing_entry DISABLE TRIGGER USER; ALTER TABLE billing_hold DISABLE TRIGGER USER"
ALLOWED_MOVES = {
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
FORBIDDEN_MOVES = [
    (source, target) for source in POCKETS for target in POCKETS if (source, target) not in ALLOWED_MOVES
]


@pytest.fixture
def account() -> Account:
    """Return an account with a grant, a settled hold and an open hold."""
    account = make_account(credits=100)
    ledger.grant(account, 10, reason=GrantReason.GRANT_PROMO, note="a test")
    door.hold(account, 30, job_id=1)
    door.settle(1, spent=5)
    door.hold(account, 20, job_id=2)
    return account


@pytest.fixture
def _without_triggers(account: Account) -> None:
    """Disable the triggers, so that tests can corrupt the ledger."""
    run(DISABLE_TRIGGERS)


def run(sql: str) -> None:
    """Run a statement directly, with deferred constraints checked immediately."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(sql)


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    ("sql", "constraint"),
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
def test_the_database_rejects_invalid_rows_and_changes(sql: str, constraint: str) -> None:
    with pytest.raises(IntegrityError, match=constraint):
        run(sql)


def entry(account: Account, **fields: Any) -> None:
    """Write an entry without using the ledger."""
    with transaction.atomic():
        Entry.objects.create(account=account, credits=fields.pop("credits", 1), **fields)


@pytest.mark.parametrize(("source", "target"), FORBIDDEN_MOVES)
def test_the_database_rejects_other_moves(account: Account, source: str, target: str) -> None:
    involves_hold = "held" in (source, target)
    with pytest.raises(IntegrityError):
        entry(account, source=source, target=target, job_id=2 if involves_hold else None)
    with pytest.raises(IntegrityError, match=r"entry_move_known|entry_of_purchased"):
        entry(
            account, source=source, target=target, job_id=2 if involves_hold else None, grant=account.grants.get()
        )


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
def test_the_database_rejects_an_inconsistent_entry(
    account: Account, constraint: str, fields: dict[str, object]
) -> None:
    with pytest.raises(IntegrityError, match=constraint):
        entry(account, **fields)


@pytest.mark.parametrize("source_or_target", ["source", "target"])
def test_purchased_credits_cannot_name_a_grant(account: Account, source_or_target: str) -> None:
    other = {"source": "target", "target": "source"}[source_or_target]
    sides = {source_or_target: "purchased", other: "held"}
    with pytest.raises(IntegrityError, match="entry_of_purchased_names_no_grant"):
        entry(account, **sides, job_id=2, grant=account.grants.get())


def test_stored_balances_equal_the_sums_of_the_entries(account: Account) -> None:
    assert list(ledger.verify()) == []
    balance = Balance.objects.get(account=account)
    assert (balance.purchased, balance.reserved, Grant.objects.get().remaining) == (85, 20, 0)


def test_a_corrupted_shrunk_hold_is_found(account: Account) -> None:
    ledger.shrink(2, keep=5)
    assert list(ledger.verify()) == []
    run("UPDATE billing_hold SET credits = 20 WHERE job_id = 2")
    assert ["credits" in str(found) and "job 2" in str(found) for found in ledger.verify()] == [True, True]


CORRUPTIONS = {
    "UPDATE billing_balance SET purchased = purchased + 1": ["purchased credits of account"],
    "UPDATE billing_balance SET reserved = 0": ["reserved credits of account"],
    "DELETE FROM billing_balance": ["purchased credits of account", "reserved credits of account"],
    "UPDATE billing_grant SET remaining = 1": ["remaining credits of grant"],
    "UPDATE billing_grant SET original = 11": ["original credits of grant"],
    "UPDATE billing_hold SET credits = 21 WHERE job_id = 2": ["total credits held", "credits still held"],
    "UPDATE billing_hold SET spent = 6 WHERE job_id = 1": ["credits spent on job"],
    "UPDATE billing_hold SET spent = NULL, resolved_at = NULL WHERE job_id = 1": [
        "credits still held",
        "credits spent on job",
    ],
    "DELETE FROM billing_hold WHERE job_id = 2": ["total credits held"],
    "UPDATE billing_entry SET credits = credits + 1 WHERE target = 'spent'": [
        "reserved credits of account",
        "credits still held for job",
        "credits spent on job",
        "credits still held for job",
    ],
    "DELETE FROM billing_entry WHERE source = 'outside' AND target = 'purchased'": ["purchased credits of account"],
}


@pytest.mark.usefixtures("_without_triggers")
@pytest.mark.parametrize(("sql", "subjects"), CORRUPTIONS.items(), ids=range(len(CORRUPTIONS)))
def test_verification_finds_changed_rows(sql: str, subjects: list[str]) -> None:
    run(sql)
    discrepancies = list(ledger.verify())
    assert len(discrepancies) == len(subjects), [str(line) for line in discrepancies]
    assert all(line.subject.startswith(start) for line, start in zip(discrepancies, subjects, strict=True))


@pytest.mark.usefixtures("_without_triggers")
def test_verification_finds_credits_returned_to_a_wrong_origin() -> None:
    run(
        "UPDATE billing_entry SET target = 'expired', grant_id = (SELECT id FROM billing_grant) "
        "WHERE source = 'held' AND target = 'purchased'"
    )
    subjects = [line.subject for line in ledger.verify()]
    assert any("from grant" in subject for subject in subjects)
    assert any("from purchased credits" in subject for subject in subjects)


@pytest.mark.usefixtures("_without_triggers")
@pytest.mark.parametrize("table", ["billing_grant", "billing_hold"])
def test_verification_finds_an_entry_of_another_account(table: str) -> None:
    other = make_account(credits=1)
    run(f"UPDATE {table} SET account_id = {other.pk}")  # noqa: S608
    assert any(line.subject.startswith("account of entry") for line in ledger.verify())


def test_a_discrepancy_is_described(account: Account) -> None:
    Balance.objects.update(purchased=99)
    assert [str(line) for line in ledger.verify()] == [
        f"purchased credits of account {account.pk}: stored 99, entries add up to 85"
    ]
