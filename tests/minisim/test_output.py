"""Standard output of minisim, with progress lines in both formats."""

import re

import pytest

from tests.minisim.conftest import MAGE, Run

PROGRESS = re.compile(
    r"Generating (Baseline|Profileset):( .+)? \d+/\d+ \[=*>?\.*\] \d+/\d+ \d+\.\d{3}"
    r"( Mean=\d+ Error=\d+\.\d{3}%)?( \d+min)?( \d+sec| [\d.]+(msec)?)?( \(.+s\))? *"
)


def progress_lines(out: str) -> list[str]:
    return [line for line in re.split(r"[\r\n]", out) if line.startswith("Generating ") and "[" in line]


def test_the_version_line_comes_first_and_names_minisim(run: Run) -> None:
    line = run(MAGE).out.splitlines()[0]
    assert re.match(r"minisim \d+\.\d+\.\d+ for World of Warcraft \d+\.\d+\.\d+\.\d+ Live \(", line)
    assert "not SimulationCraft" in line


def test_the_version_line_precedes_errors(run: Run) -> None:
    assert run("nowhere.simc").out.startswith("minisim ")


def test_a_probe_needs_no_actor(run: Run) -> None:
    result = run("", "display_build=2")
    assert (result.status, result.out.count("\n"), result.err) == (0, 1, "")


@pytest.mark.parametrize("options", ["iterations=2000", "iterations=0 target_error=0.3"])
def test_progress_lines_have_the_real_format(run: Run, options: str) -> None:
    lines = progress_lines(run(f'{MAGE} {options}\n"profileset.A B"+=level=70\n"profileset.C D"+=level=70').out)
    assert len(lines) > 8
    assert all(PROGRESS.fullmatch(line) for line in lines)
    assert any("Profileset: C D 3/3" in line for line in lines)
    assert all(("Error=" in line) == ("target_error" in options) for line in lines)


def test_only_the_last_update_of_a_phase_ends_its_line(run: Run) -> None:
    out = run(f"{MAGE}\nprofileset.a+=level=70").out
    assert re.findall(r"(Baseline|Profileset: a)[^\r\n]* 100/100 [^\r\n]*\n", out) == ["Baseline", "Profileset: a"]
    assert len(re.findall(r"Generating [^\r\n]* (?:25|50|75)/100 [^\r\n]*\r", out)) == 6


def test_with_a_target_error_a_full_bar_can_grow(run: Run) -> None:
    bars = []
    for seed in range(1, 13):
        out = run(f"{MAGE} iterations=0 target_error=0.8 analyze_error_interval=25 seed={seed}").out
        found = [tuple(map(int, pair)) for pair in re.findall(r"\] (\d+)/(\d+) ", out)]
        assert found[-1][0] == found[-1][1]
        assert all(done <= total for done, total in found)
        bars += found[:-1]
    assert any(done == total for done, total in bars)


def test_progress_can_be_tabular(run: Run) -> None:
    rows = [
        line.split("\t")
        for line in run(MAGE, "progressbar_type=1", "target_error=0.1").out.splitlines()
        if "\t" in line
    ]
    assert rows[-1][:5] == ["Baseline", "1", "1", "100", "100"]
    assert len(rows[-1]) == 9


def test_the_text_report_follows_the_progress(run: Run) -> None:
    out = run(f"{MAGE}\nprofileset.low+=level=60\nprofileset.high+=main_hand=x,ilevel=700").out
    order = ["Simulating... ( iterations=100,", "Generating reports...", "DPS Ranking:", "Player: Ada ", "  DPS="]
    order += [
        "Profilesets (median Damage per Second):",
        " : high",
        " : low",
        "Baseline Performance:",
        "report took",
    ]
    positions = [out.index(part) for part in order]
    assert positions == sorted(positions)


def test_output_writes_the_text_report_to_a_file(run: Run) -> None:
    result = run(MAGE, "output=text.txt")
    assert "DPS Ranking:" not in result.out
    assert "DPS Ranking:" in (result.directory / "text.txt").read_text()
