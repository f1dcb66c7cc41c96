"""The model of sharded jobs: all reachable states satisfy the invariants, and each broken rule violates one."""

import sys
from dataclasses import fields, replace

import pytest

from tests.billing.ledger_state import LONG
from tests.jobs.shards.model.explorer import Exploration
from tests.jobs.shards.model.rules import Bounds, Model, Rules
from tests.jobs.shards.model.state import Status, first_state
from tests.jobs.shards.model.steps import Move
from tests.shard_invariants import Invariant

QUICK = {
    "one fault, time for two shards": Bounds(faults=1, funded=2),
}
# They take six minutes and 1 GB.
LONGEST = {
    "one fault": Bounds(faults=1, longest_run=1),
    "two faults, two shards": Bounds(faults=2, shards=2, funded=2, longest_run=1),
    "one fault, extensions": Bounds(faults=1),
    "two faults": Bounds(faults=2, longest_run=1),
    "two faults, time for two shards": Bounds(faults=2, funded=2, longest_run=1),
}
BROKEN = [
    ("claim_takes_waiting_shards", Invariant.ONE_TRY),
    ("leases_protect_shards", Invariant.ONE_TRY),
    ("seats_are_limited", Invariant.SEATS),
    ("job_end_checks_attempt", Invariant.END_IS_FINAL),
    ("merge_waits_for_all", Invariant.COMPLETE),
    ("merge_reads_each_shard_once", Invariant.COMPLETE),
    ("bill_ignores_lost_tries", Invariant.BILL),
    ("claim_checks_funds", Invariant.ALLOWANCES),
    ("run_stops_at_allowance", Invariant.ALLOWANCES),
    ("finish_checks_status", Invariant.ALLOWANCES),
    ("claim_yields_to_jobs", Invariant.QUEUE_ORDER),
    ("conductor_runs_all_shards", Invariant.BUSY_CONDUCTOR),
    ("shard_leases_expire", Invariant.PROGRESS),
    ("claim_checks_cancel", Invariant.CANCEL),
    ("finish_checks_attempt", Invariant.ZOMBIE),
    ("finish_checks_try", Invariant.ZOMBIE),
    ("file_names_contain_try", Invariant.ZOMBIE),
    ("stop_of_waiting_has_no_report", Invariant.ZOMBIE),
    ("return_is_free", Invariant.FREE_RETURN),
    ("adoption_checks_attempt", Invariant.ZOMBIE),
    ("adoption_frees_allowances", Invariant.ALLOWANCES),
    ("claim_works_without_message", Invariant.MESSAGES),
]


def explore(bounds: Bounds) -> None:
    """Explore all states, and print their number."""
    exploration = Exploration(Model(bounds=bounds))
    violation = exploration.run()
    assert violation is None, str(violation)
    sys.stdout.write(f"\n{len(exploration.states):,} states, {exploration.steps:,} steps\n")


@pytest.mark.parametrize("name", QUICK)
def test_all_reachable_states_satisfy_the_invariants(name: str) -> None:
    """Explore a model of job A with three shards, job B, two conductors and two helpers."""
    explore(QUICK[name])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not LONG, reason="takes six minutes")
@pytest.mark.parametrize("name", LONGEST)
def test_a_larger_model_satisfies_the_invariants(name: str) -> None:
    """Explore more states."""
    explore(LONGEST[name])


@pytest.mark.parametrize(("rule", "invariant"), BROKEN)
def test_a_broken_rule_violates_its_invariant(rule: str, invariant: Invariant) -> None:
    """Break a rule, and find the shortest history that violates exactly one invariant."""
    rules = replace(Rules(), **{rule: False})
    violation = Exploration(Model(rules=rules, bounds=Bounds(faults=1, funded=3))).run()
    assert violation is not None
    assert violation.invariants == {invariant}, str(violation)


def test_each_rule_and_each_invariant_is_tested() -> None:
    """A rule that is never broken could be superfluous, and an invariant that never fails could be empty."""
    assert {rule for rule, _ in BROKEN} == {field.name for field in fields(Rules)}
    assert {invariant for _, invariant in BROKEN} == set(Invariant)


def test_a_cycle_of_steps_is_found() -> None:
    """A history can go from state 0 to state 1, from there to state 2, and back to state 1."""
    exploration = Exploration(Model(), states=[first_state(faults=0)] * 3, ways=[[1], [2], [1]])
    assert list(exploration.cyclic()) == [1, 2]


def test_each_step_and_each_end_of_a_job_occurs() -> None:
    """A step that never occurs would leave the invariants untested."""
    exploration = Exploration(Model(bounds=Bounds(faults=1, shards=2, losses=1, funded=3)))
    assert exploration.run() is None
    assert exploration.moves == set(Move)
    assert {state.job.status for state in exploration.states} == set(Status)
