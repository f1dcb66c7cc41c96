"""The command line of minisim: order of options, includes, unknown options and the executable."""

import subprocess
from pathlib import Path

import pytest

from tests.minisim.conftest import EXECUTABLE, MAGE, Run


def test_an_argument_is_one_token(run: Run) -> None:
    assert run(MAGE, "iterations=50 threads=2").dps["count"] == 50


def test_the_last_value_wins(run: Run) -> None:
    assert run(f"{MAGE} iterations=70\niterations=60").dps["count"] == 60


def test_options_after_the_profile_win(run: Run) -> None:
    assert run("iterations=9999 " + MAGE, "iterations=25").report["sim"]["options"]["iterations"] == 25


def test_included_files_are_read_in_place(run: Run, tmp_path: Path) -> None:
    (tmp_path / "more.simc").write_text("iterations=40\nlevel=60")
    result = run(f"{MAGE} iterations=30\nmore.simc\nlevel=70")
    assert result.dps["count"] == 40
    assert result.report["sim"]["players"][0]["level"] == 70


def test_bundled_profiles_are_found_by_name(run: Run) -> None:
    result = run("input=fury_warrior.simc iterations=30")
    assert result.report["sim"]["players"][0]["specialization"] == "Fury Warrior"


def test_a_directory_is_an_empty_file(run: Run) -> None:
    assert run(f".. {MAGE}").status == 0


def test_files_that_include_each_other_are_an_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "loop.simc").write_text("loop.simc")
    assert "too deeply" in run("loop.simc").err


def test_templates_are_expanded(run: Run) -> None:
    assert run(f"$(n)=35\n{MAGE}\niterations=$(n)").dps["count"] == 35


@pytest.mark.parametrize(("before", "after", "iterations"), [("iterations=30", "", 40), ("", "iterations=30", 30)])
def test_options_after_an_enemy_override_a_profileset(run: Run, before: str, after: str, iterations: int) -> None:
    profile = f"{MAGE}\n{before}\nenemy=B\n{after}\nprofileset.a+=iterations=40"
    (result,) = run(profile).report["sim"]["profilesets"]["results"]
    assert result["iterations"] == iterations


def test_a_profileset_has_its_own_target_error(run: Run) -> None:
    sets = "profileset.a+=iterations=0\nprofileset.a+=target_error=2\nprofileset.b+=level=79"
    own, inherited = run(f"{MAGE}\niterations=130\n{sets}").report["sim"]["profilesets"]["results"]
    assert own["mean_error"] <= 0.02 * own["mean"]
    assert (own["iterations"], inherited["iterations"]) == (100, 130)


def test_an_unknown_option_is_only_a_warning(run: Run) -> None:
    result = run(MAGE, "bogus=1")
    warning = "Warning: Unknown option 'bogus' with value '1', ignoring"
    assert (result.status, result.err) == (0, warning + "\n")
    assert result.report["logs"] == [{"level": "trivial", "message": warning}]


def test_strict_parsing_rejects_later_unknown_options(run: Run) -> None:
    assert run(MAGE, "bogus=1", "strict_parsing=1").status == 0
    assert run(MAGE, "strict_parsing=1", "bogus=1").status == 1


@pytest.mark.parametrize(
    "option",
    [
        "proxy=http,127.0.0.1,3128",
        "default_region=us",
        "thumbnail=https://render.example.com/1.jpg",
        "decorated_tooltips=0",
        "hosted_html=0",
        "calculate_scale_factors=1",
    ],
)
def test_options_of_the_real_simulator_raise_no_warning(run: Run, option: str) -> None:
    result = run(MAGE, option)
    assert (result.status, result.err) == (0, "")


@pytest.mark.parametrize("character", ["\ufeff", "\u00a0", "\u200b"])
def test_an_invisible_character_is_part_of_a_name(run: Run, character: str) -> None:
    result = run(f"{MAGE}\n{character}level=60\nrace=gnome")
    assert (result.status, result.err) == (
        0,
        f"Warning: Unknown option '{character}level' with value '60', ignoring\n",
    )
    player = result.report["sim"]["players"][0]
    assert (player["level"], player["race"]) == (80, "gnome")


