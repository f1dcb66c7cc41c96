"""Any order of anything one can do to the book, against an oracle that moves single credits."""

import random
from itertools import count

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from billing import ledger
from billing.ledger import HoldError, InsufficientCredits
from billing.models import Account, GrantReason, Plan
from tests.billing.books import LONG, expire_now
from tests.billing.oracle import Customer, sweep
from tests.concurrency import at_once
from tests.factories import make_account

# An example comes to some 150 operations.
STEPS = 60
EXAMPLES = 100 if LONG else 3
OPERATIONS = 200_000 if LONG else 1_000
ROUNDS = 1_000 if LONG else 25
ALLOWANCE = 12

customers = st.integers(0, 1)
# Single credits are where the edges are.
few = st.sampled_from([1, 1, 2, 3, 5, 8, 12])
many = st.integers(1, 40)
shares = st.integers(0, 105)
days = st.none() | st.integers(1, 3)


def of(share: int, held: int) -> int:
    """Return a share of a hold in credits; over a hundred is more than there is."""
    return held * share // 100 if share <= 100 else held + 1


class BookMachine(RuleBasedStateMachine):
    """Two customers and every door of the ledger. All of an example is rolled back when it ends."""

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
            BookMachine.done += sum(customer.done for customer in self.customers)

    def one(self, who: int) -> Customer:
        """Return a customer, who is looked at after the step."""
        self.acting = self.customers[who]
        return self.acting

    def has_jobs(self) -> bool:
        return all(customer.jobs for customer in self.customers)

    @invariant()
    def the_book_is_as_the_oracle_says(self) -> None:
        self.acting.compare()

    @rule(who=customers, amount=few)
    def purchase(self, who: int, amount: int) -> None:
        self.one(who).purchase(amount)

    @rule(who=customers, amount=few, days=days)
    def grant(self, who: int, amount: int, days: int | None) -> None:
        self.one(who).grant(amount, days)

    @rule(who=customers)
    def grant_allowance_twice(self, who: int) -> None:
        self.one(who).grant_allowance()
        self.acting.grant_allowance()

    @rule(who=customers)
    def sleep(self, who: int) -> None:
        self.one(who).sleep()

    @rule(who=customers, limit=st.integers(1, 3))
    def sweep(self, who: int, limit: int) -> None:
        sweep(self.customers, limit)
        self.one(who).look()

    @rule(who=customers, amount=st.integers(-40, 12).filter(bool))
    def correct(self, who: int, amount: int) -> None:
        self.one(who).correct(amount)

    @rule(who=customers, amount=many)
    def hold(self, who: int, amount: int) -> None:
        self.one(who).hold(amount)

    @rule(who=customers, amount=many, least=few)
    def hold_what_there_is(self, who: int, amount: int, least: int) -> None:
        self.one(who).hold(amount, least=min(amount, least))

    @precondition(has_jobs)
    @rule(who=customers, which=st.integers(0, 5), amount=few)
    def extend(self, who: int, which: int, amount: int) -> None:
        jobs = self.one(who).jobs
        self.acting.extend(jobs[-1 - which % len(jobs)], amount)

    @precondition(has_jobs)
    @rule(who=customers, which=st.integers(0, 5), share=shares)
    def settle(self, who: int, which: int, share: int) -> None:
        jobs = self.one(who).jobs
        job = jobs[-1 - which % len(jobs)]
        self.acting.settle(job, of(share, self.acting.held(job)))

    @rule(who=customers, amount=st.sampled_from([0, -1, 10**12 + 1, 10**30]))
    def blunder(self, who: int, amount: int) -> None:
        self.one(who).blunder(amount)
        self.acting.look()

    # Histories that chance alone rarely finds

    @rule(who=customers, amounts=st.tuples(few, few), held=many, share=shares)
    def grants_expire_together_while_held(self, who: int, amounts: tuple[int, int], held: int, share: int) -> None:
        customer = self.one(who)
        for amount in amounts:
            customer.grant(amount, 1)
        job = customer.hold(min(held, customer.free()))
        customer.sleep()
        customer.compare()
        customer.settle(job, of(share, customer.held(job)))
        customer.look()

    @rule(who=customers, amount=few, more=few, share=shares)
    def a_hold_is_extended_after_its_source_expired(self, who: int, amount: int, more: int, share: int) -> None:
        customer = self.one(who)
        customer.grant(amount, 1)
        job = customer.hold(amount)
        customer.sleep()
        customer.grant(more // 2 + 1, 2)
        customer.extend(job, more)
        customer.compare()
        customer.settle(job, of(share, customer.held(job)))
        customer.settle(job, 0)

    @rule(who=customers, amounts=st.tuples(few, few), nights=st.integers(0, 1), share=shares)
    def a_hold_is_extended_from_a_source_that_expires_sooner(
        self, who: int, amounts: tuple[int, int], nights: int, share: int
    ) -> None:
        customer = self.one(who)
        customer.grant(amounts[0], None)
        job = customer.hold(customer.free())
        customer.grant(amounts[1], 1)
        customer.extend(job, amounts[1])
        for _ in range(nights):
            customer.sleep()
        customer.settle(job, of(share, customer.held(job)))

    @rule(who=customers, amount=few, held=few)
    def what_was_left_expires(self, who: int, amount: int, held: int) -> None:
        customer = self.one(who)
        customer.grant(amount, 1)
        customer.hold(min(held, amount))
        customer.sleep()
        customer.look()
        sweep(self.customers, 1)

    @rule(amount=few, share=shares)
    def two_customers_take_turns(self, amount: int, share: int) -> None:
        jobs = []
        for customer in self.customers:
            customer.purchase(amount)
            jobs.append(customer.hold(customer.free()))
        for customer, job in zip(reversed(self.customers), reversed(jobs), strict=True):
            customer.settle(job, of(share, customer.held(job)))
            customer.compare()


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600 if LONG else 600)  # most of it to find a short history that fails
@pytest.mark.django_db(transaction=True)
def test_the_book_agrees_with_the_oracle_whatever_happens() -> None:
    BookMachine.accounts = [make_account(credits=0) for _ in range(2)]
    Plan.objects.update(monthly_credits=ALLOWANCE)
    for account in BookMachine.accounts:
        account.plan.refresh_from_db()
    thoroughly = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    while BookMachine.done < OPERATIONS:
        run_machine(BookMachine, settings=thoroughly)
    print(f"{BookMachine.done} operations")  # noqa: T201 - the size of the proof


