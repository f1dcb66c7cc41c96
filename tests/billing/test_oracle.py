"""Random sequences of ledger operations, compared with an oracle that moves single credits."""

import random
from itertools import count

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from billing import ledger
from billing.errors import HoldError, InsufficientCredits
from billing.models import Account, GrantReason, Plan
from tests.billing import door
from tests.billing.ledger_state import LONG, expire_now
from tests.billing.oracle import Customer, sweep
from tests.concurrency import at_once
from tests.factories import make_account

# An example has about 150 operations.
STEPS = 60
EXAMPLES = 100 if LONG else 3
OPERATIONS = 200_000 if LONG else 1_000
ROUNDS = 1_000 if LONG else 25
ALLOWANCE = 12

customers = st.integers(0, 1)
# Small amounts, because the edge cases are at single credits.
few = st.sampled_from([1, 1, 2, 3, 5, 8, 12])
many = st.integers(1, 40)
shares = st.integers(0, 105)
days = st.none() | st.integers(1, 3)


def share_of(share: int, held: int) -> int:
    """Return a percentage of a hold in credits; more than the hold if it is over 100."""
    return held * share // 100 if share <= 100 else held + 1


class LedgerMachine(RuleBasedStateMachine):
    """Two customers and all operations of the ledger. Each example is rolled back at its end."""

    accounts: list[Account] = []
    done = 0

    def __init__(self) -> None:
        super().__init__()
        self.customers = [Customer(account, allowance=ALLOWANCE) for account in self.accounts]
        self.acting = self.customers[0]
        self.example = transaction.atomic()
        self.example.__enter__()

    def teardown(self) -> None:
        try:
            assert list(ledger.verify()) == []
        finally:
            transaction.set_rollback(True)
            self.example.__exit__(None, None, None)
            LedgerMachine.done += sum(customer.done for customer in self.customers)

    def act_as(self, who: int) -> Customer:
        """Return a customer, who is compared with the oracle after the step."""
        self.acting = self.customers[who]
        return self.acting

    def has_jobs(self) -> bool:
        return all(customer.jobs for customer in self.customers)

    @invariant()
    def the_ledger_agrees_with_the_oracle(self) -> None:
        self.acting.compare()

    @rule(who=customers, amount=few)
    def purchase(self, who: int, amount: int) -> None:
        self.act_as(who).purchase(amount)

    @rule(who=customers, amount=few, days=days)
    def grant(self, who: int, amount: int, days: int | None) -> None:
        self.act_as(who).grant(amount, days)

    @rule(who=customers)
    def grant_allowance_twice(self, who: int) -> None:
        self.act_as(who).grant_allowance()
        self.acting.grant_allowance()

    @rule(who=customers)
    def let_a_day_pass(self, who: int) -> None:
        self.act_as(who).let_a_day_pass()

    @rule(who=customers, limit=st.integers(1, 3))
    def sweep(self, who: int, limit: int) -> None:
        sweep(self.customers, limit)
        self.act_as(who).check_balances()

    @rule(who=customers, amount=st.integers(-40, 12).filter(bool))
    def correct(self, who: int, amount: int) -> None:
        self.act_as(who).correct(amount)

    @rule(who=customers, amount=many)
    def hold(self, who: int, amount: int) -> None:
        self.act_as(who).hold(amount)

    @rule(who=customers, amount=many, least=few)
    def hold_with_a_minimum(self, who: int, amount: int, least: int) -> None:
        self.act_as(who).hold(amount, least=min(amount, least))

    @precondition(has_jobs)
    @rule(who=customers, which=st.integers(0, 5), amount=few)
    def extend(self, who: int, which: int, amount: int) -> None:
        jobs = self.act_as(who).jobs
        self.acting.extend(jobs[-1 - which % len(jobs)], amount)

    @precondition(has_jobs)
    @rule(who=customers, which=st.integers(0, 5), share=shares)
    def shrink(self, who: int, which: int, share: int) -> None:
        jobs = self.act_as(who).jobs
        job = jobs[-1 - which % len(jobs)]
        self.acting.shrink(job, max(1, share_of(share, self.acting.held_credits(job))))

    @precondition(has_jobs)
    @rule(who=customers, which=st.integers(0, 5), share=shares)
    def settle(self, who: int, which: int, share: int) -> None:
        jobs = self.act_as(who).jobs
        job = jobs[-1 - which % len(jobs)]
        self.acting.settle(job, share_of(share, self.acting.held_credits(job)))

    @rule(who=customers, amount=st.sampled_from([0, -1, 10**12 + 1, 10**30]))
    def request_invalid_amount(self, who: int, amount: int) -> None:
        self.act_as(who).request_invalid_amount(amount)
        self.acting.check_balances()

    # Sequences that random choices rarely produce

    @rule(who=customers, amounts=st.tuples(few, few), held=many, share=shares)
    def grants_expire_together_while_held(self, who: int, amounts: tuple[int, int], held: int, share: int) -> None:
        customer = self.act_as(who)
        for amount in amounts:
            customer.grant(amount, 1)
        job = customer.hold(min(held, customer.free()))
        customer.let_a_day_pass()
        customer.compare()
        customer.settle(job, share_of(share, customer.held_credits(job)))
        customer.check_balances()

    @rule(who=customers, amount=few, more=few, share=shares)
    def a_hold_is_extended_after_its_origin_expired(self, who: int, amount: int, more: int, share: int) -> None:
        customer = self.act_as(who)
        customer.grant(amount, 1)
        job = customer.hold(amount)
        customer.let_a_day_pass()
        customer.grant(more // 2 + 1, 2)
        customer.extend(job, more)
        customer.compare()
        customer.settle(job, share_of(share, customer.held_credits(job)))
        customer.settle(job, 0)

    @rule(who=customers, amounts=st.tuples(few, few), more=few, nights=st.integers(0, 1), share=shares)
    def a_hold_shrinks_and_is_extended(
        self, who: int, amounts: tuple[int, int], more: int, nights: int, share: int
    ) -> None:
        customer = self.act_as(who)
        for days, amount in enumerate(amounts, start=1):
            customer.grant(amount, days)
        job = customer.hold(customer.free())
        for _ in range(nights):
            customer.let_a_day_pass()
        for keep in (amounts[0], 1):
            customer.shrink(job, keep)
            customer.compare()
        customer.purchase(more)
        customer.extend(job, more)
        customer.compare()
        customer.settle(job, share_of(share, customer.held_credits(job)))

    @rule(who=customers, amounts=st.tuples(few, few), nights=st.integers(0, 1), share=shares)
    def a_hold_is_extended_from_an_earlier_expiry(
        self, who: int, amounts: tuple[int, int], nights: int, share: int
    ) -> None:
        customer = self.act_as(who)
        customer.grant(amounts[0], None)
        job = customer.hold(customer.free())
        customer.grant(amounts[1], 1)
        customer.extend(job, amounts[1])
        for _ in range(nights):
            customer.let_a_day_pass()
        customer.settle(job, share_of(share, customer.held_credits(job)))

    @rule(who=customers, amount=few, held=few)
    def the_rest_of_a_grant_expires(self, who: int, amount: int, held: int) -> None:
        customer = self.act_as(who)
        customer.grant(amount, 1)
        customer.hold(min(held, amount))
        customer.let_a_day_pass()
        customer.check_balances()
        sweep(self.customers, 1)

    @rule(amount=few, share=shares)
    def two_customers_take_turns(self, amount: int, share: int) -> None:
        jobs = []
        for customer in self.customers:
            customer.purchase(amount)
            jobs.append(customer.hold(customer.free()))
        for customer, job in zip(reversed(self.customers), reversed(jobs), strict=True):
            customer.settle(job, share_of(share, customer.held_credits(job)))
            customer.compare()


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600 if LONG else 600)  # mostly for shrinking a failing example
@pytest.mark.django_db(transaction=True)
def test_the_ledger_agrees_with_the_oracle() -> None:
    LedgerMachine.accounts = [make_account(credits=0) for _ in range(2)]
    Plan.objects.update(monthly_credits=ALLOWANCE)
    for account in LedgerMachine.accounts:
        account.plan.refresh_from_db()
    thoroughly = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    while LedgerMachine.done < OPERATIONS:
        run_machine(LedgerMachine, settings=thoroughly)
    print(f"{LedgerMachine.done} operations")  # noqa: T201 - the size of the test


