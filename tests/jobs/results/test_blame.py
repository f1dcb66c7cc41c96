"""Causes of failures, from messages and statuses."""

import pytest

from jobs.results.blame import Cause, cause_of, is_crash, named_cause

CHARACTER = "Unable to download JSON from 'https://eu.api.example.com/profile/wow/character/a/b'"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("Nothing to sim!", Cause.NOTHING),
        (f"Network error: {CHARACTER}", Cause.PLATFORM),
        (CHARACTER, Cause.PLATFORM),
        (f"{CHARACTER}: Blizzard API responded with internal server error (503), aborting", Cause.PLATFORM),
        (f"{CHARACTER}: Error response 404 from Blizzard API: Not Found", Cause.TEXT),
        (f"{CHARACTER}: HTTP 404", Cause.TEXT),
        ("Network error: Unable to download JSON from 'https://a/404/not found/1'", Cause.PLATFORM),
        ("Unable to authorize: Unable to fetch bearer token from 'https://a', response=401, error=", Cause.TEXT),
        ("Unable to authorize: Unable to fetch bearer token from 'https://a', response=0, error=x", Cause.PLATFORM),
        ("Network error: Could not resolve host: eu.api.example.com", Cause.PLATFORM),
        ("Network error: host not found", Cause.PLATFORM),
        ("Character not found", Cause.TEXT),
        ("Unable to download item id '5' at slot head", Cause.TEXT),
        ("Report output error: Unable to open json report 'report.json'", Cause.REPORT),
        ("Failed to open JSON output file 'report.json'.", Cause.REPORT),
        ("Error generating JSON report: JSON Writer did not accept document.", Cause.REPORT),
        ("write: No space left on device", Cause.DISK),
        ("std::bad_alloc", Cause.MEMORY),
        ("Error in child simulation (1): no spell", Cause.BUILD),
        ("locale::facet::_S_create_c_locale name not valid", Cause.BUILD),
        ("Player 'A' uses call_action_list with unknown action list nolist", None),
        ("Option 'race' with value 'network error, no space left': unknown race", None),
        ("", None),
    ],
)
def test_messages_name_their_cause(message: str, cause: Cause | None) -> None:
    assert named_cause(message) == cause


@pytest.mark.parametrize(
    ("message", "status", "cause"),
    [
        (None, 60, Cause.PLATFORM),
        (None, 61, Cause.REPORT),
        (None, 1, None),
        ("an error", 81, Cause.TEXT),
        ("Network error", 1, Cause.PLATFORM),
        (f"{CHARACTER}: Error response 404 from Blizzard API", 60, Cause.TEXT),
    ],
)
def test_a_message_decides_before_the_status(message: str | None, status: int, cause: Cause | None) -> None:
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
