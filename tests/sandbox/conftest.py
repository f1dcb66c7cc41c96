"""Fixtures for tests of the sandbox."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.children import children, descendants
from sandbox.client import launcher
from tests.sandbox.bench import Bench, alive, eventually, sandboxes


@pytest.fixture(params=sandboxes(), ids=lambda sandbox: "bubblewrap" if sandbox.bubblewrap else "plain")
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """Return a bench for each sandbox of this machine. Afterwards, only idle supervisors may remain."""
    bench = Bench(tmp_path, request.param)
    with bench.directory:
        yield bench
    assert alive(tmp_path) == []
    process = launcher.process
    assert process is None or eventually(lambda: descendants(process.pid) == children(process.pid))
    assert not bench.directory.root.exists()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Return a directory that every user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o755)
        yield Path(path)


@pytest.fixture
def closed_build(open_directory: Path) -> Path:
    """Return a build, next to a secret, in a home directory that only its owner can enter."""
    build = open_directory / "home" / "src" / "build"
    build.mkdir(parents=True)
    (build / "data").write_text("its own")
    (open_directory / "home" / "secret").write_text("somebody's")
    (open_directory / "home").chmod(0o700)
    return build
