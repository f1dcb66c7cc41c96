"""Template filters for moments and durations."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from dashboard.templatetags import times

NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _stop_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.utils.timezone.now", lambda: NOW)


@pytest.mark.parametrize(
    ("before", "text"),
    [
        (timedelta(seconds=59), "just now"),
        (timedelta(seconds=60), "1 minute ago"),
        (timedelta(minutes=59, seconds=59), "59 minutes ago"),
        (timedelta(hours=1), "1 hour ago"),
        (timedelta(hours=47), "1 day ago"),
        (timedelta(days=29, hours=23), "29 days ago"),
        (timedelta(days=30), "2026-10-30"),
        (-timedelta(seconds=59), "in less than a minute"),
        (-timedelta(hours=2, minutes=30), "in 2 hours"),
    ],
)
def test_a_moment_is_relative_up_to_a_month(before: timedelta, text: str) -> None:
    assert f">{text}</time>" in times.ago(NOW - before)


def test_a_moment_has_its_exact_time_in_utc() -> None:
    moment = datetime(2026, 11, 29, 2, 33, 10, tzinfo=timezone(timedelta(hours=1)))
    exact = '<time datetime="2026-11-29T01:33:10Z" title="2026-11-29 01:33:10 UTC">'
    assert times.utc(moment) == f"{exact}2026-11-29 01:33 UTC</time>"
    assert times.day(moment) == f"{exact}2026-11-29</time>"
    assert times.ago(moment) == f"{exact}10 hours ago</time>"


def test_a_date_has_no_time() -> None:
    assert times.day(date(2026, 1, 2)) == '<time datetime="2026-01-02">2026-01-02</time>'


def test_no_moment_is_empty() -> None:
    assert [times.ago(None), times.utc(None), times.day(None)] == ["", "", ""]


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (None, "\N{EN DASH}"),
        (0, "0 s"),
        (0.123, "0.12 s"),
        (1, "1 s"),
        (1.34, "1.3 s"),
        (9.96, "10 s"),
        (45.4, "45 s"),
        (90, "90 s"),
        (91, "1 min 31 s"),
        (1800, "30 min"),
        (timedelta(seconds=3599.6), "60 min"),
        (3600, "1 h"),
        (7338.2, "2 h 2 min"),
        (100_000, "1 d 4 h"),
        (10**9, "11,574 d 2 h"),
    ],
)
def test_a_duration_has_at_most_two_units(length: Any, text: str) -> None:
    assert times.duration(length) == text
