"""The data folder of one local stack: its lock, its secrets, its logs and the environment for a shell."""

import fcntl
import json
import os
import secrets
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from localstack.console import LocalStackError

LOG_BYTES = 5 * 1024 * 1024
"""A log longer than this is put aside at the next start; one older log is kept."""


class DataFolder:
    """Everything that a stack keeps; two stacks need two folders."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.files = self.path / "files"
        self._secrets = self.path / "secrets.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Makes the folder ours until the block ends or the process dies.

        Raises LocalStackError when another stack runs on it, or it cannot be written.
        """
        try:
            # Simulators under an identity of their own must pass through to their working directories.
            for folder in (self.path, self.files):
                folder.mkdir(mode=0o711, parents=True, exist_ok=True)
            for folder in (self.files / "artifacts", self.path / "logs"):
                folder.mkdir(mode=0o700, exist_ok=True)
            lock = (self.path / "lock").open("w")
        except OSError as error:
            raise LocalStackError(f"The data folder cannot be used: {error}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LocalStackError(
                    f"A stack already runs on {self.path}: stop it, or choose another folder with --data."
                ) from error
            yield

    def secrets(self) -> dict[str, Any]:
        """Return the stored secrets; create those that are missing.

        Raises LocalStackError if the file cannot be read.
        """
        kept = self._kept_secrets()
        made = {
            "secretKey": secrets.token_urlsafe(48),
            "databasePassword": secrets.token_hex(24),
            "redisPassword": secrets.token_hex(24),
        }
        if made.keys() - kept.keys():
            kept = made | kept
            self.keep_secrets(kept)
        return kept

    def _kept_secrets(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self._secrets.read_text()))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise LocalStackError(f"{self._secrets} is damaged: remove it to have new secrets made.") from error

    def keep_secrets(self, kept: Mapping[str, Any]) -> None:
        """Replaces the kept secrets as a whole."""
        _write_private(self._secrets, json.dumps(kept, indent=2) + "\n")

    def keep_environment(self, settings: Mapping[str, str]) -> None:
        """Writes `stack.env`, which a shell reads to talk to the running stack with manage.py."""
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in settings.items()]
        _write_private(self.path / "stack.env", "".join(lines))

    def log(self, name: str) -> Path:
        """The log file of one program, started afresh when the last one has grown long."""
        log = self.path / "logs" / f"{name}.log"
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
        return log


def _write_private(path: Path, text: str) -> None:
    """Replaces a file at once: readers see the old text or the new, and only its owner sees either."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(handle)
    Path(temporary).replace(path)
