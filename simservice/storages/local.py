"""Storage of files in a folder. A saved file survives a power failure."""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from django.core.files import File
from django.core.files.storage import FileSystemStorage

FILE_MODE = 0o644


class LocalStorage(FileSystemStorage):
    """A folder on this machine, or a shared folder that several machines mount.

    Once a file is saved, it is complete on the disk, so a row that refers to it can be committed.
    """

    def __init__(self, location: str) -> None:
        super().__init__(location, allow_overwrite=True)

    def _save(self, name: str, content: "File[bytes]") -> str:
        path = Path(self.path(name))
        changed = _changed_folders(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        try:
            with part.open("wb") as file:
                shutil.copyfileobj(content, file)
                file.flush()
                os.fsync(file.fileno())
            part.chmod(FILE_MODE)
            part.replace(path)
        except BaseException:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise
        for folder in changed:
            _sync_folder(folder)
        return name

    def open_range(self, name: str, start: int, stop: int | None) -> IO[bytes]:  # noqa: ARG002 - only buckets need `stop`
        """Open a file for reading from byte `start`."""
        file = self.open(name)
        file.seek(start)
        return cast(IO[bytes], file)

    def listdir(self, path: str) -> tuple[list[str], list[str]]:
        """Return the folders and files in a folder: none if it does not exist."""
        try:
            folders, files = super().listdir(path)
        except FileNotFoundError:
            return [], []
        return folders, files

    def delete(self, name: str) -> None:
        """Remove a file, if it exists, and the parent folders that are empty then."""
        super().delete(name)
        with suppress(OSError):
            for folder in list(Path(self.path(name)).parents)[: name.count("/")]:
                folder.rmdir()

    def delete_many(self, names: Sequence[str]) -> None:
        """Remove files; missing ones are ignored."""
        for name in names:
            self.delete(name)


def _changed_folders(path: Path) -> list[Path]:
    """Return the folders that get a new entry when a file is created: its own, and the parents of new folders."""
    return [path.parent, *(folder.parent for folder in path.parents if not folder.exists())]


def _sync_folder(folder: Path) -> None:
    """Write a folder's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
