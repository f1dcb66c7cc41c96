"""Speed of the built-in simulator on one core; takes ten seconds."""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXECUTABLE = Path(__file__).parents[1] / "minisim" / "minisim"
ITERATIONS = 100_000
PROFILESETS = 20_000


def seconds(*arguments: str, profile: str = "") -> tuple[float, float]:
    """Return the wall-clock and CPU seconds of one run in an empty directory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        command = [str(EXECUTABLE), "-", *arguments]
        subprocess.run(command, input=profile.encode(), cwd=directory, stdout=subprocess.DEVNULL, check=True)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def large_profile() -> str:
    """Return a profile of 2 MB: one actor and many profilesets."""
    gear = "trinket1=orb,id={0},ilevel=680,bonus_id=1/2/3/4/5/6,gem_id=11/12,enchant_id=13"
    lines = (f'profileset."Set {number}"+={gear.format(number)}' for number in range(PROFILESETS))
    return "mage=Ada\n" + "\n".join(lines)


def main() -> None:
    _, start = seconds("display_build=2")
    _, reading = seconds("display_build=2", profile=large_profile())
    _, fighting = seconds("frost_mage.simc", f"iterations={ITERATIONS}", "threads=1")
    wall, _ = seconds("frost_mage_gear.simc", "threads=1")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    rows = {
        "start": f"{start:.2f} CPU s",
        f"reading {PROFILESETS:,} profilesets": f"{reading - start:.2f} CPU s",
        "300 s fights of one actor": f"{ITERATIONS / (fighting - start):,.0f} / CPU s",
        "the quick start's demonstration": f"{wall:.1f} s",
        "peak resident memory": f"{peak:.0f} MB",
    }
    sys.stdout.writelines(f"{name:<34}{figure:>20}\n" for name, figure in rows.items())


if __name__ == "__main__":
    main()
