"""How fast a profile is analysed; about a second."""

import sys
import time
import tracemalloc

from jobs.profiles.analysis import Bounds, analyse
from jobs.profiles.policy import Rules

PROFILESETS = 20_000
ROUNDS = 5


def large_profile() -> str:
    """About 2 MB: one actor and many profilesets, each of a name, an item and a number to clamp."""
    item = "trinket1=orb,id={0},ilevel=680,bonus_id=1/2/3/4"
    lines = (
        f'profileset."Set {number}"+={item.format(number)}\nprofileset."Set {number}"+=iterations=500000'
        for number in range(PROFILESETS)
    )
    return 'mage="Ada"\n' + "\n".join(lines)


def analysis_seconds(text: str) -> float:
    """Wall seconds of one analysis."""
    started = time.perf_counter()
    found = analyse(text, rules=Rules(), bounds=Bounds(iterations=250_000, target_error=0.01))
    assert found.variants == PROFILESETS
    return time.perf_counter() - started


def main() -> None:
    text = large_profile()
    megabytes = len(text.encode()) / 1e6
    seconds = min(analysis_seconds(text) for _ in range(ROUNDS))
    tracemalloc.start()
    analysis_seconds(text)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    rows = {
        f"analysing {PROFILESETS:,} profilesets": f"{megabytes / seconds:.1f} MB/s",
        "memory of that analysis": f"{peak:.0f} MB",
    }
    sys.stdout.writelines(f"{name:<34}{figure:>20}\n" for name, figure in rows.items())


if __name__ == "__main__":
    main()
