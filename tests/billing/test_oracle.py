"""Any order of anything one can do to the book, against an oracle that moves single coins."""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Sum
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from billing import ledger
from billing.ledger import HoldError, InsufficientCredits
from billing.models import Account, Entry, Grant
from tests.billing.books import LONG, expire_now
from tests.concurrency import at_once
from tests.factories import make_account

STEPS = 50
EXAMPLES = 4_200 if LONG else 8
ROUNDS = 2_000 if LONG else 25
amounts = st.integers(1, 30)


@dataclass(kw_only=True, eq=False)
class Source:
    """Where coins come from: a grant, or all that was purchased. Lower ranks are spent first."""

    grant: Grant | None
    rank: tuple[int, int]
    expired: bool = False


@dataclass(kw_only=True, eq=False)
class Coin:
    """One credit. It lies free, in a job's hold, or is gone."""

    source: Source
    place: str | int = "free"


@dataclass(eq=False)
class Purse:
    """The oracle's idea of an account."""

    account: Account
    purchased: Source = field(default_factory=lambda: Source(grant=None, rank=(9**9, 0)))
    coins: list[Coin] = field(default_factory=list)

    def add(self, source: Source, credits: int) -> None:  # noqa: A002
        """Put new coins in."""
        self.coins += [Coin(source=source) for _ in range(credits)]

    def at(self, place: str | int) -> list[Coin]:
        """Return the coins at a place in the order of spending."""
        return sorted((coin for coin in self.coins if coin.place == place), key=lambda coin: coin.source.rank)

    def free(self) -> list[Coin]:
        """Return the coins that can be spent."""
        return [coin for coin in self.at("free") if not coin.source.expired]

    def seen(self) -> tuple[int, int, list[tuple[int, int]]]:
        """Return what an onlooker is told: purchased, reserved, and each grant with what remains of it."""
        remaining: dict[int, int] = {}
        for coin in self.free():
            if coin.source.grant:
                remaining[coin.source.grant.pk] = remaining.get(coin.source.grant.pk, 0) + 1
        purchased = sum(coin.source is self.purchased for coin in self.free())
        return purchased, sum(isinstance(coin.place, int) for coin in self.coins), list(remaining.items())


def put(coins: Iterable[Coin], place: str | int) -> None:
    """Move coins to a place."""
    for coin in coins:
        coin.place = place


def confirm(shortage: InsufficientCredits, free: list[Coin], asked: int) -> None:
    """Agree that only so many coins were free."""
    assert shortage.available == len(free) < asked


