"""Data migrations of grants and plans."""

from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from simservice.ids import next_id

pytestmark = pytest.mark.django_db(transaction=True)
BEFORE, AFTER = ("billing", "0005_submission_bytes"), ("billing", "0006_grant_reasons_and_pools")


def migrate(target: tuple[str, str]) -> Any:
    """Migrate the database to a migration and return the models at that point."""
    MigrationExecutor(connection).migrate([target])
    return MigrationExecutor(connection).loader.project_state([target]).apps


@pytest.fixture
def old() -> Any:
    """Yield the models before the migration."""
    yield migrate(BEFORE)
    MigrationExecutor(connection).migrate(MigrationExecutor(connection).loader.graph.leaf_nodes())


def grant(models: Any, account: Any, reason: str, month: date | None) -> None:
    """Create a grant in the format before the migration."""
    models.get_model("billing", "Grant").objects.create(
        id=next_id(),
        account=account,
        reason=reason,
        original=5,
        created_at=datetime.now(tz=UTC),
        allowance_month=month,
    )


@pytest.mark.slow
def test_migration_0006_keeps_the_notes_of_operators(old: Any) -> None:
    plan = old.get_model("billing", "Plan").objects.create(name="old", pool="shared")
    account = old.get_model("billing", "Account").objects.create(name="old", plan=plan)
    grant(old, account, "For the <b>outage</b>", None)
    grant(old, account, "Monthly allowance", date(2026, 11, 1))
    new = migrate(AFTER)
    rows = new.get_model("billing", "Grant").objects.order_by("id").values_list("reason", "note")
    assert list(rows) == [("grant_promo", "For the <b>outage</b>"), ("allowance", "")]
    assert new.get_model("billing", "Plan").objects.get(name="old").pool == "standard"
    again = migrate(BEFORE).get_model("billing", "Grant").objects.order_by("id").values_list("reason", flat=True)
    assert list(again) == ["For the <b>outage</b>", "Monthly allowance"]
