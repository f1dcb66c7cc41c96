"""The page of history rules: its table lists each rule with what keeps it and the mistakes that break it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from django.apps import apps
from django.conf import settings

from billing import ledger
from jobs.execution import conductor, stages, time_limits
from jobs.history import claim_order
from jobs.history.specification import RULES
from jobs.lifecycle import cancellation, job_moves, shard_moves, webhook_events
from jobs.queue import sweep
from jobs.submission import store
from tests.jobs.history.mistakes import MISTAKES
from webhooks import claims, events, retries

PAGE = Path(__file__).parents[2] / "docs/reference/history-rules.md"
STATEMENTS = (job_moves, shard_moves, store, ledger, events, claims, retries)
OWNERS = {
    module.__name__.rpartition(".")[2]: module
    for module in (job_moves, shard_moves, cancellation, webhook_events, sweep, stages, claims, retries)
} | {"Conductor": conductor.Conductor, "Budget": time_limits.Budget, "Stages": stages.Stages}
# Rules whose rows the database refuses, or that only histories written by hand break
BY_HAND = {"shards_have_leases_while_running": "test_a_running_shard_has_a_lease"}


def table() -> Iterator[str]:
    """Yield the rows of the table."""
    made = defaultdict(list)
    for name, mistake in MISTAKES.items():
        made[mistake.rule].append(name)
    described = [(rule.name, rule.subject, rule.sentence, rule.kept_by) for rule in RULES]
    order = (claim_order.RULE, "claim", claim_order.SENTENCE, ("claim_job",))
    for name, subject, sentence, kept_by in [*described, order]:
        mistakes = made[name] or [BY_HAND[name]]
        cells = [subject, sentence, f"`{name}`", listed(kept_by), listed(mistakes)]
        yield f"| {' | '.join(cells)} |"


def listed(names: Iterable[str]) -> str:
    """Return names as code."""
    return ", ".join(f"`{name}`" for name in names)


def test_the_table_is_that_of_the_rules() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    assert lines[2:] == list(table())


def names_of_the_database() -> set[str]:
    """Return the names of all statements, parts, constraints and triggers."""
    constraints = {each.name for model in apps.get_models() for each in model._meta.constraints}
    migrations = Path(settings.BASE_DIR, "jobs/migrations/0002_triggers_and_vacuum.py").read_text()
    triggers = {"jobs_job_guard"} if "CREATE TRIGGER jobs_job_guard" in migrations else set()
    return {name for module in STATEMENTS for name in module.SQL} | constraints | triggers


@pytest.mark.parametrize("name", sorted({name for rule in RULES for name in rule.kept_by}))
def test_what_keeps_a_rule_exists(name: str) -> None:
    owner, _, attribute = name.rpartition(".")
    if owner:
        assert hasattr(OWNERS[owner], attribute)
    else:
        assert name in names_of_the_database() or any(hasattr(module, name) for module in OWNERS.values())
