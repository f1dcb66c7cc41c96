"""The data folder of a local stack: its lock, secrets, logs and `stack.env`."""

import fcntl
import json
import os
import secrets
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from localstack.console import LocalStackError

LOG_BYTES = 5 * 1024 * 1024  # A larger log is rotated at the next start. One older log is kept.


class DataFolder:
    """All data of one stack. Two stacks cannot share a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.files = self.path / "files"
        self._secrets = self.path / "secrets.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create and lock the folder until the end of the block or of this process.

        Raises LocalStackError if another stack uses the folder or it cannot be written.
        """
        try:
            # Simulators run as other users, which need to reach their working directories.
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
                    f"A stack already runs on {self.path}. Stop it, or choose another folder with --data."
                ) from error
            yield

    def secrets(self) -> dict[str, Any]:
        """Return the stored secrets; create those that are missing.

        Raises LocalStackError if the file cannot be read.
        """
        stored = self._read_secrets()
        created = {
            "secretKey": secrets.token_urlsafe(48),
            "databasePassword": secrets.token_hex(24),
            "redisPassword": secrets.token_hex(24),
        }
        if created.keys() - stored.keys():
            stored = created | stored
            self.save_secrets(stored)
        return stored

    def _read_secrets(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self._secrets.read_text()))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise LocalStackError(f"{self._secrets} is damaged. Remove it to create new secrets.") from error

    def save_secrets(self, values: Mapping[str, Any]) -> None:
        """Replace all stored secrets."""
        replace_file(self._secrets, json.dumps(values, indent=2) + "\n")

    def save_environment(self, settings: Mapping[str, str]) -> None:
        """Write `stack.env`, which a shell can load to run `manage.py` against this stack."""
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in settings.items()]
        replace_file(self.path / "stack.env", "".join(lines))

    def log(self, name: str) -> Path:
        """Return the log file of a program. Rotate it if it is larger than LOG_BYTES."""
        log = self.path / "logs" / f"{name}.log"
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
        return log


def replace_file(path: Path, text: str, *, owner: str | None = None) -> None:
    """Replace a file atomically. Only its owner (None: the user of this process) can read it.

    A link at `path` is replaced, not followed.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(handle)
        if owner is not None:
            shutil.chown(handle, owner, owner)
    Path(temporary).replace(path)
