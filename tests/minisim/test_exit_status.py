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


@pytest.mark.parametrize("style", ["Nope", "Patchwork", ""])
def test_an_unknown_fight_style_exits_with_11(run: Run, style: str) -> None:
    result = run(MAGE, f"fight_style={style}")
    message = f"Error: Option 'fight_style' with value '{style}': Invalid fight style '{style}'\n"
    assert (result.status, result.err) == (11, message)
    assert not (result.directory / "report.json").exists()


def test_a_profilesets_fight_style_exits_with_1(run: Run) -> None:
    result = run(f"{MAGE}\nprofileset.a+=fight_style=Nope")
    assert result.status == 1
    assert "Invalid fight style 'Nope'" in result.err


def test_an_unknown_item_is_an_error(run: Run) -> None:
    result = run("mage=Ada\nwrists=,id=990924\niterations=100")
    message = "Error: Initializing: Actor 'Ada': Item 'inactive' Slot 'wrists': Cannot initialize data\n"
    assert (result.status, result.err) == (1, message)
    assert not (result.directory / "report.json").exists()


def test_an_unknown_items_name_is_in_the_message(run: Run) -> None:
    assert "Actor 'Ada': Item 'cuffs' Slot 'wrists': Cannot" in run(f"{MAGE}\nwrist=cuffs,id=990924").err


def test_a_profileset_with_an_unknown_item_cancels_the_run(run: Run) -> None:
    result = run(f"{MAGE}\nprofileset.a+=head=,id=999999")
    assert result.status == 1
    assert "Profileset 'a'" in result.err
    assert "Slot 'head': Cannot initialize data" in result.err


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
    assert "ERROR! Profileset 'bad' Setup failure: Option 'level'" in result.err
    assert result.dps["count"] < 5000
    assert "profilesets" not in result.report["sim"]


def test_a_profileset_cannot_add_actors(run: Run) -> None:
    assert "cannot define additional actors" in run(f"{MAGE}\nprofileset.a+=copy=b").err