class BookMachine(RuleBasedStateMachine):
    """Three customers, and every door of the ledger. All of an example is rolled back when it ends."""

    sources = Bundle("sources")
    jobs = Bundle("jobs")

    def __init__(self) -> None:
        super().__init__()
        self.example = transaction.atomic()
        self.example.__enter__()
        self.serial = 0

    def teardown(self) -> None:
        discrepancies = list(ledger.verify())
        transaction.set_rollback(True)
        self.example.__exit__(None, None, None)
        assert discrepancies == []

    def next(self) -> int:
        """Return a number greater than all before."""
        self.serial += 1
        return self.serial

    @initialize()
    def open(self) -> None:
        self.purses = [Purse(make_account(credits=0)) for _ in range(3)]

    @rule(who=st.integers(0, 2), credits=amounts)
    def purchase(self, who: int, credits: int) -> None:  # noqa: A002
        purse = self.purses[who]
        ledger.purchase(purse.account, credits, reason="paid")
        purse.add(purse.purchased, credits)

    @rule(target=sources, who=st.integers(0, 2), credits=amounts, days=st.none() | st.integers(1, 4))
    def grant(self, who: int, credits: int, days: int | None) -> Source:  # noqa: A002
        purse = self.purses[who]
        # Whole days after one moment, so that some expire together.
        expires_at = (
            timezone.now().replace(minute=0, second=0, microsecond=0) + timedelta(days=days) if days else None
        )
        granted = ledger.grant(purse.account, credits, reason="given", expires_at=expires_at)
        source = Source(grant=granted, rank=(days or 9**8, self.next()))
        purse.add(source, credits)
        return source

    @rule(source=consumes(sources))
    def expire(self, source: Source) -> None:
        assert source.grant
        expire_now(source.grant)
        source.expired, source.rank = True, (-1, self.next())

    @rule(limit=st.integers(1, 3))
    def sweep(self, limit: int) -> None:
        due = {coin.source for purse in self.purses for coin in purse.at("free") if coin.source.expired}
        swept = sorted(due, key=lambda source: source.rank)[:limit]
        assert ledger.expire_grants(limit) == len(swept)
        put((coin for purse in self.purses for coin in purse.at("free") if coin.source in swept), "expired")

    @rule(target=jobs, who=st.integers(0, 2), credits=amounts)
    def hold(self, who: int, credits: int) -> Any:  # noqa: A002
        purse, job = self.purses[who], self.next()
        taken = purse.free()[:credits]
        try:
            ledger.hold(purse.account, credits, job_id=job)
        except InsufficientCredits as shortage:
            confirm(shortage, taken, credits)
            return multiple()
        assert len(taken) == credits
        put(taken, job)
        return (purse, job)

    @rule(held=jobs, credits=amounts)
    def extend(self, held: tuple[Purse, int], credits: int) -> None:  # noqa: A002
        purse, job = held
        taken = purse.free()[:credits]
        open_before = bool(purse.at(job))
        try:
            ledger.extend(job, credits)
        except InsufficientCredits as shortage:
            assert open_before
            confirm(shortage, taken, credits)
        except HoldError:
            assert not open_before
        else:
            assert open_before
            assert len(taken) == credits
            put(taken, job)

    @rule(held=jobs, share=st.integers(0, 105))
    def settle(self, held: tuple[Purse, int], share: int) -> None:
        purse, job = held
        coins = purse.at(job)
        spent = len(coins) * share // 100 if share <= 100 else len(coins) + 1
        try:
            ledger.settle(job, spent=spent)
        except HoldError:
            assert spent > len(coins) or not coins
            return
        assert coins
        put(coins[:spent], "spent")
        for coin in coins[spent:]:
            coin.place = "expired" if coin.source.expired else "free"

    @rule(who=st.integers(0, 2), credits=amounts)
    def take_away(self, who: int, credits: int) -> None:  # noqa: A002
        purse = self.purses[who]
        taken = purse.free()[::-1][:credits]
        try:
            ledger.correct(purse.account, -credits, reason="a mistake")
        except InsufficientCredits as shortage:
            confirm(shortage, taken, credits)
        else:
            assert len(taken) == credits
            put(taken, "outside")

    @invariant()
    def the_book_is_as_the_oracle_says(self) -> None:
        for purse in self.purses:
            found = ledger.balances(purse.account)
            grants = [(grant.id, grant.remaining) for grant in found.grants]
            assert (found.purchased, found.reserved, grants) == purse.seen()
            gone = Entry.objects.filter(account=purse.account, target__in=["spent", "expired"])
            booked = dict(gone.order_by().values_list("target").annotate(Sum("credits")))
            assert booked == Counter(coin.place for coin in purse.coins if coin.place in ("spent", "expired"))


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600 if LONG else 120)
@pytest.mark.django_db(transaction=True)
def test_the_book_agrees_with_the_oracle_whatever_happens() -> None:
    thoroughly = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_machine(BookMachine, settings=thoroughly)


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
        granted = ledger.grant(account, chance.randint(1, 30), reason="given")
        expire_now(chance.choice([granted, granted.account.grants.earliest("id")]))
        ledger.expire_grants(2)


@pytest.mark.slow
@pytest.mark.timeout(3600 if LONG else 120)
@pytest.mark.django_db(transaction=True)
def test_the_book_is_right_after_many_did_anything_at_once() -> None:
    accounts = [make_account(credits=100) for _ in range(2)]
    ids = iter(range(1, 10**9))
    seeds = iter(range(4))
    done: list[int] = []

    def work() -> None:
        chance = random.Random(next(seeds))  # noqa: S311
        for _ in range(ROUNDS):
            act(chance.choice(accounts), chance, next(ids))
        done.append(ROUNDS)

    at_once(4, work)
    assert len(done) == 4
    assert list(ledger.verify()) == []
