"""How `simctl` prints stat weights."""

import copy
from typing import Any

import pytest

from jobs.api.result import EXAMPLE_DETAILS, EXAMPLE_RESULT
from simservice_client.cli.console import Console
from simservice_client.cli.exits import Exit
from simservice_client.cli.weights import print_weights
from simservice_client.models import JobResult
from tests.sdk.commands import Simctl
from tests.sdk.fake_service import Answer, Service, example


def result(actor: dict[str, Any] | None = None, **summary: Any) -> JobResult:
    """Return the example with changes of its actor and its summary."""
    example: dict[str, Any] = copy.deepcopy(dict(EXAMPLE_RESULT))
    example["result"]["summary"] |= summary
    if actor is None:
        del example["result"]["details"]
    else:
        example["result"]["details"]["actors"][0] |= actor
    return JobResult.from_json(example)


def printed(found: JobResult, capsys: pytest.CaptureFixture[str]) -> str:
    print_weights(Console(), found)
    return capsys.readouterr().out


def test_weights_are_a_table_with_the_pawn_string(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(result({}), capsys).splitlines() == [
        "",
        "Example: stat weights",
        "Stat       Relative  DPS per point     ±",
        "Intellect      1.00          27.86  5.54",
        "Haste          0.46          12.83  5.54",
        '( Pawn: v1: "Example-Frost": Class=Mage, Spec=Frost, Intellect=27.86, HasteRating=12.83 )',
        "Example: plots of Haste; see the share link.",
    ]


def test_unknown_errors_and_hostile_names_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    weights = EXAMPLE_DETAILS["actors"][0]["weights"]
    stats = [{"stat": "\x1b[2J", "name": "\x1b[2J", "weight": -2.0}]
    found = result({"name": "a\nb", "plots": [], "weights": {**weights, "normalized": True, "stats": stats}})
    text = printed(found, capsys)
    assert r"a\nb: stat weights" in text
    assert r"\x1b[2J" in text
    assert "-1.00" in text
    assert "In the report" in text or "in the report" in text


def test_without_details_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(result(), capsys) == ""


@pytest.mark.parametrize("command", ["show 1", "run -"])
@pytest.mark.parametrize(("fights", "reads"), [(None, 1), (0, 1), (1400, 2)])
def test_details_are_read_only_if_there_are_weights(
    simctl: Simctl, service: Service, command: str, fights: int | None, reads: int
) -> None:
    service.answers["GET /v1/sim/jobs/{job_id}/status"] = [
        Answer(example("GET /v1/sim/jobs/{job_id}/status") | {"status": "completed"})
    ]
    found = result() if fights is None else result(additional_fights=fights)
    service.answers["GET /v1/sim/jobs/{job_id}/result"] = [Answer(found.to_json())]
    assert simctl.call(*command.split(), stdin=b'mage="Frost"\n').returncode == Exit.COMPLETED
    asked = [
        query
        for request, query in zip(service.requests, service.queries, strict=True)
        if request.endswith("/result")
    ]
    assert asked == ["", "include=details"][:reads]
