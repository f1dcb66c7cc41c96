"""Files in a folder, safely on the disk once they are saved."""

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
    """A folder on this machine, or one that several machines mount.

    A row that names a file may be committed as soon as the file is saved: it is whole, under its name, and a power
    failure does not take it away.
    """

    def __init__(self, location: str) -> None:
        super().__init__(location, allow_overwrite=True)

    def _save(self, name: str, content: "File[bytes]") -> str:
        path = Path(self.path(name))
        changed = changed_folders(path)
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
            sync_folder(folder)
        return name

    def open_range(self, name: str, start: int, stop: int | None) -> IO[bytes]:  # noqa: ARG002 - a disk sends nothing unasked
        """Open a file to be read from byte `start`."""
        file = self.open(name)
        file.seek(start)
        return cast(IO[bytes], file)

    def listdir(self, path: str) -> tuple[list[str], list[str]]:
        """Return the folders and the files below a folder; none where there is no such folder."""
        try:
            folders, files = super().listdir(path)
        except FileNotFoundError:
            return [], []
        return folders, files

    def delete(self, name: str) -> None:
        """Remove a file, if it is there, and the folders that it leaves empty."""
        super().delete(name)
        with suppress(OSError):
            for folder in list(Path(self.path(name)).parents)[: name.count("/")]:
                folder.rmdir()

    def delete_many(self, names: Sequence[str]) -> None:
        """Remove files, those that are there."""
        for name in names:
            self.delete(name)


def changed_folders(path: Path) -> list[Path]:
    """Return the folders that get a new entry when a file is made: its own, and those of folders to be made."""
    return [path.parent, *(folder.parent for folder in path.parents if not folder.exists())]


def sync_folder(folder: Path) -> None:
    """Put a folder's own entries on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