def act_on_shared_account(account: Account, chance: random.Random, job_id: int) -> None:
    """Change an account that other threads change too; some of the operations must fail."""
    try:
        door.hold(account, chance.randint(1, 40), job_id=job_id)
        ledger.extend(job_id, chance.randint(1, 40))
    except (InsufficientCredits, HoldError):
        ledger.correct(account, chance.randint(1, 30), reason="paid")
    try:
        door.settle(job_id - chance.randint(0, 9), spent=chance.randint(0, 20))
    except HoldError:
        granted = ledger.grant(account, chance.randint(1, 30), reason=GrantReason.GRANT_PROMO, note="given")
        expire_now(chance.choice([granted, granted.account.grants.earliest("id")]))
        ledger.expire_grants(2)


def act_on_own_account(customer: Customer, chance: random.Random) -> None:
    """Change an account that only the sweep changes too, and compare it with the oracle."""
    customer.grant(chance.randint(1, 12), chance.choice([None, 1, 2]))
    job = customer.hold(chance.randint(1, 30))
    customer.extend(job, chance.randint(1, 12))
    if chance.random() < 0.3:
        customer.let_a_day_pass()
    customer.settle(job, chance.randint(0, customer.held_credits(job) + 1))
    customer.check_balances()


@pytest.mark.slow
@pytest.mark.timeout(3600 if LONG else 120)
@pytest.mark.django_db(transaction=True)
def test_the_ledger_is_consistent_after_concurrent_operations() -> None:
    shared = [make_account(credits=100) for _ in range(2)]
    ids = count(10**9)
    seeds = count()
    done: list[int] = []

    def work() -> None:
        chance = random.Random(next(seeds))  # noqa: S311
        customer = Customer(make_account(credits=0))
        for _ in range(ROUNDS):
            act_on_shared_account(chance.choice(shared), chance, next(ids))
            act_on_own_account(customer, chance)
        done.append(customer.done + 2 * ROUNDS)

    at_once(4, work)
    print(f"{sum(done)} operations at once")  # noqa: T201 - the size of the test
    assert len(done) == 4
    assert list(ledger.verify()) == []
