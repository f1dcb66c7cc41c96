"""The documentation lists each module that reads the process's own clock."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("billing", "clients", "dashboard", "jobs", "privacy", "simservice", "webhooks")
READS = re.compile(r"auto_now|timezone\.now\(|datetime\.now\(|time\.time\(|date\.today|localtime\(|localdate\(")


def readers() -> set[str]:
    """Return the modules that read the process's own clock, except migrations."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    found = {str(path.relative_to(ROOT)) for path in paths if READS.search(path.read_text())}
    return {path for path in found if "/migrations/" not in path}


def test_each_module_that_reads_the_process_clock_is_listed() -> None:
    _, _, section = (ROOT / "docs/explanation/clocks.md").read_text().partition("## Uses")
    listed = set(re.findall(r"`([a-z_/]+\.py)`", section)) - {"tests/test_clock_uses.py"}
    assert listed == readers()
