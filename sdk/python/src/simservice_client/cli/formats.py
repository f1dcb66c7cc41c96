"""Figures, times and states as people read them."""

import math
from datetime import datetime

from simservice_client import Cancellation
from simservice_client.models import ActorFigures, MainActor, Paused, ProfilesetFigures, Resumed

Figures = ActorFigures | MainActor | ProfilesetFigures

STATUS_COLOURS = {
    "completed": "green",
    "failed": "red",
    "timed out": "red",
    "cancelled": "yellow",
    "running": "yellow",
}
UNKNOWN = "-"
# With fewer fights, errors are unknown.
MIN_FIGHTS = 80


def whole(value: float | None) -> str:
    """Return a rounded number with thousands separators.

    >>> whole(239718.008)
    '239,718'
    """
    return UNKNOWN if value is None else f"{value:,.0f}"


def with_error(mean: float, error: float) -> str:
    """Return a mean with its margin of error."""
    return f"{whole(mean)} ± {whole(error)}"


def with_margin(value: float, base: float, *, margin: float | None) -> str:
    """Return the difference of a mean in percent of another, with its margin of error and rounded to it.

    >>> with_margin(1027.9, 1000, margin=2.3)
    '+2.8 % ± 0.2'
    >>> with_margin(1027.9, 1000, margin=None)
    '+2.8 %'
    """
    percent = percent_of(value, base)
    if percent is None:
        return UNKNOWN
    width = None if margin is None else margin / abs(base) * 100
    if not width:
        return f"{percent:+z,.1f} %"
    decimals = min(max(-math.floor(math.log10(float(f"{width:.0e}"))), 0), 2)
    return f"{percent:+z,.{decimals}f} % ± {max(width, 10.0**-decimals):,.{decimals}f}"


def percent_of(value: float, base: float) -> float | None:
    """Return the difference of a mean in percent of another, None if that is zero."""
    return (value - base) / abs(base) * 100 if base else None


def margin_between(first: Figures, second: Figures, *, factor: float) -> float | None:
    """Return the margin of error of the difference of two means, None if an error is unknown.

    `factor` widens it for the number of comparisons, as a verdict does.
    """
    if not (_has_error(first) and _has_error(second)):
        return None
    return factor * math.hypot(first.mean_error, second.mean_error)


def _has_error(figures: Figures) -> bool:
    """Return whether the error of a mean is known, by the service's rule. A mean without any damage has none."""
    root_of_fights = figures.stddev / figures.mean_stddev if figures.mean_stddev > 0 else 0.0
    return not 0 < root_of_fights < math.sqrt(MIN_FIGHTS) and (figures.mean_error > 0 or figures.mean == 0)


def duration(seconds: float | None) -> str:
    """Return a length of time.

    >>> [duration(8.2), duration(150), duration(5000), duration(None)]
    ['8 s', '2 min 30 s', '1 h 23 min', '-']
    """
    if seconds is None:
        return UNKNOWN
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def moment(time: datetime | None) -> str:
    """Return a local time."""
    return UNKNOWN if time is None else time.astimezone().strftime("%Y-%m-%d %H:%M")


def state(status: str) -> str:
    """Return a status in words."""
    return status.replace("_", " ")


def paused(answer: Paused) -> str:
    """Return what the answer to a request to pause a job says."""
    return f"Job {answer.id} {'is paused' if answer.status == 'paused' else 'is being paused'}."


def resumed(answer: Resumed) -> str:
    """Return what the answer to a request to resume a job says."""
    return f"Job {answer.id} is {state(answer.status)}."


def cancelled(answer: Cancellation) -> str:
    """Return what the answer to a cancellation says."""
    return f"Job {answer.id} {'is cancelled' if answer.status == 'cancelled' else 'is being cancelled'}."