def act(account: Account, chance: random.Random, job_id: int) -> None:
    """Do a few things to an account, some of which must be refused, also because somebody else was first."""
    try:
        ledger.hold(account, chance.randint(1, 40), job_id=job_id)
        ledger.extend(job_id, chance.randint(1, 40))
    except (InsufficientCredits, HoldError):
        ledger.purchase(account, chance.randint(1, 30), reason="paid")
    try:
        ledger.settle(job_id - chance.randint(0, 9), spent=chance.randint(0, 20))
    except HoldError:
        granted = ledger.grant(account, chance.randint(1, 30), reason=GrantReason.GRANT_PROMO, note="given")
        expire_now(chance.choice([granted, granted.account.grants.earliest("id")]))
        ledger.expire_grants(2)


def act_alone(customer: Customer, chance: random.Random) -> None:
    """Do a few things to an account that only the sweep touches too, and see that it is as it should be."""
    customer.grant(chance.randint(1, 12), chance.choice([None, 1, 2]))
    job = customer.hold(chance.randint(1, 30))
    customer.extend(job, chance.randint(1, 12))
    if chance.random() < 0.3:
        customer.sleep()
    customer.settle(job, chance.randint(0, customer.held(job) + 1))
    customer.look()


@pytest.mark.slow
@pytest.mark.timeout(3600 if LONG else 120)
@pytest.mark.django_db(transaction=True)
def test_the_book_is_right_after_many_did_anything_at_once() -> None:
    shared = [make_account(credits=100) for _ in range(2)]
    ids = count(10**9)
    seeds = count()
    done: list[int] = []

    def work() -> None:
        chance = random.Random(next(seeds))  # noqa: S311
        customer = Customer(make_account(credits=0))
        for _ in range(ROUNDS):
            act(chance.choice(shared), chance, next(ids))
            act_alone(customer, chance)
        done.append(customer.done + 2 * ROUNDS)

    at_once(4, work)
    print(f"{sum(done)} operations at once")  # noqa: T201 - the size of the proof
    assert len(done) == 4
    assert list(ledger.verify()) == []
