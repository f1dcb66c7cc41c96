"""Values of arguments."""

import re
from argparse import ArgumentTypeError
from datetime import datetime, timedelta, timezone

AGO = re.compile(r"(?P<number>[0-9]{1,5})(?P<unit>[mhdw])")
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def positive(text: str) -> int:
    """Return a whole number of at least 1."""
    if not text.isascii() or not text.isdigit() or not 0 < len(text) < 10 or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def pair(text: str) -> tuple[str, str]:
    """Return the two sides of KEY=VALUE."""
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return name, value


def since(text: str) -> datetime:
    """Return a time: `30m`, `12h`, `7d` or `2w` ago, or a date or time, local without a time zone."""
    ago = AGO.fullmatch(text)
    try:
        if ago is not None:
            return datetime.now(timezone.utc) - timedelta(**{UNITS[ago["unit"]]: int(ago["number"])})
        return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise ArgumentTypeError(f"{text!r} is neither a time ago (12h, 7d) nor a date (2026-01-31)") from None
