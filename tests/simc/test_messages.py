"""Error messages and warnings of the simulator."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simc.messages import distinct, failure_message, is_cut_short, listed, printed_warnings, warnings
from simc.report_reader import read_report

UNKNOWN = "Warning: Unknown option 'json3' with value 'o3.json', ignoring"
NO_LIST = "Player 'Frosty' uses call_action_list with unknown action list nolist"
NO_ITEM = "Unable to initialize item 'inactive' base data on player 'X'"
BAD_SET = "Profileset 'a' Setup failure: Unexpected parameter 'b'"
BAD_HASH = "Initialization error: Player 'X': Hash 'G': Not enough characters."
PRIORITY = "Could not set process priority.: Operation not permitted"
ASSERTION = "simc: {}generic.hpp:546: To as(From): Assertion `f == static_cast<From>( t )' failed."
STUCK = "Simulator likely stuck on thread=0, iteration=12, seed=1, player=A, canceling ..."
HEALER = "Druid restoration healing for player A is not currently supported."
HOTFIX = (
    "[2025-03-26]: PTR-Hotfix 'Bolts' for spell 'Bolt (9)' effect#2 (8) failed verification. DBC: 3.0, Verify: 1"
)
CHILD = "Error in child simulation (1): Player 'A' could not find spell data"
SETUP = "Simulation has been canceled during player setup! (thread=0)"


def message_of(stderr: str) -> str | None:
    return failure_message(stderr.split("\n"))


class TestFailureMessage:
    @pytest.mark.parametrize(
        ("stderr", "cause"),
        [
            ("Warning: a\nError: first\nError: second\nbye\n", "first"),
            (f"ERROR! {BAD_SET}\n", BAD_SET),
            (f"Error: {NO_LIST}\nError: Canceled\n", NO_LIST),
            (f"{UNKNOWN}\n{NO_LIST}\n{SETUP}\nError: Canceled\n", NO_LIST),
            (f"{PRIORITY}\n{NO_LIST}\n{SETUP}\nError: Canceled\n", NO_LIST),
            (f"Trivial: not verified\nSevere: {NO_LIST}\nTrivial: {SETUP}\nError: Canceled\n", NO_LIST),
            (f"\n{NO_ITEM}\n\n{SETUP}{' ' * 20}\n", NO_ITEM),
            (f"Error: {BAD_HASH}", BAD_HASH),
            (f"{UNKNOWN}\n{ASSERTION.format('/opt/engine/./util/')}\n", ASSERTION.format("")),
            (
                "terminate called after throwing an instance of 'std::runtime_error'\n  what():  no wheel\n",
                "no wheel",
            ),
            (f"{UNKNOWN}\n{NO_LIST}\n{STUCK}\n{SETUP}\nError: Canceled\n", STUCK),
            (f"An item is old\n{HEALER}\nNo active players in sim!\nSimulation was canceled.\nbye", HEALER),
            (f"{HOTFIX}\n{HEALER}\n{HOTFIX}\n{SETUP}\n", HEALER),
            ("No active players in sim!\nSimulation was canceled.\n", "No active players in sim!"),
            (
                "Simulation has been canceled after 37 iterations! (thread=0)  ",
                "Simulation has been canceled after 37 iterations! (thread=0)",
            ),
            (f"An item is old\n{CHILD}\nSimulation has been canceled after 37 iterations!", CHILD),
            (f"{UNKNOWN}\nError: Canceled\n", "The simulator cancelled the run without giving a reason."),
        ],
        ids=[
            "two errors",
            "2020",
            "error",
            "remark",
            "sandbox",
            "graded",
            "no error line",
            "2026",
            "assertion",
            "exception",
            "stuck",
            "healer",
            "hotfixes",
            "consequence",
            "only cancelled",
            "thread",
            "no cause",
        ],
    )
    def test_is_the_first_error(self, stderr: str, cause: str) -> None:
        assert message_of(stderr) == cause

    @pytest.mark.parametrize("stderr", ["", "Warning: x", "Error:", "Error: \x01", "an Error: x", NO_LIST])
    def test_without_an_error_is_none(self, stderr: str) -> None:
        assert message_of(stderr) is None

    def test_control_characters_are_removed(self) -> None:
        assert message_of("Error: a\x1b\x00\u202e\ud800b\tc") == "a<U+202E>bc"

    @pytest.mark.parametrize("invisible", ["\ufeff", "\u00a0", "\u200b", "\u3164", "\u2028", "\U000e0041"])
    def test_invisible_characters_are_named(self, invisible: str) -> None:
        message = f"Unknown option '{invisible}warrior'"
        assert message_of(f"Error: {message}") == message.replace(invisible, f"<U+{ord(invisible):04X}>")

    def test_long_messages_are_cut(self) -> None:
        assert len(message_of("Error: " + "x" * 9999) or "") == 500

    @pytest.mark.parametrize(
        ("message", "shown"),
        [
            ("Unable to open '/srv/runs/12/profile.simc'", "Unable to open 'profile.simc'"),
            ("/a/b.simc: no", "b.simc: no"),
            ("item hat,bonus_id=7187/1498/6935", "item hat,bonus_id=7187/1498/6935"),
            ("actions+=/frost_bolt", "actions+=/frost_bolt"),
        ],
    )
    def test_folders_are_removed(self, message: str, shown: str) -> None:
        assert message_of(f"Error: {message}") == shown

    @given(st.text())
    def test_any_text_is_handled(self, text: str) -> None:
        message = message_of(f"{text}\nError: {text}")
        assert message is None or message.isprintable()

    @pytest.mark.parametrize(
        ("stdout", "cause"),
        [
            ("Nothing to sim! Usage: simc <profile> [option=value ...]", "Nothing to sim!"),
            (f"Base_Name\nDPS=5\nError: {BAD_HASH}", BAD_HASH),
            (f"a name\n{SETUP}", SETUP),
            (f"{UNKNOWN}\n{NO_LIST}", None),
        ],
    )
    def test_marked_lines_of_stdout_are_read_too(self, stdout: str, cause: str | None) -> None:
        assert failure_message([], stdout.split("\n")) == cause
        assert failure_message(["Error: first"], stdout.split("\n")) == "first"

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            (CHILD, True),
            ("Trivial: Simulation has been canceled after 37 iterations!", True),
            ("Simulation has been forcefully cancelled at 601.1 because twice the expected", False),
        ],
    )
    def test_a_simulator_says_that_it_ended_early(self, line: str, expected: object) -> None:
        assert is_cut_short(["", line]) is expected


class TestWarnings:
    def test_important_warnings_come_first_and_are_kept(self) -> None:
        renamed = "A has duplicate name, renaming to A1"
        bad_hash = "Player 'A' has an invalid talent tree hash"
        others = [f"w{chr(code)}" for code in range(0x4E00, 0x4E00 + 300)]
        assert distinct([HOTFIX]) == []
        found = listed([], distinct([*others, renamed, bad_hash, HOTFIX, UNKNOWN]))
        assert found[:4] == [UNKNOWN, bad_hash, renamed, others[0]]

    def test_unknown_options_are_told_apart_by_name(self) -> None:
        unknown = "Warning: Unknown option '{}' with value '{}', ignoring"
        lines = [unknown.format(*each) for each in (("gear1", 1), ("gear1", 2), ("gear2", 1))]
        assert warnings(lines) == [lines[0], lines[2]]

    def test_errors_and_interrupts_are_no_warnings(self) -> None:
        stderr = [
            UNKNOWN,
            "[the line above came 3 times in a row]",
            "Trivial: Implementation Not Yet Verified: x",
            "sim_signal_handler: Interrupt! Iteration=695 Seed=53 TargetHealth=61",
            " ProfileSet=sapphire_power_0",
            "Simulation has been canceled after 696 iterations! (thread=0)    ",
            "Error: no",
            "",
            "  Item 'hat' is ignored\t",
        ]
        assert warnings(stderr) == [UNKNOWN, "Implementation Not Yet Verified: x", "Item 'hat' is ignored"]

    def test_warnings_caused_by_the_sandbox_are_removed(self) -> None:
        assert warnings([PRIORITY, UNKNOWN]) == [UNKNOWN]

    def test_warnings_are_distinct_and_at_most_20(self) -> None:
        assert warnings(["Warning: a", "Trivial: Warning: a", "Warning: a "]) == ["Warning: a"]
        assert warnings(f"w{number}" for number in range(99)) == ["w0"]
        others = [f"w{chr(code)}" for code in range(0x4E00, 0x4E00 + 999)]
        assert warnings(others) == others[:200]
        assert listed(["a note"], others[:19]) == ["a note", *others[:19]]
        assert listed(["a note"], others[:20]) == ["a note", *others[:18], "2 more warnings are in the logs."]
        assert listed([], others)[19:] == ["At least 181 more warnings are in the logs."]

    def test_warnings_are_cut_and_printable(self) -> None:
        assert warnings(["\x1b[31mx\x00\ud800" + "y" * 999]) == ["[31mx" + "y" * 495]

    def test_only_marked_lines_of_stdout_are_warnings(self) -> None:
        assert printed_warnings(["DPS Ranking:", UNKNOWN, f"Moderate: {UNKNOWN}"]) == [UNKNOWN]

    @pytest.mark.parametrize(
        ("document", "expected"),
        [
            (
                {"logs": [{"level": "trivial", "message": UNKNOWN}, {"level": "trivial", "message": SETUP}]},
                [UNKNOWN],
            ),
            ({"notifications": [UNKNOWN, 5, UNKNOWN]}, [UNKNOWN]),
            ({"logs": [{"message": 5}, {}], "notifications": "none"}, []),
            ({}, []),
        ],
    )
    def test_warnings_of_both_report_layouts_are_read(self, document: dict[str, Any], expected: list[str]) -> None:
        report = {"sim": {"players": [{"name": "A"}]}, **document}
        read = read_report(io.BytesIO(json.dumps(report).encode()), max_bytes=9999)
        assert list(read.warnings) == expected

    @given(st.lists(st.text()))
    def test_any_lines_give_few_short_printable_warnings(self, lines: list[str]) -> None:
        messages = warnings(lines)
        assert len(messages) == len(set(messages)) <= 200
        assert all(text and text.isprintable() and len(text) <= 500 for text in messages)