@pytest.mark.parametrize("character", ["\ufeff", "\u00a0", "\u200b"])
def test_a_class_after_an_invisible_character_is_no_actor(run: Run, character: str) -> None:
    result = run(f"{MAGE}\n{character}warrior=Bob\nlevel=60")
    assert f"Unknown option '{character}warrior' with value 'Bob', ignoring" in result.err
    (player,) = result.report["sim"]["players"]
    assert (player["name"], player["level"]) == ("Ada", 60)


@pytest.mark.parametrize("character", ["\u00a0", "\u200b"])
def test_a_profileset_after_one_is_lost_with_a_warning(run: Run, character: str) -> None:
    result = run(f"{MAGE}\n{character}profileset.a+=level=60\nprofileset.b+=level=70")
    assert f"Unknown option '{character}profileset.a+'" in result.err
    assert [row["name"] for row in result.report["sim"]["profilesets"]["results"]] == ["b"]


def test_a_byte_order_mark_at_the_start_is_skipped(run: Run) -> None:
    assert run(f"\ufeff{MAGE}").err == ""


def test_a_name_can_contain_a_whole_glued_line(run: Run) -> None:
    result = run('mage="A"level=60profileset.B+=gear_intellect=4000\niterations=30')
    sim = result.report["sim"]
    assert sim["players"][0]["name"] == "Alevel=60profileset.B+=gear_intellect=4000"
    assert "profilesets" not in sim


def test_a_name_option_renames_the_actor(run: Run) -> None:
    result = run("mage=export_2026\nname=Hoarfrostine\niterations=30")
    assert result.report["sim"]["players"][0]["name"] == "Hoarfrostine"
    assert "Player: Hoarfrostine " in result.out


def test_actors_with_the_same_name_are_renamed(run: Run) -> None:
    result = run("mage=Ada\nmage=Bea\nmage=x\nname=Ada\nenemy=Ada\niterations=30")
    remark = "Ada has duplicate name, renaming to Ada1. Please use unique names for all players in simulation."
    assert (result.status, result.err) == (0, remark + "\n")
    assert [player["name"] for player in result.report["sim"]["players"]] == ["Ada1", "Bea", "Ada"]


def test_an_unknown_option_of_a_double_equals_is_a_warning(run: Run) -> None:
    result = run(f'{MAGE}\nprofileset."a == b"+=level=60')
    assert result.status == 0
    assert "Warning: Unknown option '' with value ' b+=level=60', ignoring" in result.err


def test_real_profile_lines_raise_no_warning(run: Run) -> None:
    lines = """source=default\nrace=void_elf\nrole=spell\nposition=back\ntalents=CAE\ncovenant=venthyr
        soulbind=nadjia\npotion=x_3\nset_bonus=tier_2pc=1\nactions.precombat=flask\nactions+=/frostbolt,if=a>=1
        default_pet=felguard\ngear_crit_rating=900\nwarlock.pets=1\ngems.ruby_power=3\noptimal_raid=0
        override.bloodlust=1\nenemy=Boss\npet=cat,Tom\nactive=owner\nlegendary.x=1"""
    assert run(f"{MAGE}\n{lines}").err == ""


@pytest.mark.parametrize("player", ["deathknight", "evoker", "player_simplified", "rime", "xavian"])
def test_players_of_all_versions_are_known(run: Run, player: str) -> None:
    assert run(f'{player}="A B"\niterations=10').report["sim"]["players"][0]["name"] == "A B"


@pytest.mark.parametrize("environment", [{}, {"PYTHONPATH": "."}])
def test_the_current_directory_shadows_no_module(tmp_path: Path, environment: dict[str, str]) -> None:
    for name in ("numpy.py", "json.py", "minisim.py", "jobs.py"):
        (tmp_path / name).write_text("raise SystemExit(99)")
    command: list[str | Path] = [EXECUTABLE, "frost_mage.simc", "iterations=10", "json2=report.json"]
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert process.returncode == 0


def test_the_executable_works_through_a_symbolic_link(tmp_path: Path) -> None:
    link = tmp_path / "simc"
    link.symlink_to(EXECUTABLE)
    process = subprocess.run([link, "display_build=2"], capture_output=True, cwd="/", env={}, text=True, check=True)
    assert process.stdout.startswith("minisim ")


def test_an_argument_that_is_not_utf_8_is_latin_1(tmp_path: Path) -> None:
    command = [bytes(EXECUTABLE), b"mage=Zo\xeb", b"iterations=10"]
    process = subprocess.run(command, capture_output=True, cwd=tmp_path, env={}, check=True)
    assert "Zoë" in process.stdout.decode()
