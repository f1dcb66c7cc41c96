"""The price of simulator time: `docs/reference/limits.md#billing`."""


def of_time(milliseconds: int, *, credits_per_second: int) -> int:
    """Return the credits for simulator time. The seconds are rounded up first."""
    return -(-milliseconds // 1000) * credits_per_second


def seconds_for(amount: int, *, credits_per_second: int) -> int:
    """Return the whole seconds of simulator time that an amount of credits buys."""
    return amount // credits_per_second


def in_words(
    milliseconds: int | None, *, credits_per_second: int, fee: int, charged: int, slots: int | None = None
) -> str:
    """Return how the charge for a job adds up, for example "2 s billed (1.3 s, rounded up) × 32 credits = 64".

    A job that was stopped at its limit, or when the credits ran out, is charged what it had reserved.
    """
    if not milliseconds:
        return f"Fee: {fee:,} credits" if charged else "Not charged, because no simulator ran"
    seconds, ran = -(-milliseconds // 1000), milliseconds / 1000
    on_slots = f" on {slots} slots" if slots and slots > 1 else ""
    if milliseconds % 1000:
        # As many decimals as show that it is not a whole number
        exact = next(text for digits in (1, 2, 3) if not (text := f"{ran:,.{digits}f}").endswith("0" * digits))
        time = f"{seconds:,} s billed ({exact} s{on_slots}, rounded up)"
    else:
        time = f"{seconds:,} s{on_slots}"
    price = f"{time} × {credits_per_second:,} credit{'' if credits_per_second == 1 else 's'}"
    extra = f" + {fee:,} fee" if fee else ""
    if charged - fee == of_time(milliseconds, credits_per_second=credits_per_second):
        return f"{price}{extra} = {charged:,}"
    return f"{price}{extra}, charged up to the reserved {charged:,} credits"
