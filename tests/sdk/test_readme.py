"""The programs of the library's README run against a real stack."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stack import QUICK, Stack

pytestmark = [pytest.mark.xdist_group("api"), pytest.mark.timeout(240)]
README = Path(__file__).resolve().parents[2] / "sdk" / "python" / "README.md"
FIVE_LINES, JOBS, BATCH, AT_ONCE, _ = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
PROFILE = QUICK + "profileset.trinket+=head=,id=1,ilevel=700\n"


def run(program: str, stack: Stack, folder: Path) -> str:
    """Run a program in a folder with a profile, and return what it prints."""
    (folder / "mage.simc").write_text(PROFILE)
    own = {"SIMSERVICE_URL": stack.ready["url"], "SIMSERVICE_API_KEY": stack.ready["apiKey"]}
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=os.environ | own, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_five_lines(stack: Stack, tmp_path: Path) -> None:
    program = FIVE_LINES.replace("http://127.0.0.1:8000", stack.ready["url"])
    program = program.replace("your API key", stack.ready["apiKey"])
    assert len(program.strip().splitlines()) == 5
    assert re.fullmatch(r"Quick [0-9]+\n", run(program, stack, tmp_path))


def test_jobs(stack: Stack, tmp_path: Path) -> None:
    setup = "from pathlib import Path\nfrom simservice_client import Client\nclient = Client()\n"
    output = run(f"{setup}text = open('mage.simc').read()\n{JOBS}", stack, tmp_path)
    assert re.search(r"^http.*\n(.*\n)*trinket [0-9.]+ [0-9.]+\nTrue [0-9]+\n", output)
    assert (tmp_path / "reports" / "report.html").stat().st_size > 1000


def test_a_batch(stack: Stack, tmp_path: Path) -> None:
    setup = "from simservice_client import Client, submission\nclient = Client()\n"
    profiles = "profiles = [open('mage.simc').read()] * 3\n"
    assert re.fullmatch(r"([0-9]{18}\n){3}", run(setup + profiles + BATCH, stack, tmp_path))


def test_many_at_once(stack: Stack, tmp_path: Path) -> None:
    body = "\n".join(f"    {line}" for line in AT_ONCE.splitlines())
    program = (
        "import asyncio\nfrom simservice_client import AsyncClient\n"
        "profiles = [open('mage.simc').read()] * 3\n"
        f"async def main():\n{body}\n    print(len(results))\nasyncio.run(main())\n"
    )
    assert run(program, stack, tmp_path) == "3\n"
