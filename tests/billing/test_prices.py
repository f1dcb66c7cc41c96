"""The price that a dry run announces, compared with the bill of a run of that length."""

import random

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.models import Hold
from billing.prices import in_words
from jobs.enums import Status
from jobs.execution.time_limits import Budget
from jobs.lifecycle import job_moves
from jobs.lifecycle.job_moves import Outcome
from jobs.models import Job
from jobs.planning.estimates import Estimate, Range
from tests.factories import make_running_job

# Lengths on both sides of a whole second are more interesting than others.
LENGTHS = st.one_of(
    st.integers(0, 4_000_000),
    st.builds(lambda seconds, off: max(0, 1000 * seconds + off), st.integers(0, 4_000), st.integers(-2, 2)),
)
RATES = st.one_of(st.integers(1, 100), st.integers(1, 10**6))
CAPPED_SECONDS = st.integers(1, 4_000)


def announced(milliseconds: int, *, rate: int, ceiling: int) -> int:
    """Return the highest price in the dry run of a job that is expected to take at most this long."""
    seconds = milliseconds / 1000
    estimate = Estimate(
        seconds=Range(low=seconds, expected=seconds, high=seconds), jobs=1, is_own=True, on_build=True
    )
    return estimate.credits(credits_per_second=rate, ceiling=ceiling).high


def terms(*, rate: int, ceiling: int) -> dict[str, int]:
    return {
        "credits_per_second": rate, "ceiling_credits": ceiling, "ceiling_runtime_seconds": ceiling // rate,
    }  # fmt: skip


def charged(job: Job, milliseconds: int, *, held: int) -> int:
    """Return the charge for a run that needs this long and is stopped at its cap."""
    budget = Budget.of(job, hold_credits=held)
    is_capped = milliseconds > 1000 * budget.seconds
    return budget.charge(min(milliseconds, 1000 * budget.seconds), is_capped=is_capped)


@settings(max_examples=3_000)
@given(milliseconds=LENGTHS, rate=RATES, capped_seconds=CAPPED_SECONDS, rest=st.floats(0, 1, exclude_max=True))
def test_the_announced_price_is_the_bill(milliseconds: int, rate: int, capped_seconds: int, rest: float) -> None:
    ceiling = capped_seconds * rate + int(rest * rate)
    job = Job(**terms(rate=rate, ceiling=ceiling))
    assert charged(job, milliseconds, held=ceiling) == announced(milliseconds, rate=rate, ceiling=ceiling)


@settings(max_examples=1_000)
@given(milliseconds=LENGTHS, rate=RATES)
def test_each_started_second_is_billed_in_full(milliseconds: int, rate: int) -> None:
    price = announced(milliseconds, rate=rate, ceiling=10**12)
    assert price % rate == 0
    assert 0 <= 1000 * price - milliseconds * rate < 1000 * rate


@pytest.mark.slow
@pytest.mark.django_db
def test_the_settlement_bills_the_announced_price() -> None:
    """Each run ends in a transaction that is rolled back."""
    job, chance = make_running_job(held_credits=10**6), random.Random(5)  # noqa: S311
    for _ in range(2_000):
        rate, fee = chance.randint(1, 100), chance.choice([0, 320])
        ceiling = chance.randint(rate, 9_000)
        milliseconds = chance.choice([chance.randint(0, 200_000), 1000 * chance.randint(0, 200)])
        with transaction.atomic():
            Job.objects.update(priority_fee_credits=fee, **terms(rate=rate, ceiling=ceiling))
            job.refresh_from_db()
            charge = charged(job, milliseconds, held=10**6) + fee
            assert job_moves.finish(job, Outcome(status=Status.COMPLETED, summary={}, credits_consumed=charge))
            spent = Hold.objects.get(pk=job.pk).spent
            transaction.set_rollback(True)
        assert spent == announced(milliseconds, rate=rate, ceiling=ceiling) + fee


@pytest.mark.parametrize(
    ("milliseconds", "fee", "charged", "slots", "text"),
    [
        (1300, 0, 64, 1, "2 s billed (1.3 s, rounded up) × 32 credits = 64"),
        (2000, 0, 64, None, "2 s × 32 credits = 64"),
        (1970, 0, 64, None, "2 s billed (1.97 s, rounded up) × 32 credits = 64"),
        (91_200, 320, 3264, 3, "92 s billed (91.2 s on 3 slots, rounded up) × 32 credits + 320 fee = 3,264"),
        (
            5_000_100,
            0,
            57_600,
            None,
            "5,001 s billed (5,000.1 s, rounded up) × 32 credits, charged up to the reserved 57,600 credits",
        ),
        (6001, 0, 224, None, "7 s billed (6.001 s, rounded up) × 32 credits = 224"),
        (6000, 0, 192, 2, "6 s on 2 slots × 32 credits = 192"),
        (None, 0, 0, None, "Not charged, because no simulator ran"),
        (None, 320, 320, None, "Fee: 320 credits"),
    ],
)
def test_a_bill_adds_up_in_words(
    milliseconds: int | None, fee: int, charged: int, slots: int | None, text: str
) -> None:
    assert in_words(milliseconds, credits_per_second=32, fee=fee, charged=charged, slots=slots) == text
