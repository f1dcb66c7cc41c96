"""How long credits last at the current pace."""

from datetime import UTC, date, datetime, timedelta

import pytest

from billing.ledger import Balances, OpenGrant
from billing.models import GrantReason
from billing.pace import MAX_DAYS, PERIOD_DAYS, pace_of

TODAY = date(2026, 11, 20)


def balances(purchased: int, *grants: tuple[int, int | None]) -> Balances:
    """Return balances with grants of these credits, which expire after a number of days."""
    opened = [
        OpenGrant(
            id=number,
            reason=GrantReason.GRANT_PROMO,
            note="",
            remaining=amount,
            original=amount,
            expires_at=None if days is None else datetime(2026, 11, 20, 12, tzinfo=UTC) + timedelta(days=days),
        )
        for number, (amount, days) in enumerate(grants)
    ]
    return Balances(purchased=purchased, reserved=0, grants=opened)


def charges(*amounts: int) -> list[tuple[date, int]]:
    """Return the charges of the days before today, which has a large one."""
    first = TODAY - timedelta(days=len(amounts))
    return [*((first + timedelta(days=number), amount) for number, amount in enumerate(amounts)), (TODAY, 10**6)]


@pytest.mark.parametrize(
    ("left", "days"),
    [
        (balances(1000), 10),
        (balances(1050), 10),
        (balances(99), 0),
        # Only what is spent before a grant expires counts.
        (balances(100, (1000, 4)), 5),
        (balances(0, (150, None)), 1),
        (balances(100 * MAX_DAYS), None),
    ],
)
def test_credits_last_until_they_are_spent(left: Balances, days: int | None) -> None:
    pace = pace_of(charges(*[100] * 7), left, today=TODAY)
    assert pace is not None
    assert pace.last_day == (None if days is None else TODAY + timedelta(days=days))


def test_days_before_the_first_charge_do_not_count() -> None:
    pace = pace_of(charges(0, 0, 70, 70, 70, 0, 70, 70, 70, 70), balances(1), today=TODAY)
    assert pace is not None
    assert (pace.days, pace.per_day) == (8, 490 / 8)


def test_only_the_last_four_weeks_count() -> None:
    pace = pace_of(charges(9_000, *[100] * PERIOD_DAYS), balances(1000), today=TODAY)
    assert pace is not None
    assert (pace.days, pace.per_day) == (PERIOD_DAYS, 100)


def test_few_days_with_charges_allow_no_forecast() -> None:
    assert pace_of(charges(*[100] * 6), balances(1000), today=TODAY) is None
    assert pace_of(charges(*[100] * 7), balances(0), today=TODAY) is None
