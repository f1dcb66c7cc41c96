"""Exit statuses and messages of minisim."""

import pytest

from tests.minisim.conftest import MAGE, Run


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("nowhere.simc", "Error: Unexpected parameter 'nowhere.simc'. Expected format: name=value"),
        ("input=nowhere.simc", "Error: Unable to open input parameter file 'nowhere.simc'."),
        ("threads=x", "Error: Option 'threads' with value 'x': Could not parse 'x' as an integer"),
        ("fixed_time=2", "Error: Option 'fixed_time' with value '2': Acceptable values are '1' or '0'"),
        ("fight_style=Nope", "Error: Option 'fight_style' with value 'Nope': Invalid fight style 'Nope'"),
        ("profileset_metric=dps/nope", "Invalid profileset metric 'nope'"),
        ("json=x,version=3", "Cannot find JSON report version satisfying '3'"),
        ("output=/nowhere/x", "Error: Unable to open output file '/nowhere/x'"),
        ("max_time=1000000", "Not within valid boundaries"),
        ("armory=eu,realm,name", "minisim imports no characters"),
        ("copy=b,nobody", "Invalid source for profile copy"),
        ("x=$(y)", "Error: Missing template variable: 'y'"),
    ],
)
def test_invalid_input_exits_with_1_and_no_report(run: Run, option: str, message: str) -> None:
    result = run(MAGE, option)
    assert result.status == 1
    assert message in result.err
    assert not (result.directory / "report.json").exists()


def test_a_profile_without_players_is_an_error(run: Run) -> None:
    result = run("enemy=Boss")
    assert (result.status, result.err) == (1, "Error: Nothing to sim!\n")


def test_deterministic_excludes_a_target_error(run: Run) -> None:
    assert run(MAGE, "deterministic=1").status == 0
    assert run(MAGE, "deterministic=1", "target_error=1").status == 1


@pytest.mark.parametrize("option", ["html=/nowhere/x", "json2=/nowhere/x", "json=."])
def test_an_unwritable_report_does_not_change_the_status(run: Run, option: str) -> None:
    result = run(MAGE, option)
    assert result.status == 0
    assert result.err.startswith("Unable to write the ")
    assert result.dps["count"] == 100


def test_an_invalid_profileset_cancels_the_simulation(run: Run) -> None:
    result = run(f"{MAGE} iterations=5000\nprofileset.good+=level=70\nprofileset.bad+=level=x")
    assert result.status == 1
    assert "Error: Profileset 'bad': Option 'level'" in result.err
    assert result.dps["count"] < 5000
    assert "profilesets" not in result.report["sim"]


def test_a_profileset_cannot_add_actors(run: Run) -> None:
    assert "cannot define additional actors" in run(f"{MAGE}\nprofileset.a+=copy=b").err
