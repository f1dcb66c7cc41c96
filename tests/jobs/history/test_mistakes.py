"""Mistakes in moves, statements and the lifecycle are found in the history that they leave."""

import pytest

from jobs.history.specification import RULES
from tests.jobs.history.histories import rules_broken
from tests.jobs.history.mistakes import MISTAKES

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule, make = MISTAKES[name]
    make(monkeypatch)
    assert rule in rules_broken(lock_seconds=0.0)


def test_every_rule_has_a_mistake() -> None:
    broken = {mistake.rule for mistake in MISTAKES.values()}
    # The database refuses the rows that break it.
    assert {rule.name for rule in RULES} - broken == {"shards_have_leases_while_running"}
