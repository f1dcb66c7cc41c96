"""How `simctl` prints texts, times and arguments of others."""

import argparse
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from simservice_client.cli import arguments, formats, logs, text
from simservice_client.cli.parser import COMMANDS, make_parser
from simservice_client.models import ActorFigures, LogEntry
from simservice_client.submissions import Options

SECRETS = {"bnet_client_id", "bnet_client_secret"}


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2J\x07", r"\x1b[2J\x07"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\u202etxt.exe", r"\u202etxt.exe"),
        ("zero\u200bwidth\u2028", r"zero\u200bwidth\u2028"),
        ("\x9b31m", r"\x9b31m"),
        ("\ud800", r"\ud800"),
        ("Zoë 얼음 ± 🧊", "Zoë 얼음 ± 🧊"),
    ],
)
def test_text_that_controls_a_terminal_is_escaped(hostile: str, shown: str) -> None:
    assert text.printable(hostile) == shown


@pytest.mark.parametrize("part", ["x", "얼", "e\u0301"])
def test_a_long_text_is_shortened_to_columns(part: str) -> None:
    short = text.shortened(300 * part, 10)
    assert text.width(short) in (9, 10)
    assert short.endswith("…")
    assert text.width(text.padded(short, 12)) == 12


@pytest.mark.parametrize(
    ("given", "ago"), [("30m", timedelta(minutes=30)), ("12h", timedelta(hours=12)), ("2w", timedelta(weeks=2))]
)
def test_a_time_can_be_given_as_an_age(given: str, ago: timedelta) -> None:
    assert abs(datetime.now(UTC) - ago - arguments.since(given)) < timedelta(minutes=1)


def test_a_time_can_be_given_as_a_date_or_a_time() -> None:
    assert arguments.since("2026-01-31T12:00Z") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert arguments.since("2026-01-31").tzinfo is UTC


@pytest.mark.parametrize("given", ["", "yesterday", "99999w9", "-1d", "٣d", "2026-13-01"])
def test_other_times_are_refused(given: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        arguments.since(given)


@pytest.mark.parametrize("given", ["0", "-1", "1.5", "x", "", "٣", "9" * 12])
def test_numbers_must_be_positive(given: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        arguments.positive(given)


def test_metadata_is_split_at_the_first_sign() -> None:
    assert arguments.pair("a=b=c") == ("a", "b=c")
    assert arguments.pair("a=") == ("a", "")


@pytest.mark.parametrize("given", ["a", "=b", ""])
def test_metadata_needs_a_name_and_a_sign(given: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        arguments.pair(given)


@pytest.mark.parametrize("command", ["run", "check"])
def test_every_option_of_a_submission_has_an_argument(command: str) -> None:
    chosen = make_parser().parse_args([command, "x.simc"])
    assert set(Options.__annotations__) - SECRETS <= set(vars(chosen))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_the_common_options_on_both_sides(command: str) -> None:
    values = {"run": ["x"], "check": ["x"], "compare": ["1", "2"], "completion": ["bash"]}
    positional = values.get(
        command, ["1"] if command in ("show", "logs", "cancel", "pause", "resume", "download") else []
    )
    common = ["--url", "http://x", "--json"]
    for argv in ([*common, command, *positional], [command, *common, *positional]):
        chosen = make_parser().parse_args(argv)
        assert (chosen.url, chosen.json) == ("http://x", True)


def figures(mean: float = 100.0, error: float = 3.0, *, fights: int = 80) -> ActorFigures:
    standard = error / 1.96
    spread = {"mean_stddev": standard, "stddev": standard * (fights + 0.5) ** 0.5, "min": 0.0, "max": 1.0}
    return ActorFigures(name="", mean=mean, mean_error=error, **spread)


def test_the_margin_of_a_difference_combines_both_errors_and_the_factor() -> None:
    assert formats.margin_between(figures(), figures(error=4.0), factor=2.0) == 10.0
    assert formats.margin_between(figures(), figures(mean=0.0, error=0.0), factor=2.0) == 6.0


@pytest.mark.parametrize("other", [figures(error=0.0), figures(fights=79)])
def test_a_margin_is_unknown_without_both_errors(other: ActorFigures) -> None:
    assert formats.margin_between(figures(), other, factor=2.0) is None


def test_a_tiny_standard_error_is_known() -> None:
    tiny = replace(figures(), mean_stddev=1e-300)
    assert formats.margin_between(tiny, figures(), factor=1.0) == pytest.approx(3 * 2**0.5)


def test_a_change_from_zero_is_unknown() -> None:
    assert formats.with_margin(1.0, 0.0, margin=1.0) == formats.UNKNOWN


def entries(*messages: str) -> list[LogEntry]:
    return [LogEntry(source="stdout", message=message, ts=1) for message in messages]


@pytest.mark.parametrize(
    ("seen", "now", "new"),
    [
        ("", "ab", "ab"),
        ("ab", "ab", ""),
        ("ab", "abc", "c"),
        ("abc", "bcde", "de"),
        ("aa", "aaa", "a"),
        ("ab", "xy", "xy"),
        ("ab", "", ""),
    ],
)
def test_followed_lines_are_printed_once(seen: str, now: str, new: str) -> None:
    assert list(logs.new_entries(entries(*seen), entries(*now))) == entries(*new)
