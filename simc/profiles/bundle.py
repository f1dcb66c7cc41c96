"""Files that come with a build: which of them can be included, their names and their text.

Bundles are untrusted: links are never followed, and no file is read beyond its limit.
"""

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from simc.profiles.grammar import decode

SUFFIX = ".simc"
MAX_FILE_BYTES = 2 << 20
MAX_FILES = 5_000
# A profile cannot name a file with these: quotes are deleted, and a dollar sign can begin a template.
INVALID_CHARACTERS = frozenset('"$')

LINK = "it is a symbolic link, and links are not followed"
NOT_REGULAR = "it is not a regular file"
NOT_TEXT = "it is not a text file"
BAD_NAME = "its name contains control characters, quotes, dollar signs or bytes that are not UTF-8"


class UnusableFile(Exception):
    """A bundled file that cannot be read; the message says why."""


class TooManyFiles(Exception):
    """A folder with more than `MAX_FILES` bundled files."""


class UnknownInclude(Exception):
    """A name that matches no bundled file, or several; the message says which."""


class Bundle:
    """Bundled files that can be included, by their path below a folder or by their file name."""

    def __init__(self, folder: Path, paths: Iterable[str]) -> None:
        self.folder = folder
        self.paths = frozenset(paths)
        self._by_file_name = _by_file_name(self.paths)

    def find(self, name: str) -> str:
        """Return the path that a name refers to. Raises UnknownInclude.

        Bundled files can also use a part of the path, or begin with the bundle's folder, because the simulator
        searches several folders (`docs/reference/simulator-command-line.md#include-search-path`).
        """
        below = name.removeprefix("./")
        for path in (name, below, below.removeprefix("profiles/"), below.removeprefix(f"{self.folder.name}/")):
            if path in self.paths:
                return path
        same_name = self._by_file_name[below.rpartition("/")[2]]
        matches = [path for path in same_name if f"/{path}".endswith(f"/{below}")]
        if not matches:
            raise UnknownInclude("the build has no such file that can be included")
        if len(matches) > 1:
            raise UnknownInclude(f"several files have this name; include one by its path: {', '.join(matches[:5])}")
        return matches[0]

    def read(self, path: str) -> str:
        """Return the text of a file. Raises UnusableFile."""
        return read(self.folder, path)


def _by_file_name(paths: Iterable[str]) -> defaultdict[str, list[str]]:
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(paths):
        by_name[path.rpartition("/")[2]].append(path)
    return by_name


def names(paths: Iterable[str]) -> Iterator[str]:
    """Yield all names that a profile can include: paths, and file names that are unique."""
    for name, matches in _by_file_name(paths).items():
        yield from matches
        if len(matches) == 1:
            yield name


def scan(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the sorted paths of usable files in a folder, and why others are unusable. Raises TooManyFiles."""
    usable: list[str] = []
    unusable: dict[str, str] = {}
    for number, path in enumerate(_entries(folder, unusable), start=1):
        if number > MAX_FILES:
            raise TooManyFiles(f"{folder} has more than {MAX_FILES:,} files that end in {SUFFIX}.")
        try:
            is_valid = path.isprintable() and INVALID_CHARACTERS.isdisjoint(path)
            # The file is not opened.
            problem = _file_problem(os.lstat(folder / path)) if is_valid else BAD_NAME
        except OSError as error:
            problem = f"it cannot be read: {error.strerror}"
        if problem:
            unusable[_shown(path)] = problem
        else:
            usable.append(path)
    return sorted(usable), unusable


def _entries(folder: Path, unusable: dict[str, str]) -> Iterator[str]:
    """Yield the paths of a folder's bundled files; folders that cannot be entered are added to `unusable`."""

    def note(error: OSError) -> None:
        unusable[_shown(os.path.relpath(error.filename, folder))] = f"it cannot be read: {error.strerror}"

    for parent, folders, files in os.walk(folder, onerror=note):
        within = Path(parent)
        for name in folders:
            if (within / name).is_symlink():
                unusable[_shown(str((within / name).relative_to(folder)))] = LINK
        yield from (str((within / name).relative_to(folder)) for name in files if name.endswith(SUFFIX))


def _file_problem(status: os.stat_result) -> str | None:
    if stat.S_ISLNK(status.st_mode):
        return LINK
    if not stat.S_ISREG(status.st_mode):
        return NOT_REGULAR
    if status.st_size > MAX_FILE_BYTES:
        return f"it has {status.st_size:,} bytes; the limit is {MAX_FILE_BYTES:,}"
    return None


def read(folder: Path, path: str) -> str:
    """Return the text of a file below a folder. Raises UnusableFile."""
    try:
        with _open_below(folder, path) as file:
            problem = _file_problem(os.fstat(file.fileno()))
            if problem:
                raise UnusableFile(problem)
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UnusableFile(f"it cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise UnusableFile(f"it has more than {MAX_FILE_BYTES:,} bytes")
    if b"\0" in data:
        raise UnusableFile(NOT_TEXT)
    return decode(data)


def _open_below(folder: Path, path: str) -> BinaryIO:
    """Open a file below a folder without following a link. Raises OSError."""
    *parents, name = PurePosixPath(path).parts
    parent = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parents:
            child = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
            os.close(parent)
            parent = child
        # O_NONBLOCK, because opening a FIFO would wait for its writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.fdopen(os.open(name, flags, dir_fd=parent), "rb")
    finally:
        os.close(parent)


def _shown(name: str) -> str:
    """Return a name with unprintable characters escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in name)
