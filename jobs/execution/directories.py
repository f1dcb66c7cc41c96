"""Private directories of runs, and removal of those of dead processes.

Each run has a folder below `DATA_DIR/runs` and a lock file next to it. The run's process locks the file before
it creates the folder and until the folder is removed; the kernel frees the lock when the process ends. A folder
whose lock is free is therefore a leftover, from any host or container.
"""

import fcntl
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

from sandbox.private_directory import PrivateDirectory, remove_tree

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 60.0
LOCK_SUFFIX = ".lock"


@contextmanager
def private_directory() -> Iterator[PrivateDirectory]:
    """Create a directory for one run and remove it afterwards; if that fails, the next sweep removes it."""
    folder, lock = _locked_name()
    with lock:
        try:
            yield PrivateDirectory.create_as(folder)
        finally:
            _remove(folder)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a folder for the worker's files and remove it afterwards; if that fails, the next sweep removes it."""
    folder, lock = _locked_name()
    with lock:
        try:
            folder.mkdir(mode=0o700)
            yield folder
        finally:
            _remove(folder)


def remove_leftovers() -> None:
    """Remove the directories of runs whose process has ended. Safe to run concurrently and to kill at any time."""
    with suppress(FileNotFoundError):
        for folder in sorted({_folder_of(entry) for entry in runs().iterdir()}):
            _remove_if_dead(folder)


def sweep_leftovers() -> None:
    """Start a thread that removes leftovers now and every `SWEEP_SECONDS` while this process lives."""
    threading.Thread(target=_sweep_forever, name="run-directories", daemon=True).start()


def _sweep_forever() -> None:
    while True:
        try:
            remove_leftovers()
        except Exception:
            logger.exception("directories of dead runs could not be removed; the next sweep tries again")
        time.sleep(SWEEP_SECONDS)


def runs() -> Path:
    """Return the folder of all runs, including those of other machines that share `DATA_DIR`."""
    return settings.DATA_DIR / "runs"


def _locked_name() -> tuple[Path, BinaryIO]:
    """Return the name of a new folder, not created yet, and its lock, held by this process."""
    runs().mkdir(parents=True, exist_ok=True)
    while True:
        folder = runs() / f"{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(8)}"
        lock = try_lock(lock_of(folder))
        if lock is not None:  # None if a sweep removed it first
            return folder, lock


def lock_of(folder: Path) -> Path:
    return folder.with_name(folder.name + LOCK_SUFFIX)


def _folder_of(entry: Path) -> Path:
    """Return the folder that an entry of `runs` belongs to; it may no longer exist."""
    if entry.name.endswith(LOCK_SUFFIX) and entry.is_file() and not entry.is_symlink():
        return entry.with_name(entry.name.removesuffix(LOCK_SUFFIX))
    return entry


def try_lock(path: Path) -> BinaryIO | None:
    """Lock a file, created if missing. Return None if a process holds its lock or has just removed it."""
    # NFS locks only files that are open for writing.
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(file.fileno()), path.lstat()):
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    file.close()
    return None


def _remove_if_dead(folder: Path) -> None:
    """Remove a folder whose lock is free."""
    with suppress(OSError):  # for example another user's folder, which their own workers remove
        lock = try_lock(lock_of(folder))
        if lock is not None:
            with lock:
                _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder, then its lock file. The caller holds the lock. The next sweep retries failures."""
    try:
        if folder.is_dir() and not folder.is_symlink():
            remove_tree(folder)
        else:
            folder.unlink(missing_ok=True)
        lock_of(folder).unlink(missing_ok=True)
    except OSError:
        # The simulator of a killed worker can take a moment to die.
        logger.warning("%s could not be removed; the next sweep tries again", folder, exc_info=True)
