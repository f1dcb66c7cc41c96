"""Storage of files in a folder. A saved file survives a power failure."""

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, cast

from django.core.files import File
from django.core.files.storage import FileSystemStorage

# Only the service's own user reads them.
FILE_MODE, FOLDER_MODE = 0o600, 0o700
BUFFER_BYTES = 64 << 10


class LocalStorage(FileSystemStorage):
    """A folder on this machine, or a shared folder that several machines mount.

    Once a file is saved, it is complete on the disk, so a row that refers to it can be committed.
    """

    def __init__(self, location: str) -> None:
        super().__init__(location, allow_overwrite=True)

    def _save(self, name: str, content: "File[bytes]") -> str:
        self.save_many({name: cast(IO[bytes], content)})
        return name

    def save_many(self, files: Mapping[str, IO[bytes]]) -> None:
        """Save files together, because that needs fewer commits of the file system's journal."""
        paths = {Path(self.path(name)): content for name, content in files.items()}
        folders = {path.parent for path in paths}
        changed = {each for folder in folders for each in self._create_folder(folder)}
        parts = {path.with_name(f"{path.name}.part"): path for path in paths}
        try:
            _write(dict(zip(parts, paths.values(), strict=True)))
            for part, path in parts.items():
                part.replace(path)
        except BaseException:
            for part in parts:
                with suppress(OSError):
                    part.unlink(missing_ok=True)
            raise
        for folder in changed:
            _sync_folder(folder)

    def _create_folder(self, folder: Path) -> list[Path]:
        """Create a folder for new files; return all folders that get a new entry, including parents of new ones."""
        if folder.is_dir():
            return [folder]
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            # The folders above the storage also contain the directories of runs, which run as other users.
            mode = FOLDER_MODE if each.is_relative_to(self.location) else 0o755
            each.mkdir(mode=mode, exist_ok=True)
        return [folder, *(each.parent for each in missing)]

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
        """Remove files; missing ones are ignored. Raises OSError after all others if one is not removed."""
        failed: OSError | None = None
        for name in names:
            try:
                self.delete(name)
            except OSError as error:
                failed = error
        if failed is not None:
            raise failed


def _write(files: Mapping[Path, IO[bytes]]) -> None:
    """Write files to the disk. Raises OSError."""
    with ExitStack() as opened:
        written = [opened.enter_context(_create(path)) for path in files]
        for file, content in zip(written, files.values(), strict=True):
            shutil.copyfileobj(content, file)
            file.flush()
        for file in written:
            os.fsync(file.fileno())


def _create(path: Path) -> IO[bytes]:
    """Create a file that only the service's user can open."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "wb", BUFFER_BYTES)


def _sync_folder(folder: Path) -> None:
    """Write a folder's entries to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
