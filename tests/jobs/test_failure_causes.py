"""Causes of failures, from messages and statuses."""

import pytest

from jobs.failure_causes import FailureCause, cause_of, is_crash, named_cause

CHARACTER = "Unable to download JSON from 'https://eu.api.example.com/profile/wow/character/a/b'"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("Nothing to sim!", FailureCause.NOTHING),
        (f"Network error: {CHARACTER}", FailureCause.PLATFORM),
        (CHARACTER, FailureCause.PLATFORM),
        (f"{CHARACTER}: Blizzard API responded with internal server error (503), aborting", FailureCause.PLATFORM),
        (f"{CHARACTER}: Error response 404 from Blizzard API: Not Found", FailureCause.TEXT),
        (f"{CHARACTER}: HTTP 404", FailureCause.TEXT),
        ("Network error: Unable to download JSON from 'https://a/404/not found/1'", FailureCause.PLATFORM),
        (
            "Unable to authorize: Unable to fetch bearer token from 'https://a', response=401, error=",
            FailureCause.TEXT,
        ),
        (
            "Unable to authorize: Unable to fetch bearer token from 'https://a', response=0, error=x",
            FailureCause.PLATFORM,
        ),
        ("Network error: Could not resolve host: eu.api.example.com", FailureCause.PLATFORM),
        ("Network error: host not found", FailureCause.PLATFORM),
        ("Character not found", FailureCause.TEXT),
        ("Unable to download item id '5' at slot head", FailureCause.TEXT),
        ("Report output error: Unable to open json report 'report.json'", FailureCause.REPORT),
        ("Failed to open JSON output file 'report.json'.", FailureCause.REPORT),
        ("Error generating JSON report: JSON Writer did not accept document.", FailureCause.REPORT),
        ("write: No space left on device", FailureCause.DISK),
        ("std::bad_alloc", FailureCause.MEMORY),
        ("Error in child simulation (1): no spell", FailureCause.BUILD),
        ("locale::facet::_S_create_c_locale name not valid", FailureCause.BUILD),
        ("Player 'A' uses call_action_list with unknown action list nolist", None),
        ("Option 'race' with value 'network error, no space left': unknown race", None),
        ("", None),
    ],
)
def test_messages_name_their_cause(message: str, cause: FailureCause | None) -> None:
    assert named_cause(message) == cause


@pytest.mark.parametrize(
    ("message", "status", "cause"),
    [
        (None, 60, FailureCause.PLATFORM),
        (None, 61, FailureCause.REPORT),
        (None, 1, None),
        ("an error", 81, FailureCause.TEXT),
        ("Network error", 1, FailureCause.PLATFORM),
        (f"{CHARACTER}: Error response 404 from Blizzard API", 60, FailureCause.TEXT),
    ],
)
def test_a_message_decides_before_the_status(message: str | None, status: int, cause: FailureCause | None) -> None:
    assert cause_of(message, status) == cause


@pytest.mark.parametrize(
    ("code", "has_error", "expected"),
    [
        ("SIGSEGV", True, True),
        ("signal 40", True, True),
        ("11", False, True),
        ("11", True, False),
        ("134", True, True),
        ("139", False, True),
        ("143", False, False),
        ("1", False, False),
        (None, False, False),
    ],
)
def test_crashes_are_signals_or_status_11_without_error(
    code: str | None, has_error: object, expected: object
) -> None:
    assert is_crash(code, has_error=bool(has_error)) is expected
