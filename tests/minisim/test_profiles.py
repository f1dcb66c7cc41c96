"""The bundled profiles."""

import pytest

from minisim.configuration import PROFILES
from tests.minisim.conftest import Run


@pytest.mark.parametrize("name", sorted(path.name for path in PROFILES.iterdir()))
def test_a_bundled_profile_runs_without_warnings(run: Run, name: str) -> None:
    result = run(name, "iterations=200", "target_error=5")
    assert (result.status, result.err) == (0, "")
    assert len(result.report["sim"]["players"][0]["gear"]) >= 15


def test_the_demo_profile_compares_twelve_profilesets(run: Run) -> None:
    result = run("frost_mage_gear.simc", "iterations=100")
    assert len(result.report["sim"]["profilesets"]["results"]) == 12
