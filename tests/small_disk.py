"""A small disk that a test can fill, if it has the right to mount file systems."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, *, kib: int) -> Iterator[Path]:
    """Mount a disk of this size on a new folder during the block. Skips the test without the right to do so."""
    folder.mkdir(mode=0o711)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount file systems")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607 - the system's program


def fill(folder: Path) -> Path:
    """Fill a disk, and return the file that does."""
    path = folder / "filler"
    with path.open("wb", 0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return path
