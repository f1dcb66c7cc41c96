"""A program that is given only an address and a key gets a ranking from `/llms.txt`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stack import Stack

PROGRAM = Path(__file__).with_name("llms_reader.py")

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("stack")]


def test_the_program_knows_no_address_of_the_api(stack: Stack) -> None:
    source = PROGRAM.read_text()
    assert (
        re.findall(r"/v1|/docs|jobs|profileset|completed|mainActor|verdict\.text", source.partition('"""\n\n')[2])
        == []
    )
    command = [sys.executable, str(PROGRAM), stack.ready["url"], stack.ready["apiKey"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (job,) = stack.call("GET", "jobs?limit=1")["jobs"]
    results = stack.call("GET", f"jobs/{job['id']}/result")["result"]["summary"]["mainActor"]["profilesets"][
        "results"
    ]
    assert len(results) == 2
    assert done.stdout.splitlines() == [f"{entry['mean']:.1f} {entry['name']}" for entry in results]
