"""Programs of this package, which run outside Django."""

import os
import subprocess
import sys

import pytest

from tests.stack import ROOT


@pytest.mark.parametrize("program", ["loading", "looks", "screenshots"])
def test_programs_start_without_settings(program: str) -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DJANGO_SETTINGS_MODULE", "SECRET_KEY", "DATABASE_URL", "REDIS_URL")
    }
    command = [sys.executable, "-c", f"import tests.browser.{program}"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
