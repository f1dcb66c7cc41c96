"""The bench on which hostile simulators run, once for each way to contain them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.simulator.bench import Bench, alive, sandboxes


@pytest.fixture(params=sandboxes(), ids=lambda sandbox: "bubblewrap" if sandbox.bubblewrap else "plain")
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """Return a bench; whatever a test did there, no process and no file of the run is left over afterwards."""
    bench = Bench(tmp_path, request.param)
    with bench.directory:
        yield bench
    assert alive(tmp_path) == []
    assert not bench.directory.root.exists()


@pytest.fixture
def open_place() -> Iterator[Path]:
    """Return a directory that every user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)
