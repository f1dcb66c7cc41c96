"""The price of simulator time: `docs/reference/limits.md#billing`."""


def of_time(milliseconds: int, *, credits_per_second: int) -> int:
    """Return the credits for simulator time. The seconds are rounded up first."""
    return -(-milliseconds // 1000) * credits_per_second


def seconds_for(amount: int, *, credits_per_second: int) -> int:
    """Return the whole seconds of simulator time that an amount of credits buys."""
    return amount // credits_per_second
